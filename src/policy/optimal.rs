//! The exact optimum of the RLHF objective.
//!
//! Maximising E_π\[r(y)\] − β KL(π ‖ π_ref) over all distributions has the closed-form solution
//!
//! ```text
//! π*(y) = π_ref(y) exp(r(y)/β) / Z,        Z = Σ_y π_ref(y) exp(r(y)/β)
//! ```
//!
//! (Korbak et al. 2022, equation 4; Rafailov et al. 2023, equation 4). Its value is β log Z, and any
//! other policy falls short of it by exactly β KL(π ‖ π*).

use crate::foundation::stats::{expectation, kl_divergence, log_softmax, probabilities};

/// log π*(y) over a finite support; `log_ref` are log-probabilities, `reward` the r(y).
///
/// Works in log space at every β in [0, ∞]: at 0 it is π_ref restricted to the answers of highest
/// reward, at ∞ it is π_ref. An answer that π_ref excludes (−∞) stays excluded: RLHF redistributes
/// what the reference can say, it invents nothing.
pub fn log_optimal_policy(log_ref: &[f64], reward: &[f64], beta: f64) -> Vec<f64> {
    log_softmax(&tilted(log_ref, reward, beta))
}

/// E_π\[r\] − β KL(π ‖ π_ref): what RLHF maximises, for a given policy.
pub fn objective(log_pi: &[f64], log_ref: &[f64], reward: &[f64], beta: f64) -> f64 {
    expected_reward(log_pi, reward) - beta * kl_divergence(log_pi, log_ref)
}

/// E_π\[r\] from log-probabilities.
pub fn expected_reward(log_pi: &[f64], reward: &[f64]) -> f64 {
    expectation(&probabilities(log_pi), reward)
}

/// log π_ref(y) + (r(y) − highest) / β, highest among what π_ref can reach. Measuring the reward from
/// its highest keeps the quotient at or below 0, so that a tiny β cannot overflow.
fn tilted(log_ref: &[f64], reward: &[f64], beta: f64) -> Vec<f64> {
    let reachable = |lp: f64| lp > f64::NEG_INFINITY;
    let best = log_ref
        .iter()
        .zip(reward)
        .filter(|&(&lp, _)| reachable(lp))
        .fold(f64::NEG_INFINITY, |best, (_, &r)| best.max(r));
    let tilt = |(&lp, &r): (&f64, &f64)| {
        if !reachable(lp) {
            f64::NEG_INFINITY
        } else if r == best {
            lp // also at β = 0, where the quotient would be 0/0
        } else {
            lp + (r - best) / beta
        }
    };
    log_ref.iter().zip(reward).map(tilt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foundation::adam::Adam;
    use crate::foundation::rng::Rng;
    use crate::foundation::stats::logsumexp;
    use proptest::prelude::*;

    /// A random problem of 2 to 6 answers.
    fn problem() -> impl Strategy<Value = (Vec<f64>, Vec<f64>, f64)> {
        (2_usize..=6).prop_flat_map(|k| {
            (
                prop::collection::vec(-4.0..0.0_f64, k).prop_map(|x| log_softmax(&x)),
                prop::collection::vec(-3.0..3.0_f64, k),
                0.05..5.0_f64,
            )
        })
    }

    proptest! {
        /// J(π) = β log Z − β KL(π ‖ π*) for every π: the identity that makes π* the maximiser.
        #[test]
        fn every_policy_falls_short_by_beta_kl((log_ref, reward, beta) in problem(), seed: u64) {
            let star = log_optimal_policy(&log_ref, &reward, beta);
            let tilted: Vec<f64> = log_ref.iter().zip(&reward).map(|(lp, r)| lp + r / beta).collect();
            let value = beta * logsumexp(&tilted); // β log Z
            prop_assert!((objective(&star, &log_ref, &reward, beta) - value).abs() < 1e-9);
            let other = Rng::new(seed).log_dirichlet(0.7, log_ref.len());
            let shortfall = value - objective(&other, &log_ref, &reward, beta);
            prop_assert!((shortfall - beta * kl_divergence(&other, &star)).abs() < 1e-9 * (1.0 + beta));
            prop_assert!(shortfall >= -1e-12);
        }

        /// The independent check: Adam on the logits, with finite differences of the objective for a
        /// gradient, knows nothing of the closed form and ends at the same policy.
        #[test]
        fn brute_force_ascent_ends_at_the_closed_form((log_ref, reward, beta) in problem()) {
            let beta = beta.max(0.3); // sharper optima are saturated: slow to climb, not different
            let value = |logits: &[f64]| objective(&log_softmax(logits), &log_ref, &reward, beta);
            let mut logits = log_ref.clone();
            let mut adam = Adam::new(logits.len(), 0.03);
            for _ in 0..3000 {
                let descent: Vec<f64> = (0..logits.len())
                    .map(|k| {
                        let shifted = |by: f64| {
                            let mut moved = logits.clone();
                            moved[k] += by;
                            value(&moved)
                        };
                        (shifted(-1e-5) - shifted(1e-5)) / 2e-5
                    })
                    .collect();
                adam.descend(&mut logits, &descent);
            }
            for (found, star) in log_softmax(&logits).iter().zip(log_optimal_policy(&log_ref, &reward, beta)) {
                prop_assert!((found.exp() - star.exp()).abs() < 1e-3);
            }
        }
    }

    #[test]
    fn beta_zero_is_the_argmax_set_and_infinity_the_reference() {
        let log_ref = [0.2_f64, 0.3, 0.5].map(f64::ln);
        let greedy = log_optimal_policy(&log_ref, &[1.0, 1.0, 0.0], 0.0);
        assert!((greedy[0].exp() - 0.4).abs() < 1e-12 && (greedy[1].exp() - 0.6).abs() < 1e-12);
        assert_eq!(greedy[2].exp(), 0.0);
        let tiny = log_optimal_policy(&log_ref, &[1.0, 1.0, 0.0], 1e-320);
        assert_eq!(tiny, greedy);
        let reference = log_optimal_policy(&log_ref, &[1.0, 2.0, 3.0], f64::INFINITY);
        assert!(reference.iter().zip(log_ref).all(|(a, b)| (a - b).abs() < 1e-12));
    }

    #[test]
    fn what_the_reference_excludes_stays_excluded() {
        let log_ref = [0.5_f64.ln(), 0.5_f64.ln(), f64::NEG_INFINITY];
        for beta in [0.0, 0.1, 10.0] {
            let star = log_optimal_policy(&log_ref, &[0.0, 1.0, 100.0], beta);
            assert_eq!(star[2], f64::NEG_INFINITY);
            assert!((star[0].exp() + star[1].exp() - 1.0).abs() < 1e-12);
        }
    }
}
