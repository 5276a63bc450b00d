//! Direct Preference Optimization (Rafailov et al. 2023).

use crate::algorithms::tabular::bradley_terry::{PairLoss, bradley_terry_loss};

/// −log σ(β h) as a function of the margin
///
/// ```text
/// h = [log π(y_w) − log π_ref(y_w)] − [log π(y_l) − log π_ref(y_l)]
/// ```
///
/// (Rafailov et al. 2023, equation 7): Bradley-Terry on the implicit rewards β log(π/π_ref), whose
/// unknown constant β log Z cancels in the difference. log 2 at π = π_ref.
pub fn dpo_loss(margin: f64, beta: f64) -> PairLoss {
    let likelihood = bradley_terry_loss(beta * margin);
    PairLoss { value: likelihood.value, slope: beta * likelihood.slope }
}

/// The reward that a policy implies, β log(π(y)/π_ref(y)), centred to mean 0 over the answers
/// because preferences fix rewards only up to a constant.
pub fn implicit_rewards(log_pi: &[f64], log_ref: &[f64], beta: f64) -> Vec<f64> {
    let raw: Vec<f64> = log_pi.iter().zip(log_ref).map(|(p, q)| beta * (p - q)).collect();
    centered(&raw)
}

/// `x` less its mean over the answers.
pub fn centered(x: &[f64]) -> Vec<f64> {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    x.iter().map(|v| v - mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foundation::stats::log_softmax;
    use crate::policy::optimal::log_optimal_policy;
    use proptest::prelude::*;

    #[test]
    fn loss_is_log_two_at_the_reference() {
        assert!((dpo_loss(0.0, 0.5).value - 2_f64.ln()).abs() < 1e-15);
        assert_eq!(dpo_loss(0.0, 0.5).slope, -0.25);
    }

    proptest! {
        #[test]
        fn slope_is_the_derivative_of_the_loss(margin in -20.0..20.0_f64, beta in 0.01..3.0_f64) {
            let value = |h| dpo_loss(h, beta).value;
            let numeric = (value(margin + 1e-5) - value(margin - 1e-5)) / 2e-5;
            prop_assert!((dpo_loss(margin, beta).slope - numeric).abs() < 1e-8);
        }

        /// The title of the paper: the optimal policy's implicit reward is the true reward.
        #[test]
        fn the_optimal_policy_implies_the_true_reward(
            raw in prop::collection::vec((-3.0..3.0_f64, -3.0..0.0_f64), 2..7), beta in 0.1..4.0_f64,
        ) {
            let (reward, logits): (Vec<f64>, Vec<f64>) = raw.into_iter().unzip();
            let log_ref = log_softmax(&logits);
            let star = log_optimal_policy(&log_ref, &reward, beta);
            for (got, want) in implicit_rewards(&star, &log_ref, beta).iter().zip(centered(&reward)) {
                prop_assert!((got - want).abs() < 1e-9);
            }
        }
    }
}
