//! REINFORCE (Williams 1992): the log-likelihood of what was sampled, weighted by what it earned.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::estimators::{batch_advantages, constant, in_f64, mean_of_response_means, per_token};
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

/// REINFORCE with one update per batch, neither clipped nor penalised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reinforce {
    /// The baseline.
    pub baseline: Baseline,
}

impl Objective for Reinforce {
    fn updates(&self) -> usize {
        1
    }

    fn advantages(&self, experience: &Experience) -> Vec<f64> {
        match self.baseline {
            Baseline::None => experience.rewards.clone(),
            Baseline::Batch => batch_advantages(&experience.rewards),
        }
    }

    /// −A log π(yₜ | x, y₍<ₜ₎), the mean over each response's tokens and then over responses.
    fn loss(&self, logprobs: &TokenLogProbs, _experience: &Experience, advantages: &[f64]) -> Result<Loss> {
        let advantages = constant(&per_token(advantages, &logprobs.lengths))?;
        let objective = (in_f64(&logprobs.values)? * advantages)?;
        Ok(Loss { value: mean_of_response_means(&objective, &logprobs.lengths)?.neg()?, clip_fraction: 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    /// Lengths 1 and 2, rewards 1 and 0.5: −(1·a + 0.5 (b + c)/2)/2 without a baseline, and with the
    /// mean 0.75 taken away −(.25 a − .25 (b + c)/2)/2.
    #[test]
    fn loss_and_gradient_by_hand() {
        let experience = Experience {
            rollouts: Vec::new(),
            group: 1,
            rewards: vec![1.0, 0.5],
            old: vec![0.0; 3],
            reference: vec![0.0; 3],
        };
        let wants = [
            (Baseline::None, -(-0.2 - 0.5 * 1.0) / 2.0, [-0.5, -0.125, -0.125]),
            (Baseline::Batch, -(0.25 * -0.2 + 0.25) / 2.0, [-0.125, 0.0625, 0.0625]),
        ];
        for (baseline, value, gradient) in wants {
            let logp = Var::new(&[-0.2_f64, -0.5, -1.5], &Device::Cpu).unwrap();
            let logprobs = TokenLogProbs { values: logp.as_tensor().clone(), lengths: vec![1, 2] };
            let reinforce = Reinforce { baseline };
            let loss = reinforce.loss(&logprobs, &experience, &reinforce.advantages(&experience)).unwrap();
            assert!((loss.value.to_scalar::<f64>().unwrap() - value).abs() < 1e-12);
            let gradients = loss.value.backward().unwrap();
            assert_eq!(gradients.get(&logp).unwrap().to_vec1::<f64>().unwrap(), gradient);
        }
    }
}
