//! Full-batch training of a tabular policy on preference counts, for any loss of the margin.

use crate::algorithms::tabular::bradley_terry::PairLoss;
use crate::foundation::adam::{Adam, converged};
use crate::foundation::preferences::PairKind;
use crate::policy::tabular::{TabularPolicy, pull_back};

/// Steps and learning rate of a full-batch Adam fit.
#[derive(Clone, Copy, Debug)]
pub struct PreferenceFit {
    /// Adam steps.
    pub steps: u64,
    /// Adam's learning rate.
    pub lr: f64,
}

/// A trained policy.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// log π (K).
    pub log_pi: Vec<f64>,
    /// The largest entry of the gradient at the end: 0 where the loss has a minimum and it was reached.
    pub gradient: f64,
}

/// Trains from the reference policy `log_ref` (K) on `pairs`, minimising the weighted mean of
/// `loss(margin)`. `observe(step, log π)` sees the policy before every step and after the last.
/// Without pairs there is nothing to learn, and the policy stays at the reference.
pub fn fit_preferences(
    log_ref: &[f64],
    pairs: &[PairKind],
    loss: impl Fn(f64) -> PairLoss,
    fit: PreferenceFit,
    mut observe: impl FnMut(u64, &[f64]),
) -> Fitted {
    let mut policy = TabularPolicy::from_log_probs(log_ref);
    let mut adam = Adam::new(log_ref.len(), fit.lr);
    let mut gradient = vec![0.0; log_ref.len()];
    let mut step = 0;
    loop {
        let log_pi = policy.log_probs();
        observe(step, &log_pi);
        preference_gradient(&log_pi, log_ref, pairs, &loss, &mut gradient);
        if step == fit.steps || converged(&gradient) {
            (step..fit.steps).for_each(|done| observe(done + 1, &log_pi));
            let gradient = gradient.iter().fold(0.0, |max: f64, g| max.max(g.abs()));
            return Fitted { log_pi, gradient };
        }
        adam.descend(&mut policy.logits, &gradient);
        step += 1;
    }
}

/// The gradient of Σ weight · loss(margin) by the logits, shape (K), into `gradient`.
fn preference_gradient(
    log_pi: &[f64],
    log_ref: &[f64],
    pairs: &[PairKind],
    loss: impl Fn(f64) -> PairLoss,
    gradient: &mut [f64],
) {
    let ratio = |y: usize| log_pi[y] - log_ref[y];
    gradient.fill(0.0);
    for pair in pairs {
        let slope = pair.weight * loss(ratio(pair.winner) - ratio(pair.loser)).slope;
        gradient[pair.winner] += slope;
        gradient[pair.loser] -= slope;
    }
    pull_back(log_pi, gradient);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::tabular::dpo::dpo_loss;
    use crate::algorithms::tabular::ipo::ipo_loss;
    use crate::foundation::stats::{log_softmax, sigmoid, total_variation};
    use crate::policy::optimal::log_optimal_policy;
    use proptest::prelude::*;

    fn log_ref() -> Vec<f64> {
        [0.2_f64, 0.3, 0.4, 0.1].map(f64::ln).to_vec()
    }

    fn pair(winner: usize, loser: usize, weight: f64) -> PairKind {
        PairKind { winner, loser, weight }
    }

    proptest! {
        #[test]
        fn gradient_agrees_with_finite_differences(
            logits in prop::collection::vec(-2.0..2.0_f64, 4), beta in 0.1..2.0_f64, ipo: bool,
        ) {
            let pairs = [pair(0, 1, 0.4), pair(1, 0, 0.1), pair(2, 3, 0.3), pair(3, 1, 0.2)];
            let loss = |h| if ipo { ipo_loss(h, beta) } else { dpo_loss(h, beta) };
            let log_ref = log_ref();
            let total = |logits: &[f64]| -> f64 {
                let ratio: Vec<f64> = log_softmax(logits).iter().zip(&log_ref).map(|(p, q)| p - q).collect();
                pairs.iter().map(|p| p.weight * loss(ratio[p.winner] - ratio[p.loser]).value).sum()
            };
            let mut gradient = vec![0.0; 4];
            preference_gradient(&log_softmax(&logits), &log_ref, &pairs, loss, &mut gradient);
            for k in 0..4 {
                let shifted = |by: f64| {
                    let mut moved = logits.clone();
                    moved[k] += by;
                    total(&moved)
                };
                let numeric = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
                prop_assert!((gradient[k] - numeric).abs() < 1e-6 * (1.0 + numeric.abs()));
            }
        }

        /// With the exact Bradley-Terry share of every kind as data, DPO's gradient vanishes at π*
        /// (its only minimum, the loss being convex in the margins), and training goes there.
        #[test]
        fn dpo_on_infinite_data_ends_at_the_optimum(
            reward in prop::collection::vec(-1.5..1.5_f64, 4), beta in 0.4..2.0_f64,
        ) {
            let log_ref = log_ref();
            let mut pairs = Vec::new();
            for winner in 0..4 {
                for loser in (0..4).filter(|&l| l != winner) {
                    let met = (log_ref[winner] + log_ref[loser]).exp();
                    pairs.push(pair(winner, loser, met * sigmoid(reward[winner] - reward[loser])));
                }
            }
            let star = log_optimal_policy(&log_ref, &reward, beta);
            let mut gradient = vec![0.0; 4];
            preference_gradient(&star, &log_ref, &pairs, |h| dpo_loss(h, beta), &mut gradient);
            prop_assert!(gradient.iter().all(|g| g.abs() < 1e-12));
            let fit = PreferenceFit { steps: 4000, lr: 0.02 };
            let log_pi = fit_preferences(&log_ref, &pairs, |h| dpo_loss(h, beta), fit, |_, _| {}).log_pi;
            let probs = |lp: &[f64]| lp.iter().map(|x| x.exp()).collect::<Vec<_>>();
            prop_assert!(total_variation(&probs(&log_pi), &probs(&star)) < 1e-6);
        }
    }

    /// One pair that always goes one way: DPO's margin keeps growing, IPO's stops at 1/(2τ).
    #[test]
    fn without_noise_dpo_runs_away_and_ipo_stops() {
        let log_ref = log_ref();
        let margin = |lp: &[f64]| (lp[0] - log_ref[0]) - (lp[1] - log_ref[1]);
        let after = |steps, loss: &dyn Fn(f64) -> PairLoss| {
            let fit = PreferenceFit { steps, lr: 0.05 };
            margin(&fit_preferences(&log_ref, &[pair(0, 1, 1.0)], loss, fit, |_, _| {}).log_pi)
        };
        let dpo = |h| dpo_loss(h, 0.5);
        assert!(after(4000, &dpo) > after(2000, &dpo) + 1.0);
        assert!((after(2000, &|h| ipo_loss(h, 0.5)) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn without_pairs_the_policy_stays_at_the_reference() {
        let fit = PreferenceFit { steps: 10, lr: 0.05 };
        let mut steps = Vec::new();
        let fitted = fit_preferences(&log_ref(), &[], |h| dpo_loss(h, 0.5), fit, |step, _| steps.push(step));
        assert_eq!((steps, fitted.gradient), ((0..=10).collect(), 0.0));
        assert!(fitted.log_pi.iter().zip(log_ref()).all(|(a, b)| (a - b).abs() < 1e-12));
    }
}
