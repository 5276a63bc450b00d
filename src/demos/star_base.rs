//! `star-base`: a model that has seen a few human chains and many bare answers.

use anyhow::Result;
use serde::Serialize;

use crate::algorithms::supervised::Supervised;
use crate::demos::base_model::{BaseModel, Checkpoints};
use crate::demos::reasoning::{ALL_LENGTHS, Examination};
use crate::foundation::demonstration::Demonstration;
use crate::foundation::progress::Progress;
use crate::foundation::rng::Rng;
use crate::foundation::vocab::Vocab;
use crate::model::config::Config;
use crate::model::gpt::Gpt;
use crate::worlds::digit_sum::data::{Mixture, demonstrate};
use crate::worlds::digit_sum::problem::{Format, N_POSITIONS, vocab};

/// How `star-base` is trained.
#[derive(Clone, Debug, Serialize)]
pub struct StarBase {
    /// Seed of initial weights and data.
    pub seed: u64,
    /// Standard deviation of the initial weights, as that of `reason-base`.
    pub initializer_range: f64,
    /// Human chains: so few that the model learns the format and is often wrong.
    pub human: u64,
    /// Share of human chains among demonstrations; the rest are direct answers to fresh problems.
    pub human_share: f64,
    /// How they are learned.
    pub training: Supervised,
}

impl StarBase {
    /// The recipe of the committed model, with any seed.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            initializer_range: 0.1,
            human: 200,
            human_share: 0.5,
            training: Supervised::cosine(2000, 32, 1e-3, 100),
        }
    }

    /// The same with a training `divisor` times shorter.
    pub fn shortened(mut self, divisor: u64) -> Self {
        self.training = self.training.shortened(divisor);
        self
    }

    /// The human chains: correct full solutions of random problems.
    pub fn human_chains(&self) -> Vec<Demonstration> {
        let mut rng = self.rng().fork("human chains");
        let problems = ALL_LENGTHS.problems(self.human, &mut rng);
        problems.iter().map(|problem| demonstrate(problem, Format::Full)).collect()
    }

    /// Trains `model` on `chains` and bare answers, mixed in the shares of the recipe.
    ///
    /// # Errors
    /// As [`Supervised::train`].
    pub fn imitate(
        &self,
        model: &Gpt,
        chains: &[Demonstration],
        training: &Supervised,
        rng: &Rng,
        progress: &dyn Progress,
    ) -> Result<()> {
        let answers = Mixture::of([1.0, 0.0, 0.0]);
        training.train(model, rng, progress, |rng| {
            if rng.uniform() < self.human_share {
                chains[rng.below(chains.len())].clone()
            } else {
                answers.sample(rng)
            }
        })?;
        Ok(())
    }

    fn rng(&self) -> Rng {
        Rng::new(self.seed).fork(Self::NAME)
    }
}

impl Default for StarBase {
    fn default() -> Self {
        Self::new(0)
    }
}

impl BaseModel for StarBase {
    const NAME: &'static str = "star-base";
    type Metrics = Examination;

    fn vocab(&self) -> Vocab {
        vocab()
    }

    fn train(&self, _checkpoints: &Checkpoints, progress: &dyn Progress) -> Result<Gpt> {
        let rng = self.rng();
        let config =
            Config { initializer_range: self.initializer_range, ..Config::mini(vocab().len(), N_POSITIONS) };
        let model = Gpt::new(config, &rng.fork("initial weights"))?;
        progress.begin(Self::NAME, self.training.steps as u64);
        self.imitate(&model, &self.human_chains(), &self.training, &rng.fork("training"), progress)?;
        Ok(model)
    }

    fn measure(
        &self,
        model: &Gpt,
        _checkpoints: &Checkpoints,
        _progress: &dyn Progress,
    ) -> Result<Examination> {
        let rng = self.rng().fork("examination");
        Examination::of(model, &ALL_LENGTHS.problems(1000, &mut rng.fork("problems")), &rng)
    }
}
