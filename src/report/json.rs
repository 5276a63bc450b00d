//! The JSON contract: one envelope for every command, written and read.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of the contract.
pub const SCHEMA: u32 = 1;

/// What `--json` prints and `report.json` holds. `config` and `results` are equal for equal command,
/// flags and seed; what varies from run to run is under `timing`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The subcommand.
    pub command: String,
    /// Version of the program.
    pub version: String,
    /// The seed; of several, the first.
    pub seed: u64,
    /// All seeds, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds: Option<Vec<u64>>,
    /// Whether this was a smoke-size run.
    pub quick: bool,
    /// Every hyperparameter.
    pub config: Value,
    /// Everything measured.
    pub results: Value,
    /// The few figures that sum the run up.
    #[serde(default)]
    pub headline: Vec<Figure>,
    /// What is not reproducible.
    pub timing: Timing,
}

/// A figure with its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What it is, in the words of the report.
    pub name: String,
    /// Its value.
    pub value: f64,
}

impl Figure {
    /// A figure.
    pub fn new(name: impl Into<String>, value: f64) -> Self {
        Self { name: name.into(), value }
    }
}

/// How long a run took, and on what.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Wall time of the run, without start-up and reporting; of several seeds, the sum.
    pub seconds: f64,
    /// Worker threads.
    pub threads: usize,
}

/// The envelope as text, one line per field, ending in a newline.
///
/// # Errors
/// None that is known: every value it holds can be written.
pub fn render(envelope: &Envelope) -> Result<String> {
    let mut text = serde_json::to_string_pretty(envelope).context("cannot write the results as JSON")?;
    text.push('\n');
    Ok(text)
}

/// No report is larger; what is, is no report.
const MAX_BYTES: u64 = 1 << 30;

/// Reads a `report.json`.
///
/// # Errors
/// If there is none, or it is not of this contract; the message names the file.
pub fn read(path: &Path) -> Result<Envelope> {
    let read = || -> Result<Envelope> {
        let size = fs::metadata(path)?.len();
        ensure!(size <= MAX_BYTES, "it has {size} bytes");
        let envelope: Envelope = serde_json::from_slice(&fs::read(path)?)?;
        ensure!(
            envelope.schema == SCHEMA,
            "it follows version {} of the contract, and this program version {SCHEMA}",
            envelope.schema
        );
        Ok(envelope)
    };
    read().with_context(|| format!("{} cannot be read as a report", path.display()))
}
