//! REINFORCE (Williams 1992) with the batch mean as baseline, on a KL-penalised reward.

use crate::foundation::adam::Adam;
use crate::foundation::rng::Rng;
use crate::foundation::stats::probabilities;
use crate::policy::tabular::{TabularPolicy, pull_back};

/// Advantages A = R − mean(R). The baseline leaves the expected gradient's direction as it is and
/// removes most of its variance. A batch of equal returns gives exactly 0: the mean is taken of the
/// differences from the first return, so no rounding is left over.
pub fn advantages(returns: &[f64]) -> Vec<f64> {
    let Some(&first) = returns.first() else { return Vec::new() };
    let baseline = first + returns.iter().map(|r| r - first).sum::<f64>() / returns.len() as f64;
    returns.iter().map(|r| r - baseline).collect()
}

/// R = r − β (log π − log π_ref): the KL penalty, paid by each sample (Stiennon et al. 2020).
///
/// At the optimum π* it is the constant β log Z for every answer, so the gradient's *noise* vanishes
/// there along with its mean.
pub fn penalised_return(reward: f64, log_pi: f64, log_ref: f64, beta: f64) -> f64 {
    reward - beta * (log_pi - log_ref)
}

/// How a tabular policy is trained by REINFORCE.
#[derive(Clone, Copy, Debug)]
pub struct Reinforce {
    /// Updates, each on a fresh batch.
    pub steps: u64,
    /// Answers sampled per update.
    pub batch: usize,
    /// Adam's learning rate.
    pub lr: f64,
    /// Weight of the KL penalty.
    pub beta: f64,
}

/// Maximises E\[r\] − β KL(π ‖ π_ref) from samples, starting at the reference `log_ref` (K), with
/// loss −mean(A log π(y)). `observe(step, log π)` sees the policy before every update and after the
/// last. Returns log π.
pub fn train_reinforce(
    log_ref: &[f64],
    reward: &[f64],
    config: Reinforce,
    rng: &mut Rng,
    mut observe: impl FnMut(u64, &[f64]),
) -> Vec<f64> {
    let mut policy = TabularPolicy::from_log_probs(log_ref);
    let mut adam = Adam::new(log_ref.len(), config.lr);
    let mut gradient = vec![0.0; log_ref.len()];
    for step in 0..config.steps {
        let log_pi = policy.log_probs();
        observe(step, &log_pi);
        let pi = probabilities(&log_pi);
        let answers: Vec<usize> = (0..config.batch).map(|_| rng.categorical(&pi)).collect();
        let returns: Vec<f64> = answers
            .iter()
            .map(|&y| penalised_return(reward[y], log_pi[y], log_ref[y], config.beta))
            .collect();
        policy_gradient(&log_pi, &answers, &advantages(&returns), &mut gradient);
        adam.descend(&mut policy.logits, &gradient);
    }
    let log_pi = policy.log_probs();
    observe(config.steps, &log_pi);
    log_pi
}

/// The gradient of −mean(A log π(y)) by the logits, shape (K), into `gradient`.
fn policy_gradient(log_pi: &[f64], answers: &[usize], advantages: &[f64], gradient: &mut [f64]) {
    gradient.fill(0.0);
    for (&y, a) in answers.iter().zip(advantages) {
        gradient[y] -= a / answers.len() as f64;
    }
    pull_back(log_pi, gradient);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foundation::rng::Rng;
    use crate::foundation::stats::log_softmax;
    use crate::policy::optimal::{log_optimal_policy, objective};
    use proptest::prelude::*;

    #[test]
    fn equal_returns_have_no_advantage() {
        assert_eq!(advantages(&[0.3; 7]), [0.0; 7]);
        assert_eq!(advantages(&[1.0, 3.0]), [-1.0, 1.0]);
    }

    #[test]
    fn the_return_is_constant_at_the_optimum() {
        let log_ref = [0.2_f64, 0.3, 0.5].map(f64::ln);
        let reward = [1.0, -2.0, 0.5];
        let star = log_optimal_policy(&log_ref, &reward, 0.7);
        let returns: Vec<f64> =
            (0..3).map(|y| penalised_return(reward[y], star[y], log_ref[y], 0.7)).collect();
        assert!((returns[0] - returns[1]).abs() < 1e-12 && (returns[0] - returns[2]).abs() < 1e-12);
    }

    proptest! {
        /// Each answer as often as its probability says (exact expectation, baseline J): minus the
        /// policy gradient is the finite-difference gradient of E[r] − β KL.
        #[test]
        fn expected_gradient_is_that_of_the_objective(
            logits in prop::collection::vec(-2.0..2.0_f64, 3),
            reward in prop::collection::vec(-2.0..2.0_f64, 3),
            beta in 0.05..2.0_f64,
        ) {
            let log_ref = [0.2_f64, 0.3, 0.5].map(f64::ln);
            let log_pi = log_softmax(&logits);
            let baseline = objective(&log_pi, &log_ref, &reward, beta);
            let weighted: Vec<f64> = (0..3)
                .map(|y| {
                    let a = penalised_return(reward[y], log_pi[y], log_ref[y], beta) - baseline;
                    3.0 * log_pi[y].exp() * a // 3: policy_gradient takes the mean over answers
                })
                .collect();
            let mut gradient = vec![0.0; 3];
            policy_gradient(&log_pi, &[0, 1, 2], &weighted, &mut gradient);
            for k in 0..3 {
                let shifted = |by: f64| {
                    let mut moved = logits.clone();
                    moved[k] += by;
                    objective(&log_softmax(&moved), &log_ref, &reward, beta)
                };
                let numeric = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
                prop_assert!((-gradient[k] - numeric).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn two_runs_of_one_seed_are_equal_bit_for_bit() {
        let log_ref = [0.2_f64, 0.3, 0.5].map(f64::ln);
        let config = Reinforce { steps: 50, batch: 8, lr: 0.05, beta: 0.5 };
        let run = || train_reinforce(&log_ref, &[1.0, 0.0, -1.0], config, &mut Rng::new(3), |_, _| {});
        assert_eq!(run(), run());
    }
}
