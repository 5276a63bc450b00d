//! Many seeds of one demo: side by side on the cores, in parts on many machines, and resumed where they
//! were broken off.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::demos::demo::Lab;
use crate::foundation::progress::Progress;
use crate::report::emit::OutDir;
use crate::report::json::{self, Envelope};
use crate::report::numbers::leaves;
use crate::report::pages::page::Page;
use crate::report::sweep::Run;
use crate::report::{csv, emit};

/// Flags of the demos that can be run with many seeds.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Many seeds")]
pub struct SweepArgs {
    /// Run so many seeds, from --seed on, and report mean and interval of every figure; with --out, seeds
    /// that are already there are not run again
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub seeds: Option<u64>,

    /// Run part I of N of the seeds only, I from 0 to N - 1; `merge` joins the parts' --out directories
    #[arg(long, value_name = "I/N", requires_all = ["seeds", "out"])]
    pub shard: Option<Shard>,
}

impl SweepArgs {
    /// The seeds asked for, if there is a sweep at all.
    pub fn seeds(&self, first: u64) -> Option<Vec<u64>> {
        let all = first..first.saturating_add(self.seeds?);
        let mine = |seed: &u64| self.shard.is_none_or(|shard| (seed - first) % shard.of == shard.index);
        Some(all.filter(mine).collect())
    }
}

/// One part of a sweep: every `of`-th seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    of: u64,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("a shard is I/N with I from 0 to N - 1, such as 0/4, not {text}");
        let (index, of) = text.split_once('/').ok_or_else(wrong)?;
        let shard = Self { index: index.parse().map_err(|_| wrong())?, of: of.parse().map_err(|_| wrong())? };
        if shard.index < shard.of { Ok(shard) } else { Err(wrong()) }
    }
}

