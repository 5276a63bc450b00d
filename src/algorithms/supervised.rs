//! Supervised fine-tuning: imitate demonstrations.

use anyhow::{Context, Result};
use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use crate::foundation::demonstration::Demonstration;
use crate::foundation::progress::Progress;
use crate::foundation::rng::Rng;
use crate::model::gpt::Gpt;
use crate::model::optim::{Adam, AdamConfig, Decay, Schedule};
use crate::policy::logprob::{TokenLogProbs, token_logprobs};

/// The mean cross-entropy of all response tokens of a batch, nats: −1/Σₛ|yₛ| Σₛ,ₜ log π(yₛₜ | xₛ, yₛ₍<ₜ₎).
///
/// # Errors
/// If there is no token to average over.
pub fn cross_entropy(logprobs: &TokenLogProbs) -> Result<Tensor> {
    anyhow::ensure!(logprobs.values.elem_count() > 0, "a cross-entropy needs at least one response token");
    Ok(logprobs.values.mean_all()?.neg()?)
}

/// AdamW with the gradient's norm clipped at 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Supervised {
    /// Updates.
    pub steps: usize,
    /// Demonstrations per update.
    pub batch: usize,
    /// Learning rate of each update.
    pub schedule: Schedule,
}

impl Supervised {
    /// `steps` updates under a linear warm-up to `lr` and half a cosine down to zero.
    pub fn cosine(steps: usize, batch: usize, lr: f64, warmup: usize) -> Self {
        Self { steps, batch, schedule: Schedule { lr, warmup, decay: Decay::Cosine { total: steps } } }
    }

    /// `steps` updates under a linear warm-up to `lr`, which then stays.
    pub fn constant(steps: usize, batch: usize, lr: f64, warmup: usize) -> Self {
        Self { steps, batch, schedule: Schedule { lr, warmup, decay: Decay::Constant } }
    }

    /// The same with `divisor` times fewer updates, of warm-up too.
    pub fn shortened(self, divisor: u64) -> Self {
        let shorter = |steps: usize| (steps as u64).div_ceil(divisor.max(1)) as usize;
        let Schedule { lr, warmup, decay } = self.schedule;
        let decay = match decay {
            Decay::Constant => Decay::Constant,
            Decay::Cosine { total } => Decay::Cosine { total: shorter(total) },
        };
        let schedule = Schedule { lr, warmup: shorter(warmup), decay };
        Self { steps: shorter(self.steps), batch: self.batch, schedule }
    }

    /// Trains `model` in place on demonstrations that `draw` makes; step s draws from `rng.fork(s)`.
    /// Returns the loss of the last batch before its update.
    ///
    /// # Errors
    /// If a demonstration does not fit the model, or the gradient is no longer finite; the error names
    /// the step.
    pub fn train(
        &self,
        model: &Gpt,
        rng: &Rng,
        progress: &dyn Progress,
        mut draw: impl FnMut(&mut Rng) -> Demonstration,
    ) -> Result<f64> {
        let mut adam = Adam::for_model(AdamConfig::adamw(), model);
        let mut last = f64::NAN;
        for step in 1..=self.steps {
            let mut rng = rng.fork(step);
            let batch: Vec<Demonstration> = (0..self.batch).map(|_| draw(&mut rng)).collect();
            let prompts: Vec<&[u32]> = batch.iter().map(|d| d.prompt.as_slice()).collect();
            let responses: Vec<&[u32]> = batch.iter().map(|d| d.response.as_slice()).collect();
            let update = || -> Result<f64> {
                let loss = cross_entropy(&token_logprobs(model, &prompts, &responses)?)?;
                adam.minimize(model, &loss, self.schedule.at(step))?;
                Ok(f64::from(loss.to_scalar::<f32>()?))
            };
            last = { update }().with_context(|| format!("supervised step {step} of {}", self.steps))?;
            progress.advance(1);
            if step.is_multiple_of(20) {
                progress.metric(&format!("loss {last:.3}"));
            }
        }
        Ok(last)
    }
}
