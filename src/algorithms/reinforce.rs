//! REINFORCE (Williams 1992): the log-likelihood of what was sampled, weighted by what it earned.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::estimators::{
    batch_advantages, constant, in_f64, mean_of_response_means, mean_of_response_sums, penalised_rewards,
    per_token,
};
use super::policy_gradient::{Experience, Loss, Objective};
use crate::policy::logprob::TokenLogProbs;

/// What is subtracted from the reward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Baseline {
    /// Nothing: every sample with a positive reward becomes more likely, in proportion to how often it
    /// is sampled already.
    None,
    /// The batch's mean reward.
    Batch,
}

/// What a response's weight is spread over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduction {
    /// Each response's log π(y|x) counts whole: the unbiased gradient of the expected reward.
    Sum,
    /// Each response's log π(y|x) is divided by its length. The gradient is that of the expected reward
    /// *per token*: of two formats that earn the same, the shorter one wins.
    TokenMean,
}

/// REINFORCE with one update per batch, which needs no clip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reinforce {
    /// The baseline.
    pub baseline: Baseline,
    /// Whether long responses count for more.
    pub reduction: Reduction,
    /// Weight of the KL penalty, β: part of the reward. 0 leaves the reward as it is.
    pub beta: f64,
}

impl Objective for Reinforce {
    fn updates(&self) -> usize {
        1
    }

    fn advantages(&self, experience: &Experience) -> Vec<f64> {
        let rewards = penalised_rewards(&experience.rewards, &experience.log_ratios(), self.beta);
        match self.baseline {
            Baseline::None => rewards,
            Baseline::Batch => batch_advantages(&rewards),
        }
    }

    /// −A Σₜ log π(yₜ | x, y₍<ₜ₎) or −A/|y| times that sum, the mean over responses.
    fn loss(&self, logprobs: &TokenLogProbs, _experience: &Experience, advantages: &[f64]) -> Result<Loss> {
        let advantages = constant(&per_token(advantages, &logprobs.lengths))?;
        let objective = (in_f64(&logprobs.values)? * advantages)?;
        let mean = match self.reduction {
            Reduction::Sum => mean_of_response_sums(&objective, &logprobs.lengths)?,
            Reduction::TokenMean => mean_of_response_means(&objective, &logprobs.lengths)?,
        };
        Ok(Loss { value: mean.neg()?, clip_fraction: 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    use crate::policy::sampling::Rollout;

    /// Lengths 1 and 2, rewards 1 and 0.5, log-ratios 0.2 and −0.6.
    fn experience() -> Experience {
        let rollout = |length| Rollout { tokens: vec![3; length], ..Rollout::default() };
        Experience {
            rollouts: vec![rollout(1), rollout(2)],
            group: 1,
            rewards: vec![1.0, 0.5],
            old: vec![-0.2, -0.5, -1.5],
            reference: vec![-0.4, -0.1, -1.3],
        }
    }

    /// Log-probabilities a and b, c: −(1·a + 0.5 (b + c)/2)/2, with the mean reward 0.75 taken away
    /// −(.25 a − .25 (b + c)/2)/2, and with sums −(1·a + 0.5 (b + c))/2.
    #[test]
    fn loss_and_gradient_by_hand() {
        let wants = [
            (Baseline::None, Reduction::TokenMean, -(-0.2 - 0.5 * 1.0) / 2.0, [-0.5, -0.125, -0.125]),
            (Baseline::Batch, Reduction::TokenMean, -(0.25 * -0.2 + 0.25) / 2.0, [-0.125, 0.0625, 0.0625]),
            (Baseline::None, Reduction::Sum, -(-0.2 - 0.5 * 2.0) / 2.0, [-0.5, -0.25, -0.25]),
        ];
        for (baseline, reduction, value, gradient) in wants {
            let logp = Var::new(&[-0.2_f64, -0.5, -1.5], &Device::Cpu).unwrap();
            let logprobs = TokenLogProbs { values: logp.as_tensor().clone(), lengths: vec![1, 2] };
            let reinforce = Reinforce { baseline, reduction, beta: 0.0 };
            let loss =
                reinforce.loss(&logprobs, &experience(), &reinforce.advantages(&experience())).unwrap();
            assert!((loss.value.to_scalar::<f64>().unwrap() - value).abs() < 1e-12);
            let gradients = loss.value.backward().unwrap();
            assert_eq!(gradients.get(&logp).unwrap().to_vec1::<f64>().unwrap(), gradient);
        }
    }

    /// Rewards less half the log-ratios: 0.9 and 0.8, their mean 0.85.
    #[test]
    fn the_penalty_is_part_of_the_reward() {
        for (baseline, want) in [(Baseline::None, [0.9, 0.8]), (Baseline::Batch, [0.05, -0.05])] {
            let got = Reinforce { baseline, reduction: Reduction::Sum, beta: 0.5 }.advantages(&experience());
            assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-12), "{got:?} is not {want:?}");
        }
    }
}
