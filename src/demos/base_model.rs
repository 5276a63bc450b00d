//! Trained base models: taken from `checkpoints/`, or trained and kept there.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// Where base models are kept. Clones share what was trained, so that seeds that run side by side train a
/// model once.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    directory: PathBuf,
    retrain: bool,
    trained: Arc<Mutex<HashMap<&'static str, Trained>>>,
}

/// A model that is being trained, or was, with its recipe. Whoever wants it next waits for the lock.
type Trained = Arc<Mutex<Option<(serde_json::Value, Gpt)>>>;

impl Default for Checkpoints {
    fn default() -> Self {
        Self::new("checkpoints", false)
    }
}

impl Checkpoints {
    /// Checkpoints in `directory`, one directory per model. With `retrain`, even what is there is trained.
    pub fn new(directory: impl Into<PathBuf>, retrain: bool) -> Self {
        Self { directory: directory.into(), retrain, trained: Arc::default() }
    }

    /// The same directory, every model in it to be trained anew.
    pub fn retrained(&self) -> Self {
        Self::new(&self.directory, true)
    }

    /// Where the model of this name stands.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The model of a recipe: the one kept, or a new one, which is then kept.
    ///
    /// # Errors
    /// If the checkpoint is damaged or training fails. A directory that cannot be written to only
    /// means that the model is not kept, which is said.
    pub fn obtain<B: BaseModel>(&self, recipe: &B, progress: &dyn Progress) -> Result<Gpt> {
        let place = self.place(B::NAME);
        let mut trained = lock(&place);
        let wanted = serde_json::to_value(recipe)?;
        if let Some(model) = already(&trained, &wanted)? {
            return Ok(model);
        }
        let directory = self.path(B::NAME);
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
        *trained = Some((wanted, model.duplicate()?));
        Ok(model)
    }

    /// A model that another one is made from: the one kept, or a new one, which is not kept.
    ///
    /// # Errors
    /// If the checkpoint is damaged or training fails.
    pub fn ingredient<B: BaseModel>(&self, recipe: &B, progress: &dyn Progress) -> Result<Gpt> {
        let place = self.place(B::NAME);
        let mut trained = lock(&place);
        let wanted = serde_json::to_value(recipe)?;
        if let Some(model) = already(&trained, &wanted)? {
            return Ok(model);
        }
        if let Lookup::Found(checkpoint) = lookup(&self.path(B::NAME), recipe)? {
            return Ok(checkpoint.model);
        }
        let model = recipe.train(self, progress)?;
        *trained = Some((wanted, model.duplicate()?));
        Ok(model)
    }

    /// Where a model of this name is, once it was trained.
    fn place(&self, name: &'static str) -> Trained {
        Arc::clone(lock(&self.trained).entry(name).or_default())
    }
}

/// A copy of the model that was trained, if it was by this recipe.
fn already(trained: &Option<(serde_json::Value, Gpt)>, wanted: &serde_json::Value) -> Result<Option<Gpt>> {
    match trained {
        Some((recipe, model)) if recipe == wanted => Ok(Some(model.duplicate()?)),
        _ => Ok(None),
    }
}

/// A lock that a panic elsewhere does not take away: what it guards is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
