//! Proximal Policy Optimization (Schulman et al. 2017) of whole responses.
//!
//! A response is one action: its probability ratio is that of the whole text, its advantage that of the
//! whole reward. There is no value network; the batch's mean reward is the baseline.

use anyhow::Result;
use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::estimators::{
    batch_advantages, clip_fraction, clipped_surrogate, constant, importance_ratio, in_f64, penalised_rewards,
};
use super::policy_gradient::{Experience, Loss, Objective};
use crate::policy::logprob::{TokenLogProbs, sum_segments};

/// PPO's hyperparameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ppo {
    /// Updates per batch of responses.
    pub epochs: usize,
    /// Width of the ratio clip, ε.
    pub clip: f64,
    /// Weight of the KL penalty, β: part of the reward, as in Ziegler et al. (2019), equation 2.
    pub beta: f64,
}

impl Default for Ppo {
    /// Four epochs, ε = 0.2 (Schulman et al. 2017, section 6.1 clips there), β = 0.5.
    fn default() -> Self {
        Self { epochs: 4, clip: 0.2, beta: 0.5 }
    }
}

/// Equation 7 of the paper, to be minimised: −mean(min(ρA, clip(ρ, 1−ε, 1+ε)A)) with ρ = π/π_old.
///
/// `logp` and `old` are log π(y|x) of each response, `[B]`, `advantages` likewise; the result is a scalar.
///
/// # Errors
/// If the shapes differ.
pub fn ppo_loss(logp: &Tensor, old: &Tensor, advantages: &Tensor, clip: f64) -> Result<Tensor> {
    let ratio = importance_ratio(logp, old)?;
    Ok(clipped_surrogate(&ratio, advantages, clip)?.mean_all()?.neg()?)
}

impl Objective for Ppo {
    fn updates(&self) -> usize {
        self.epochs
    }

    fn advantages(&self, experience: &Experience) -> Vec<f64> {
        batch_advantages(&penalised_rewards(&experience.rewards, &experience.log_ratios(), self.beta))
    }

    fn loss(&self, logprobs: &TokenLogProbs, experience: &Experience, advantages: &[f64]) -> Result<Loss> {
        let logp = sum_segments(&in_f64(&logprobs.values)?, &logprobs.lengths)?; // [B]
        let old = constant(&experience.old_per_response())?;
        let ratio = importance_ratio(&logp.detach(), &old)?;
        Ok(Loss {
            value: ppo_loss(&logp, &old, &constant(advantages)?, self.clip)?,
            clip_fraction: clip_fraction(&ratio, advantages, self.clip)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::sampling::Rollout;
    use candle_core::{Device, Var};

    const LENGTHS: [usize; 4] = [1, 3, 2, 1];
    const LOGP: [f64; 7] = [-0.1, -1.2, -0.4, -2.0, -0.7, -0.3, -1.5];
    const OLD: [f64; 7] = [-0.4, -1.0, -0.5, -1.9, -0.7, -0.6, -1.1];
    const REFERENCE: [f64; 7] = [-0.5, -1.1, -0.5, -1.0, -0.8, -0.6, -1.2];
    const REWARDS: [f64; 4] = [1.5, 0.5, 0.0, -1.0];
    const PPO: Ppo = Ppo { epochs: 4, clip: 0.2, beta: 0.5 };

    fn experience() -> Experience {
        let rollout = |length| Rollout { tokens: vec![3; length], ..Rollout::default() };
        Experience {
            rollouts: LENGTHS.map(rollout).to_vec(),
            group: 1,
            rewards: REWARDS.to_vec(),
            old: OLD.to_vec(),
            reference: REFERENCE.to_vec(),
        }
    }

    fn loss(logp: &Tensor) -> Loss {
        let logprobs = TokenLogProbs { values: logp.clone(), lengths: LENGTHS.to_vec() };
        PPO.loss(&logprobs, &experience(), &PPO.advantages(&experience())).unwrap()
    }

    /// log π_old − log π_ref of the whole responses: .1, −.8, .1, .1. Rewards less half of that: 1.45,
    /// .9, −.05, −1.05, whose mean is .3125.
    #[test]
    fn the_penalty_is_on_the_whole_response_and_the_baseline_behind_it() {
        let want = [1.45 - 0.3125, 0.9 - 0.3125, -0.05 - 0.3125, -1.05 - 0.3125];
        let got = PPO.advantages(&experience());
        assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-12), "{got:?} is not {want:?}");
    }

    /// log ρ of the whole responses: .3 (clipped: A > 0 above 1.2), −.2 (within the clip, if barely),
    /// .3 (not clipped: A < 0) and −.4 (clipped: A < 0 below .8).
    #[test]
    fn loss_and_gradient_by_hand() {
        let a = PPO.advantages(&experience());
        let logp = Var::new(&LOGP, &Device::Cpu).unwrap();
        let loss = loss(&logp);
        let inside = (-0.2_f64).exp();
        let want = -(1.2 * a[0] + inside * a[1] + 0.3_f64.exp() * a[2] + 0.8 * a[3]) / 4.0;
        assert!((loss.value.to_scalar::<f64>().unwrap() - want).abs() < 1e-12);
        assert_eq!(loss.clip_fraction, 2.0 / 4.0);
        let second = -inside * a[1] / 4.0;
        let third = -0.3_f64.exp() * a[2] / 4.0;
        let want = [0.0, second, second, second, third, third, 0.0];
        let gradients = loss.value.backward().unwrap();
        let gradient = gradients.get(&logp).unwrap().to_vec1::<f64>().unwrap();
        assert!(
            gradient.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-12),
            "{gradient:?} is not {want:?}"
        );
    }

    /// At a batch's first update ρ is exactly 1: the loss is 0, because advantages are centred, and its
    /// gradient that of REINFORCE.
    #[test]
    fn the_first_update_is_reinforce() {
        let logp = Var::new(&OLD, &Device::Cpu).unwrap();
        let loss = loss(&logp);
        assert_eq!(loss.clip_fraction, 0.0);
        assert!(loss.value.to_scalar::<f64>().unwrap().abs() < 1e-12);
        let gradients = loss.value.backward().unwrap();
        let gradient = gradients.get(&logp).unwrap().to_vec1::<f64>().unwrap();
        let a = PPO.advantages(&experience());
        let want = [a[0], a[1], a[1], a[1], a[2], a[2], a[3]].map(|a| -a / 4.0);
        assert!(
            gradient.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-12),
            "{gradient:?} is not {want:?}"
        );
    }
}
