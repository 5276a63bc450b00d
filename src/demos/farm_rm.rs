//! `farm-rm`: the reward model, which has only people's noisy choices to go by.

use anyhow::{Result, bail};
use serde::Serialize;

use crate::algorithms::reward_model::{RewardModelling, ordering};
use crate::demos::base_model::{BaseModel, Checkpoints};
use crate::demos::farm::Panel;
use crate::demos::farm_sft::FarmSft;
use crate::foundation::progress::Progress;
use crate::foundation::rng::Rng;
use crate::foundation::stats::weighted_correlation;
use crate::foundation::vocab::Vocab;
use crate::model::gpt::Gpt;
use crate::worlds::farm::language::{DESCRIBE, vocab};
use crate::worlds::farm::preferences::{Labelling, Preferences};

/// How `farm-rm` is trained.
#[derive(Clone, Debug, Serialize)]
pub struct FarmRm {
    /// Seed of the score head, the preferences and their order.
    pub seed: u64,
    /// The model whose trunk it starts from, and whose responses are compared.
    pub sft: FarmSft,
    /// What is compared, and by whom.
    pub labelling: Labelling,
    /// How it is learned.
    pub training: RewardModelling,
}

impl FarmRm {
    /// The recipe of the committed model, with any seed. Eight passes over the rankings are
    /// where it orders the training pairs in four of five cases, and fresh ones no better than after six.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            sft: FarmSft::new(seed),
            labelling: Labelling::default(),
            training: RewardModelling { epochs: 8, batch: 16, lr: 1e-3 },
        }
    }

    /// The same with fewer prompts and epochs, and an assistant of a shorter training.
    pub fn shortened(mut self, divisor: u64) -> Self {
        self.sft = self.sft.shortened(divisor);
        self.labelling.prompts = self.labelling.prompts.div_ceil(divisor.max(1)).max(8);
        self.training.epochs = (self.training.epochs as u64).div_ceil(divisor.max(1)) as usize;
        self
    }

    /// The preferences it is trained on.
    ///
    /// # Errors
    /// As [`Labelling::collect`].
    pub fn preferences(&self, sft: &Gpt) -> Result<Preferences> {
        self.labelling.collect(sft, &self.rng().fork("preferences"))
    }

    fn rng(&self) -> Rng {
        Rng::new(self.seed).fork(Self::NAME)
    }
}

impl Default for FarmRm {
    fn default() -> Self {
        Self::new(0)
    }
}

/// How good a reward model is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quality {
    /// Pairs that it was trained on.
    pub pairs: u64,
    /// Pairs of equal responses that were left out.
    pub dropped: u64,
    /// Share of the training pairs whose winner it scores higher.
    pub train_accuracy: Option<f64>,
    /// The same of fresh pairs, with the same noise in the labels.
    pub heldout_accuracy: Option<f64>,
    /// What r* itself is expected to reach on the fresh pairs: the noise forbids more.
    pub heldout_ceiling: Option<f64>,
    /// Correlation of score and r* over fresh responses.
    pub corr_true: Option<f64>,
    /// The same over those that are right.
    pub corr_true_valid: Option<f64>,
}

impl Quality {
    /// Measures `model` on the pairs of its recipe and on fresh ones.
    ///
    /// # Errors
    /// As [`Labelling::collect`] and [`ordering`].
    pub fn of(recipe: &FarmRm, model: &Gpt, sft: &Gpt, rng: &Rng) -> Result<Self> {
        let train = recipe.preferences(sft)?;
        let fresh = recipe.labelling.collect(sft, &rng.fork("preferences"))?;
        let answers = Panel::new(&DESCRIBE, 2000, &rng.fork("panel")).ask(sft, sft, model)?;
        let rewards = answers.rewards();
        let correlation = |keep: &dyn Fn(usize) -> bool| {
            let weights: Vec<f64> = (0..rewards.len()).map(|i| f64::from(u8::from(keep(i)))).collect();
            weighted_correlation(&answers.scores, &rewards, &weights)
        };
        Ok(Self {
            pairs: train.pairs,
            dropped: train.dropped,
            train_accuracy: ordering(model, &train.rankings)?.and_then(|it| it.accuracy),
            heldout_accuracy: ordering(model, &fresh.rankings)?.and_then(|it| it.accuracy),
            heldout_ceiling: fresh.ceiling,
            corr_true: correlation(&|_| true),
            corr_true_valid: correlation(&|i| answers.verdicts[i].is_ok()),
        })
    }
}

impl BaseModel for FarmRm {
    const NAME: &'static str = "farm-rm";
    type Metrics = Quality;

    fn vocab(&self) -> Vocab {
        vocab().clone()
    }

    fn train(&self, checkpoints: &Checkpoints, progress: &dyn Progress) -> Result<Gpt> {
        let sft = checkpoints.ingredient(&self.sft, progress)?;
        let rng = self.rng();
        let model = sft.with_score_head(&rng)?;
        let rankings = self.preferences(&sft)?.rankings;
        let updates = self.training.epochs * rankings.len().div_ceil(self.training.batch.max(1));
        progress.begin(Self::NAME, updates as u64);
        let diverged = self.training.train(&model, &rankings, &rng.fork("training"), |step| {
            progress.advance(1);
            progress.metric(&format!("loss {:.3}", step.batch.loss));
            Ok(())
        })?;
        match diverged {
            None => Ok(model),
            Some(divergence) => bail!("the reward model diverged: {divergence}"),
        }
    }

    fn measure(&self, model: &Gpt, checkpoints: &Checkpoints, progress: &dyn Progress) -> Result<Quality> {
        let sft = checkpoints.ingredient(&self.sft, progress)?;
        Quality::of(self, model, &sft, &self.rng().fork("examination"))
    }
}
