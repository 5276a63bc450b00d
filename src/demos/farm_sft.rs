//! `farm-sft`: the assistant before anyone has said what they like.

use anyhow::Result;
use serde::Serialize;

use crate::algorithms::supervised::Supervised;
use crate::demos::base_model::{BaseModel, Checkpoints};
use crate::foundation::progress::Progress;
use crate::foundation::rng::Rng;
use crate::foundation::vocab::Vocab;
use crate::model::config::Config;
use crate::model::gpt::Gpt;
use crate::policy::sampling::{Rollout, sample};
use crate::worlds::farm::data::Mixture;
use crate::worlds::farm::evaluation::{Figures, sampled, verdicts};
use crate::worlds::farm::language::{DESCRIBE, HELD_OUT, N_POSITIONS, Prompt, vocab};

/// How `farm-sft` is trained.
#[derive(Clone, Debug, Serialize)]
pub struct FarmSft {
    /// Seed of initial weights and data.
    pub seed: u64,
    /// Standard deviation of the initial weights.
    pub initializer_range: f64,
    /// What is demonstrated.
    pub mixture: Mixture,
    /// How it is learned.
    pub training: Supervised,
}

impl FarmSft {
    /// The recipe of the committed model, with any seed: enough to say what is right in six of seven
    /// responses, and not so much that nothing is left to go wrong. After 1500 updates nine of ten are
    /// right.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            initializer_range: 0.02,
            mixture: Mixture::default(),
            training: Supervised::cosine(1000, 64, 1e-3, 50),
        }
    }

    /// The same with a training `divisor` times shorter.
    pub fn shortened(mut self, divisor: u64) -> Self {
        self.training = self.training.shortened(divisor);
        self
    }
}

impl Default for FarmSft {
    fn default() -> Self {
        Self::new(0)
    }
}

/// What is measured of `farm-sft`: descriptions sampled at temperature 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metrics {
    /// Asked in the trained templates.
    pub trained: Figures,
    /// Asked in the held-out templates.
    pub held_out: Figures,
}

impl BaseModel for FarmSft {
    const NAME: &'static str = "farm-sft";
    type Metrics = Metrics;

    fn vocab(&self) -> Vocab {
        vocab().clone()
    }

    fn train(&self, _checkpoints: &Checkpoints, progress: &dyn Progress) -> Result<Gpt> {
        let rng = Rng::new(self.seed).fork(Self::NAME);
        let config =
            Config { initializer_range: self.initializer_range, ..Config::mini(vocab().len(), N_POSITIONS) };
        let model = Gpt::new(config, &rng.fork("initial weights"))?;
        progress.begin(Self::NAME, self.training.steps as u64);
        self.training.train(&model, &rng.fork("training"), progress, |rng| self.mixture.sample(rng))?;
        Ok(model)
    }

    fn measure(&self, model: &Gpt, _checkpoints: &Checkpoints, _progress: &dyn Progress) -> Result<Metrics> {
        let rng = Rng::new(self.seed).fork(Self::NAME).fork("examination");
        let figures = |name: &str, templates: &[&'static str]| -> Result<Figures> {
            let (rng, mut prompts) = (rng.fork(name), Vec::new());
            let mut stream = rng.fork("prompts");
            prompts.extend((0..2000).map(|_| Prompt::sample(templates, &mut stream)));
            let texts: Vec<Vec<u32>> = prompts.iter().map(Prompt::tokens).collect();
            let responses: Vec<Rollout> =
                sample(&model.no_grad(), &texts, 1, &sampled(), &rng.fork("responses"))?;
            Ok(Figures::new(&verdicts(&prompts, &responses)))
        };
        Ok(Metrics { trained: figures("trained", &DESCRIBE)?, held_out: figures("held out", &HELD_OUT)? })
    }
}
