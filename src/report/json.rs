//! The JSON contract: one envelope for every command.

use anyhow::{Context, Result};
use serde::Serialize;

/// Version of the contract.
pub const SCHEMA: u32 = 1;

/// What `--json` prints and `report.json` holds. `config` and `results` are equal for equal command,
/// flags and seed; what varies from run to run is under `timing`.
#[derive(Serialize)]
pub struct Envelope<'a, C, R> {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The subcommand.
    pub command: &'a str,
    /// Version of this program.
    pub version: &'a str,
    /// The seed.
    pub seed: u64,
    /// Whether this was a smoke-size run.
    pub quick: bool,
    /// Every hyperparameter.
    pub config: &'a C,
    /// Everything measured.
    pub results: &'a R,
    /// What is not reproducible.
    pub timing: Timing,
}

/// How long a run took, and on what.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Timing {
    /// Wall time of the run, without start-up and reporting.
    pub seconds: f64,
    /// Worker threads.
    pub threads: usize,
}

/// The document as text, one line per field, ending in a newline.
pub fn render<C: Serialize, R: Serialize>(envelope: &Envelope<'_, C, R>) -> Result<String> {
    let mut text = serde_json::to_string_pretty(envelope).context("cannot write the results as JSON")?;
    text.push('\n');
    Ok(text)
}
