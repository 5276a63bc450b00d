//! From a configured demo to what is printed and written.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, anyhow};
use serde::Serialize;

use super::Global;
use super::sweep::{self, SweepArgs};
use crate::demos::base_model::Checkpoints;
use crate::demos::demo::Lab;
use crate::report::comparison::Comparison;
use crate::report::document::Document;
use crate::report::emit::{self, OutDir};
use crate::report::html::Provenance;
use crate::report::json::{self, Envelope, Timing};
use crate::report::pages;
use crate::report::pages::page::Page;
use crate::report::progress::Bar;
use crate::report::sweep::{Run, Sweep};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How a demo is run and shown.
pub struct Invocation {
    pub global: Global,
    pub sweep: SweepArgs,
    /// The command line that reproduces it.
    pub typed: String,
}

/// One run of `demo` with what it shows.
pub fn measure<D: Page>(demo: &D, quick: bool, threads: usize, lab: &Lab) -> Result<(Run, Document)> {
    let start = Instant::now();
    let results = demo.run(lab)?;
    let timing = Timing { seconds: start.elapsed().as_secs_f64(), threads };
    let document = demo.page(&results);
    let envelope = Envelope {
        schema: json::SCHEMA,
        command: D::COMMAND.into(),
        version: VERSION.into(),
        seed: lab.seed,
        seeds: None,
        quick,
        config: serde_json::to_value(demo)?,
        results: serde_json::to_value(&results)?,
        headline: demo.headline(&results),
        timing,
    };
    Ok((Run { envelope, curves: document.curves.clone() }, document))
}

impl Invocation {
    /// Runs `demo` and delivers what it shows. A configuration that cannot be is a usage error.
    pub fn execute<D: Page>(&self, demo: &D) -> Result<ExitCode> {
        if let Err(message) = demo.check() {
            let error = super::command(false).error(clap::error::ErrorKind::ValueValidation, message);
            emit::to_stderr(&error.render().ansi().to_string());
            return Ok(ExitCode::from(2));
        }
        let global = &self.global;
        let out = self.out()?;
        let threads = match global.threads {
            Some(threads) => usize::from(threads),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let (envelope, document) = {
            let progress = Bar::new(!global.no_progress);
            let checkpoints = Checkpoints::new(&global.checkpoints, global.retrain);
            let lab = Lab { seed: global.seed, checkpoints, progress: &progress };
            match self.sweep.seeds(global.seed) {
                Some(seeds) => {
                    over_seeds(sweep::run(demo, global.quick, &seeds, threads, &lab, out.as_ref())?)?
                }
                None => {
                    let pool =
                        rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| {
                            anyhow!("cannot start {threads} threads, try fewer with --threads: {error}")
                        })?;
                    let (run, document) = pool.install(|| measure(demo, global.quick, threads, &lab))?;
                    (run.envelope, document)
                }
            }
        };
        self.deliver(out.as_ref(), &envelope, &document)
    }

    /// Joins the seeds in `directories` to one report.
    pub fn merge(&self, directories: &[PathBuf]) -> Result<ExitCode> {
        let out = self.out()?;
        let (envelope, document) = over_seeds(sweep::gather(directories)?)?;
        self.deliver(out.as_ref(), &envelope, &document)
    }

    /// Lays finished runs side by side.
    pub fn compare(&self, reports: &[PathBuf]) -> Result<ExitCode> {
        #[derive(Serialize)]
        struct Config {
            reports: Vec<String>,
        }
        let out = self.out()?;
        let start = Instant::now();
        let runs: Vec<Run> = reports.iter().map(|path| sweep::read(path)).collect::<Result<_>>()?;
        let comparison = Comparison::of(&runs)?;
        let paths: Vec<String> = reports.iter().map(|path| path.display().to_string()).collect();
        let document = pages::compare::page(&comparison, &paths, &runs);
        let envelope = Envelope {
            schema: json::SCHEMA,
            command: "compare".into(),
            version: VERSION.into(),
            seed: self.global.seed,
            seeds: None,
            quick: false,
            config: serde_json::to_value(Config { reports: paths })?,
            results: serde_json::to_value(&comparison)?,
            headline: Vec::new(),
            timing: Timing { seconds: start.elapsed().as_secs_f64(), threads: 1 },
        };
        self.deliver(out.as_ref(), &envelope, &document)
    }

    fn out(&self) -> Result<Option<OutDir>> {
        self.global.out.as_deref().map(OutDir::prepare).transpose()
    }

    fn deliver(&self, out: Option<&OutDir>, envelope: &Envelope, document: &Document) -> Result<ExitCode> {
        let json = json::render(envelope)?;
        if let Some(out) = out {
            out.write(document, &json, &Provenance { command: self.typed.clone(), version: VERSION })?;
        }
        emit::to_stdout(&if self.global.json { json } else { emit::as_text(document) })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What runs that differ in their seed say together. A shard may be empty.
fn over_seeds(runs: Vec<Run>) -> Result<(Envelope, Document)> {
    let sweep = Sweep::of(&runs);
    let seeds: Vec<u64> = runs.iter().map(|run| run.envelope.seed).collect();
    let seconds = runs.iter().map(|run| run.envelope.timing.seconds).sum();
    let Some(first) = runs.into_iter().next() else {
        anyhow::bail!("this shard has no seed: there are fewer seeds than shards");
    };
    let document = pages::sweep::page(&first.envelope.command, &seeds, &sweep);
    let envelope = Envelope {
        seeds: Some(seeds),
        results: serde_json::to_value(&sweep)?,
        headline: Vec::new(),
        timing: Timing { seconds, ..first.envelope.timing },
        ..first.envelope
    };
    Ok((envelope, document))
}
