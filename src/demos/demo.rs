//! What every demo is.

use anyhow::Result;
use serde::Serialize;

use crate::foundation::progress::Progress;

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

    /// Runs the demo. Equal `self` and `seed` give equal results, bit for bit on one machine, on
    /// any number of threads.
    fn run(&self, seed: u64, progress: &dyn Progress) -> Result<Self::Results>;
}
