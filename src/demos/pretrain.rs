//! `pretrain`: makes the base models that the other commands start from, or checks the ones there are.

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::Value;

use crate::demos::args::{count, defaults};
use crate::demos::base_model::{BaseModel, Checkpoints};
use crate::demos::demo::{Demo, Lab};
use crate::demos::farm_rm::FarmRm;
use crate::demos::farm_sft::FarmSft;
use crate::demos::reason_base::ReasonBase;
use crate::demos::star_base::StarBase;
use crate::model::checkpoint::{Lookup, lookup};
use crate::model::gpt::Gpt;

/// Settings of `pretrain`.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Config {
    /// Models to train
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_enum, ignore_case = true,
          default_values_t = Model::value_variants().to_vec())]
    pub models: Vec<Model>,

    /// Train anew, compare with the checkpoint bit for bit, and change nothing
    #[arg(long)]
    pub check: bool,

    /// Divide every training by this; a model made so is measured and thrown away
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count(1..=1_000_000))]
    pub shorten: u64,
}

impl Default for Config {
    fn default() -> Self {
        defaults()
    }
}

/// The base models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Digit sums in three formats, for reason-grpo and test-time
    ReasonBase,
    /// Digit sums with few human chains, for star
    StarBase,
    /// The farm's assistant, for rlhf-gpt and dpo-gpt
    FarmSft,
    /// The farm's reward model, for rlhf-gpt
    FarmRm,
}

/// What `pretrain` measures.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// One entry per model.
    pub models: Vec<Trained>,
}

/// One trained model.
#[derive(Clone, Debug, Serialize)]
pub struct Trained {
    /// Its name.
    pub name: &'static str,
    /// Everything that determined its weights.
    pub recipe: Value,
    /// What was measured of it.
    pub metrics: Value,
    /// How it compares with the checkpoint, if that was asked.
    pub check: Option<Check>,
}

/// A newly trained model against the checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// Whether the checkpoint was made by the same recipe.
    pub same_recipe: bool,
    /// Whether every weight has the same bits.
    pub identical: bool,
    /// The largest difference of two weights.
    pub largest_difference: f64,
}

impl Demo for Config {
    const COMMAND: &'static str = "pretrain";
    const QUICK: &'static [(&'static str, &'static str)] = &[("shorten", "1000")];
    type Results = Results;

    fn check(&self) -> Result<(), String> {
        if self.check && self.shorten > 1 {
            return Err("--check needs the whole training: leave --shorten and --quick away".into());
        }
        Ok(())
    }

    fn run(&self, lab: &Lab) -> Result<Results> {
        let retrained = lab.checkpoints.retrained(); // what one is made from, another need not make again
        let (seed, short) = (lab.seed, self.shorten);
        let train = |model: &Model| match model {
            Model::ReasonBase => self.one(&ReasonBase::new(seed).shortened(short), lab, &retrained),
            Model::StarBase => self.one(&StarBase::new(seed).shortened(short), lab, &retrained),
            Model::FarmSft => self.one(&FarmSft::new(seed).shortened(short), lab, &retrained),
            Model::FarmRm => self.one(&FarmRm::new(seed).shortened(short), lab, &retrained),
        };
        Ok(Results { models: self.models.iter().map(train).collect::<Result<_>>()? })
    }
}

impl Config {
    fn one<B: BaseModel>(&self, recipe: &B, lab: &Lab, retrained: &Checkpoints) -> Result<Trained> {
        let (model, check) = if self.check {
            let model = recipe.train(&lab.checkpoints, lab.progress)?;
            let check = compare(&lab.checkpoints, recipe, &model)?;
            (model, Some(check))
        } else if self.shorten > 1 {
            (recipe.train(&lab.checkpoints, lab.progress)?, None)
        } else {
            (retrained.obtain(recipe, lab.progress)?, None)
        };
        Ok(Trained {
            name: B::NAME,
            recipe: serde_json::to_value(recipe)?,
            metrics: serde_json::to_value(recipe.measure(&model, &lab.checkpoints, lab.progress)?)?,
            check,
        })
    }
}

/// Compares `model` with the checkpoint of its name.
fn compare<B: BaseModel>(checkpoints: &Checkpoints, recipe: &B, model: &Gpt) -> Result<Check> {
    let directory = checkpoints.path(B::NAME);
    let kept = crate::model::checkpoint::load_model(&directory).with_context(|| {
        format!("there is no checkpoint to check: run pretrain --models {} first", B::NAME)
    })?;
    let same_recipe = matches!(lookup(&directory, recipe)?, Lookup::Found(_));
    let (kept, new) = (kept.parameters().to_vec1::<f32>()?, model.parameters().to_vec1::<f32>()?);
    let difference = |(a, b): (&f32, &f32)| f64::from((a - b).abs());
    Ok(Check {
        same_recipe,
        identical: kept.len() == new.len() && kept.iter().zip(&new).all(|(a, b)| a.to_bits() == b.to_bits()),
        largest_difference: kept.iter().zip(&new).map(difference).fold(0.0, f64::max),
    })
}
