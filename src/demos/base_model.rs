//! Trained base models: taken from `checkpoints/`, or trained and kept there.

use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use crate::foundation::progress::Progress;
use crate::foundation::vocab::Vocab;
use crate::model::checkpoint::{Lookup, lookup, save};
use crate::model::gpt::Gpt;

/// A recipe for a base model. The implementing struct holds everything that determines the weights;
/// its serialisation is the checkpoint's recipe.
pub trait BaseModel: Serialize {
    /// The checkpoint's name.
    const NAME: &'static str;

    /// What is measured of the trained model.
    type Metrics: Serialize;

    /// The words of its task.
    fn vocab(&self) -> Vocab;

    /// Trains the model. `checkpoints` gives it those it is made from, if any.
    fn train(&self, checkpoints: &Checkpoints, progress: &dyn Progress) -> Result<Gpt>;

    /// Measures the trained model; `checkpoints` as for [`BaseModel::train`].
    fn measure(
        &self,
        model: &Gpt,
        checkpoints: &Checkpoints,
        progress: &dyn Progress,
    ) -> Result<Self::Metrics>;
}

/// Where base models are kept.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    /// One directory per model stands in here.
    pub directory: PathBuf,
    /// Whether to train even what is there.
    pub retrain: bool,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Self { directory: "checkpoints".into(), retrain: false }
    }
}

impl Checkpoints {
    /// The model of a recipe: the one kept, or a new one, which is then kept.
    ///
    /// # Errors
    /// If the checkpoint is damaged or training fails. A directory that cannot be written to only
    /// means that the model is not kept, which is said.
    pub fn obtain<B: BaseModel>(&self, recipe: &B, progress: &dyn Progress) -> Result<Gpt> {
        let directory = self.directory.join(B::NAME);
        let found = if self.retrain { Lookup::Missing } else { lookup(&directory, recipe)? };
        let reason = match found {
            Lookup::Found(checkpoint) => return Ok(checkpoint.model),
            Lookup::Missing if self.retrain => "as --retrain asks".to_string(),
            Lookup::Missing => format!("{} does not exist", directory.display()),
            Lookup::OtherRecipe { found, wanted } => {
                format!("{} is of recipe {found}, wanted is {wanted}", directory.display())
            }
        };
        progress.note(&format!("training {}: {reason}", B::NAME));
        let model = recipe.train(self, progress)?;
        let metrics = recipe.measure(&model, self, progress)?;
        if let Err(error) = save(&directory, &model, &recipe.vocab(), recipe, &metrics) {
            progress.note(&format!("{} is not kept: {error:#}", B::NAME));
        }
        Ok(model)
    }

    /// A model that another one is made from: the one kept, or a new one, which is not kept.
    ///
    /// # Errors
    /// If the checkpoint is damaged or training fails.
    pub fn ingredient<B: BaseModel>(&self, recipe: &B, progress: &dyn Progress) -> Result<Gpt> {
        match lookup(&self.directory.join(B::NAME), recipe)? {
            Lookup::Found(checkpoint) => Ok(checkpoint.model),
            Lookup::Missing | Lookup::OtherRecipe { .. } => recipe.train(self, progress),
        }
    }
}
