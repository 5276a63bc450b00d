//! Group Relative Policy Optimization (Shao et al. 2024, DeepSeekMath): a prompt's responses are each
//! other's baseline, so that no value network is needed.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::estimators::{
    KlEstimator, clip_fraction, clipped_surrogate, constant, group_advantages, importance_ratio, in_f64,
    mean_of_response_means, per_token,
};
use super::policy_gradient::{Experience, Loss, Objective};
use crate::policy::logprob::TokenLogProbs;

/// GRPO's hyperparameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grpo {
    /// Updates per batch of responses, μ.
    pub inner: usize,
    /// Width of the ratio clip, ε.
    pub clip: f64,
    /// Weight of the KL penalty, β.
    pub beta: f64,
    /// How the penalty is estimated.
    pub kl: KlEstimator,
}

impl Objective for Grpo {
    fn updates(&self) -> usize {
        self.inner
    }

    fn advantages(&self, experience: &Experience) -> Vec<f64> {
        group_advantages(&experience.rewards, experience.group)
    }

    /// Equation 3 of the paper, to be minimised: −1/G Σᵢ 1/|yᵢ| Σₜ [min(ρA, clip(ρ)A) − β kl] over the
    /// responses of the whole batch.
    fn loss(&self, logprobs: &TokenLogProbs, experience: &Experience, advantages: &[f64]) -> Result<Loss> {
        let logp = in_f64(&logprobs.values)?; // [Σ lengths]
        let advantages = per_token(advantages, &logprobs.lengths);
        let ratio = importance_ratio(&logp, &constant(&experience.old)?)?;
        let surrogate = clipped_surrogate(&ratio, &constant(&advantages)?, self.clip)?;
        let kl = self.kl.estimate(&logp, &constant(&experience.reference)?)?;
        let objective = (surrogate - (kl * self.beta)?)?;
        Ok(Loss {
            value: mean_of_response_means(&objective, &logprobs.lengths)?.neg()?,
            clip_fraction: clip_fraction(&ratio, &advantages, self.clip)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Tensor, Var};

    const LENGTHS: [usize; 4] = [1, 3, 2, 2];
    const REWARDS: [f64; 4] = [1.1, 0.1, 0.0, 1.1];
    const LOGP: [f64; 8] = [-0.1, -1.2, -0.4, -2.0, -0.7, -0.3, -1.5, -0.9];
    const OLD: [f64; 8] = [-0.4, -1.0, -0.5, -1.9, -0.7, -0.6, -1.1, -1.0];
    const REFERENCE: [f64; 8] = [-0.5, -1.1, -0.5, -1.0, -0.8, -0.6, -1.2, -1.1];

    fn grpo() -> Grpo {
        Grpo { inner: 2, clip: 0.2, beta: 0.04, kl: KlEstimator::K3 }
    }

    fn experience() -> Experience {
        Experience {
            rollouts: Vec::new(),
            group: 2,
            rewards: REWARDS.to_vec(),
            old: OLD.to_vec(),
            reference: REFERENCE.to_vec(),
        }
    }

    /// The paper's sums, term by term.
    fn by_hand(logp: &[f64]) -> f64 {
        let (mut token, mut total) = (0, 0.0);
        for (i, &length) in LENGTHS.iter().enumerate() {
            let group = &REWARDS[i / 2 * 2..i / 2 * 2 + 2];
            let mean = (group[0] + group[1]) / 2.0;
            let std = ((group[0] - mean).powi(2) + (group[1] - mean).powi(2)).sqrt();
            let advantage = (REWARDS[i] - mean) / (std + 1e-4);
            let mut response = 0.0;
            for _ in 0..length {
                let ratio = (logp[token] - OLD[token]).exp();
                let surrogate = (ratio * advantage).min(ratio.clamp(0.8, 1.2) * advantage);
                let log_ratio = REFERENCE[token] - logp[token];
                response += surrogate - 0.04 * (log_ratio.exp() - log_ratio - 1.0);
                token += 1;
            }
            total += response / length as f64;
        }
        -total / LENGTHS.len() as f64
    }

    fn loss(logp: &Tensor) -> Loss {
        let (grpo, experience) = (grpo(), experience());
        let logprobs = TokenLogProbs { values: logp.clone(), lengths: LENGTHS.to_vec() };
        grpo.loss(&logprobs, &experience, &grpo.advantages(&experience)).unwrap()
    }

    #[test]
    fn the_loss_is_the_papers_sum() {
        let value = loss(&Tensor::new(&LOGP, &Device::Cpu).unwrap()).value.to_scalar::<f64>().unwrap();
        assert!((value - by_hand(&LOGP)).abs() < 1e-12, "{value} is not {}", by_hand(&LOGP));
    }

    #[test]
    fn its_gradient_agrees_with_finite_differences() {
        let logp = Var::new(&LOGP, &Device::Cpu).unwrap();
        let gradients = loss(&logp).value.backward().unwrap();
        let gradient = gradients.get(&logp).unwrap().to_vec1::<f64>().unwrap();
        for (i, g) in gradient.iter().enumerate() {
            let moved = |by: f64| {
                let mut logp = LOGP;
                logp[i] += by;
                by_hand(&logp)
            };
            let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            assert!((g - difference).abs() < 1e-8, "token {i}: {g} is not {difference}");
        }
    }

    /// At a batch's first update the policy is the one that sampled: ρ = 1, nothing is clipped, and the
    /// value is the KL penalty alone, because advantages are centred in groups of equal lengths.
    #[test]
    fn the_first_update_clips_nothing() {
        let tensor = |values: &[f64; 8]| Tensor::new(values, &Device::Cpu).unwrap();
        assert_eq!(loss(&tensor(&OLD)).clip_fraction, 0.0);
        assert!(loss(&tensor(&LOGP)).clip_fraction > 0.0);
        let (grpo, experience) = (Grpo { beta: 0.0, ..grpo() }, experience());
        let logprobs = TokenLogProbs { values: tensor(&OLD), lengths: vec![2; 4] };
        let loss = grpo.loss(&logprobs, &experience, &grpo.advantages(&experience)).unwrap();
        assert!(loss.value.to_scalar::<f64>().unwrap().abs() < 1e-12);
    }
}