/// Runs `demo` once per seed, as many at once as there are threads, and keeps each run below `out` as soon
/// as it is finished. Seeds found there with the same configuration are not run again.
///
/// # Errors
/// That of the first run that fails; seeds that were not begun by then are left out.
pub fn run<D: Page>(
    demo: &D,
    quick: bool,
    seeds: &[u64],
    threads: usize,
    lab: &Lab,
    out: Option<&OutDir>,
) -> Result<Vec<Run>> {
    let workers = threads.min(seeds.len()).max(1);
    lab.progress.begin("seeds", seeds.len() as u64);
    let queue = Mutex::new(seeds.iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next().copied();
    let finished = Mutex::new(BTreeMap::new());
    let work = || -> Result<()> {
        // Its own threads for each worker: in a common pool one that waits would begin another seed.
        let pool = rayon::ThreadPoolBuilder::new().num_threads((threads / workers).max(1)).build()?;
        while let Some(seed) = next() {
            let lab = Lab { seed, checkpoints: lab.checkpoints.clone(), progress: &Notes(lab.progress) };
            let run = pool.install(|| one(demo, quick, pool.current_num_threads(), &lab, out));
            let run =
                run.with_context(|| format!("seed {seed}")).inspect_err(|_| while next().is_some() {})?;
            finished.lock().unwrap_or_else(PoisonError::into_inner).insert(seed, run);
            lab.progress.advance(1);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    Ok(finished.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect())
}

/// One seed: from `out` if it is there, else run and kept there.
fn one<D: Page>(demo: &D, quick: bool, threads: usize, lab: &Lab, out: Option<&OutDir>) -> Result<Run> {
    let place = out.map(|out| out.below(&place(lab.seed)));
    if let Some(place) = &place
        && let Some(found) = kept(place.path(), lab.progress)
        && found.envelope.config == serde_json::to_value(demo)?
        && found.envelope.command == D::COMMAND
        && found.envelope.version == env!("CARGO_PKG_VERSION")
        && (found.envelope.seed, found.envelope.quick) == (lab.seed, quick)
    {
        return Ok(found);
    }
    let (run, _) = super::invocation::measure(demo, quick, threads, lab)?;
    if let Some(place) = place {
        OutDir::prepare(place.path())?.write_run(&run.curves, &json::render(&run.envelope)?)?;
    }
    Ok(run)
}

/// Where the run of a seed is kept below `--out`.
fn place(seed: u64) -> PathBuf {
    Path::new(SEEDS).join(seed.to_string())
}

const SEEDS: &str = "seeds";

/// The finished run in a directory, if there is one. What cannot be read is run again, which is said.
fn kept(directory: &Path, progress: &dyn Progress) -> Option<Run> {
    if !directory.join(emit::REPORT).exists() {
        return None;
    }
    match read(directory) {
        Ok(run) => Some(run),
        Err(error) => {
            progress.note(&format!("running again: {error:#}"));
            None
        }
    }
}

/// The run that a directory of `--out`, or a `report.json`, holds.
///
/// # Errors
/// If there is none; the message names the file.
pub fn read(path: &Path) -> Result<Run> {
    let directory = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    let report = if path.is_dir() { path.join(emit::REPORT) } else { path.to_path_buf() };
    let curves = directory.join(emit::CURVES);
    Ok(Run {
        envelope: json::read(&report)?,
        curves: if curves.exists() { csv::read(&curves)? } else { Vec::new() },
    })
}

/// The runs of all seeds in the given directories, in the order of seeds.
///
/// # Errors
/// If a directory has none, if they are not runs of one configuration, or if one seed was run twice with
/// different results.
pub fn gather(directories: &[PathBuf]) -> Result<Vec<Run>> {
    let mut runs: BTreeMap<u64, (Run, PathBuf)> = BTreeMap::new();
    for directory in directories {
        let seeds = directory.join(SEEDS);
        let entries = std::fs::read_dir(&seeds).with_context(|| {
            format!(
                "{} holds no seeds: give directories that --seeds was run with as --out",
                directory.display()
            )
        })?;
        let mut places: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        places.sort();
        for place in places.into_iter().filter(|place| place.join(emit::REPORT).exists()) {
            let run = read(&place)?;
            if let Some((first, at)) = runs.values().next() {
                same_settings(first, &run).with_context(|| {
                    format!("{} and {} are not of one sweep", at.display(), place.display())
                })?;
            }
            if let Some((other, at)) = runs.get(&run.envelope.seed)
                && other.envelope.results != run.envelope.results
            {
                bail!("{} and {} are of one seed and differ", at.display(), place.display());
            }
            runs.insert(run.envelope.seed, (run, place));
        }
    }
    ensure!(!runs.is_empty(), "no seed is finished yet in {}", listed(directories));
    Ok(runs.into_values().map(|(run, _)| run).collect())
}

fn listed(directories: &[PathBuf]) -> String {
    directories.iter().map(|directory| directory.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Fails with the first difference.
fn same_settings(a: &Run, b: &Run) -> Result<()> {
    let of = |envelope: &Envelope| {
        let mut settings = leaves(&envelope.config);
        settings.push(("command".into(), envelope.command.clone()));
        settings.push(("version".into(), envelope.version.clone()));
        settings.push(("quick".into(), envelope.quick.to_string()));
        settings
    };
    let (a, b) = (of(&a.envelope), of(&b.envelope));
    let differ = a.iter().zip(&b).find(|(a, b)| a != b);
    if let Some(((name, a), (_, b))) = differ {
        bail!("{name} is {a} in one and {b} in the other");
    }
    ensure!(a.len() == b.len(), "their settings are not the same");
    Ok(())
}

/// Passes notes on and keeps the stages of single runs to itself: many at once would overwrite each other.
struct Notes<'a>(&'a dyn Progress);

impl Progress for Notes<'_> {
    fn begin(&self, _stage: &str, _total: u64) {}
    fn advance(&self, _units: u64) {}
    fn reach(&self, _units: u64) {}
    fn metric(&self, _text: &str) {}
    fn note(&self, text: &str) {
        self.0.note(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_out_the_seeds() {
        let seeds = |shard: &str| SweepArgs { seeds: Some(5), shard: Some(shard.parse().unwrap()) }.seeds(10);
        assert_eq!(seeds("0/2"), Some(vec![10, 12, 14]));
        assert_eq!(seeds("1/2"), Some(vec![11, 13]));
        assert_eq!(seeds("6/7"), Some(vec![]));
        assert_eq!(SweepArgs { seeds: Some(2), shard: None }.seeds(3), Some(vec![3, 4]));
        assert_eq!(SweepArgs::default().seeds(3), None);
        for wrong in ["2/2", "0/0", "1", "a/b", "-1/2", "1/2/3", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
