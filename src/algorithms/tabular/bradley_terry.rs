//! Bradley-Terry reward modelling: maximum likelihood of pairwise preferences.

use crate::foundation::adam::{Adam, converged};
use crate::foundation::preferences::PairKind;
use crate::foundation::stats::{log_sigmoid, sigmoid};

/// A loss of one preference pair as a function of one number, with its derivative by that number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairLoss {
    /// The loss, in nats for a likelihood.
    pub value: f64,
    /// d value / d argument.
    pub slope: f64,
}

/// −log σ(Δ) for a score difference Δ = r(winner) − r(loser): the negative log-likelihood of the
/// model of Bradley and Terry (1952), as in Christiano et al. (2017, equation 1).
pub fn bradley_terry_loss(delta: f64) -> PairLoss {
    PairLoss { value: -log_sigmoid(delta), slope: -sigmoid(-delta) }
}

/// How a tabular reward model is fitted.
#[derive(Clone, Copy, Debug)]
pub struct RewardFit {
    /// Full-batch Adam steps.
    pub steps: u64,
    /// Adam's learning rate.
    pub lr: f64,
    /// Weight of the penalty `l2` · Σ r(y)², which pins the constant that preferences leave open.
    pub l2: f64,
}

/// Rewards r(y) of `answers` answers, minimising the mean Bradley-Terry loss plus the L2 penalty.
///
/// An answer in no pair has gradient 0 at its start r = 0 and stays there exactly, so only the seen
/// ones are computed: O(kinds + seen) per step, whatever the number of answers.
pub fn fit_rewards(answers: usize, pairs: &[PairKind], fit: RewardFit) -> Vec<f64> {
    let mut seen: Vec<usize> = pairs.iter().flat_map(|p| [p.winner, p.loser]).collect();
    seen.sort_unstable();
    seen.dedup();
    let mut place = vec![0; answers];
    for (slot, &answer) in seen.iter().enumerate() {
        place[answer] = slot;
    }
    let pairs: Vec<(usize, usize, f64)> =
        pairs.iter().map(|p| (place[p.winner], place[p.loser], p.weight)).collect();

    let mut reward = vec![0.0; seen.len()];
    let mut gradient = vec![0.0; seen.len()];
    let mut adam = Adam::new(seen.len(), fit.lr);
    for _ in 0..fit.steps {
        for (g, r) in gradient.iter_mut().zip(&reward) {
            *g = 2.0 * fit.l2 * r;
        }
        for &(winner, loser, weight) in &pairs {
            let slope = weight * bradley_terry_loss(reward[winner] - reward[loser]).slope;
            gradient[winner] += slope;
            gradient[loser] -= slope;
        }
        if converged(&gradient) {
            break;
        }
        adam.descend(&mut reward, &gradient);
    }

    let mut all = vec![0.0; answers];
    for (&answer, r) in seen.iter().zip(reward) {
        all[answer] = r;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loss_and_slope_stay_finite_at_any_margin() {
        assert_eq!(bradley_terry_loss(-1e4).value, 1e4);
        assert_eq!(bradley_terry_loss(-1e4).slope, -1.0);
        assert_eq!(bradley_terry_loss(1e4).value, 0.0);
        assert_eq!(bradley_terry_loss(0.0).slope, -0.5);
    }

    proptest! {
        #[test]
        fn slope_is_the_derivative_of_the_loss(delta in -8.0..8.0_f64) {
            let value = |d| bradley_terry_loss(d).value;
            let numeric = (value(delta + 1e-5) - value(delta - 1e-5)) / 2e-5;
            prop_assert!((bradley_terry_loss(delta).slope - numeric).abs() < 1e-8);
        }

        /// One kind each way: the likelihood is maximal where σ(Δ) is the observed share.
        #[test]
        fn two_answers_recover_the_log_odds(share in 0.1..0.9_f64) {
            let pairs = [
                PairKind { winner: 3, loser: 1, weight: share },
                PairKind { winner: 1, loser: 3, weight: 1.0 - share },
            ];
            let fit = RewardFit { steps: 2000, lr: 0.05, l2: 0.0 };
            let reward = fit_rewards(5, &pairs, fit);
            prop_assert!((reward[3] - reward[1] - (share / (1.0 - share)).ln()).abs() < 1e-6);
            prop_assert_eq!([reward[0], reward[2], reward[4]], [0.0; 3]);
        }
    }
}
