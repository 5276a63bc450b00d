//! `reason-base`: the model that writes all three formats of digit sums, and mostly the lazy one.

use anyhow::Result;
use serde::Serialize;

use crate::algorithms::supervised::Supervised;
use crate::demos::base_model::{BaseModel, Checkpoints};
use crate::demos::reasoning::{ALL_LENGTHS, Examination};
use crate::foundation::progress::Progress;
use crate::foundation::rng::Rng;
use crate::foundation::vocab::Vocab;
use crate::model::config::Config;
use crate::model::gpt::Gpt;
use crate::worlds::digit_sum::data::Mixture;
use crate::worlds::digit_sum::problem::{N_POSITIONS, vocab};

/// How `reason-base` is trained: first to think, then to write all formats.
///
/// All formats at once stay on a plateau for thousands of steps: the direct ones drown what there is to
/// learn from the chains.
#[derive(Clone, Debug, Serialize)]
pub struct ReasonBase {
    /// Seed of initial weights and data.
    pub seed: u64,
    /// Standard deviation of the initial weights. GPT-2's 0.02 is made for wide models; at width 64 the
    /// network then hardly moves within the first thousand steps.
    pub initializer_range: f64,
    /// One after the other, each with an optimiser of its own.
    pub phases: Vec<Phase>,
}

/// A mixture and how long it is trained on.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// What is demonstrated.
    pub mixture: Mixture,
    /// How it is learned.
    pub training: Supervised,
}

impl ReasonBase {
    /// The recipe of the committed model, with any seed: 7000 updates of 32 demonstrations, as many
    /// demonstrations as the 3500 of 64 that it took with GPT-2's initial weights and often failed. What
    /// helped, each alone on two seeds: larger initial weights, more but smaller batches, a rate that
    /// stays high while the chains are learned, and more of the short ones, which are the hardest.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            initializer_range: 0.1,
            phases: vec![
                Phase {
                    mixture: Mixture::of([0.0, 0.65, 0.35]),
                    training: Supervised::constant(4000, 32, 1e-3, 100),
                },
                Phase {
                    mixture: Mixture::of([0.5, 0.3, 0.2]),
                    training: Supervised::cosine(3000, 32, 1e-3, 50),
                },
            ],
        }
    }

    /// The same with every phase `divisor` times shorter.
    pub fn shortened(mut self, divisor: u64) -> Self {
        for phase in &mut self.phases {
            phase.training = phase.training.clone().shortened(divisor);
        }
        self
    }
}

impl Default for ReasonBase {
    fn default() -> Self {
        Self::new(0)
    }
}

impl BaseModel for ReasonBase {
    const NAME: &'static str = "reason-base";
    type Metrics = Examination;

    fn vocab(&self) -> Vocab {
        vocab()
    }

    fn train(&self, _checkpoints: &Checkpoints, progress: &dyn Progress) -> Result<Gpt> {
        let rng = Rng::new(self.seed).fork(Self::NAME);
        let config =
            Config { initializer_range: self.initializer_range, ..Config::mini(vocab().len(), N_POSITIONS) };
        let model = Gpt::new(config, &rng.fork("initial weights"))?;
        for (i, Phase { mixture, training }) in self.phases.iter().enumerate() {
            progress.begin(&format!("{} {}/{}", Self::NAME, i + 1, self.phases.len()), training.steps as u64);
            training.train(&model, &rng.fork("phase").fork(i), progress, |rng| mixture.sample(rng))?;
        }
        Ok(model)
    }

    fn measure(
        &self,
        model: &Gpt,
        _checkpoints: &Checkpoints,
        _progress: &dyn Progress,
    ) -> Result<Examination> {
        let rng = Rng::new(self.seed).fork(Self::NAME).fork("examination");
        Examination::of(model, &ALL_LENGTHS.problems(1000, &mut rng.fork("problems")), &rng)
    }
}
