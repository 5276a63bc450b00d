//! What every demo is.

use anyhow::Result;
use serde::Serialize;

use crate::demos::base_model::Checkpoints;
use crate::foundation::progress::{Progress, Silent};

/// A configured demo. The implementing struct holds the hyperparameters; it is parsed from flags,
/// written into reports as `config`, and run.
pub trait Demo: Serialize + Sync {
    /// The subcommand's name.
    const COMMAND: &'static str;

    /// The defaults of a `--quick` run, as (field, value) pairs that replace those of a full run.
    const QUICK: &'static [(&'static str, &'static str)];

    /// What the demo measures; its serialisation is the `results` of the JSON contract.
    type Results: Serialize + Send;

    /// Checks what no single flag can: combinations. The message tells what to change.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Runs the demo. Equal `self` and `lab.seed` give equal results, bit for bit on one machine, on
    /// any number of threads.
    fn run(&self, lab: &Lab) -> Result<Self::Results>;
}

/// Where a demo runs.
pub struct Lab<'a> {
    /// Seed of every random draw.
    pub seed: u64,
    /// Where trained base models are kept.
    pub checkpoints: Checkpoints,
    /// Who is told how it goes.
    pub progress: &'a dyn Progress,
}

impl Lab<'_> {
    /// A lab with the committed checkpoints in which nobody watches.
    pub fn quiet(seed: u64) -> Self {
        Self { seed, checkpoints: Checkpoints::default(), progress: &Silent }
    }
}
