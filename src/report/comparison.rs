//! Finished runs of one command side by side.

use anyhow::{Result, bail};
use serde::Serialize;
use serde_json::Value;

use crate::report::numbers::leaves;
use crate::report::sweep::{Run, Sweep};

/// What sets runs apart: the `results` of `compare`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The command that all were runs of.
    pub of: String,
    /// Settings that differ, by their path in the configuration.
    pub settings: Vec<Setting>,
    /// The figures that sum the runs up.
    pub figures: Vec<ComparedFigure>,
}

/// A setting that is not the same in all runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Its path.
    pub name: String,
    /// Its value in each run; none where a run does not have it.
    pub values: Vec<Option<String>>,
}

/// A figure in each run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// What it is.
    pub name: String,
    /// Its value in each run, over many seeds its mean; none where a run does not have it.
    pub values: Vec<Option<f64>>,
    /// 95 % interval of the mean over the seeds of each run; none where there is a single seed.
    pub intervals: Vec<Option<(f64, f64)>>,
}

impl Comparison {
    /// Of two or more runs.
    ///
    /// # Errors
    /// If they are runs of different commands, or none of any.
    pub fn of(runs: &[Run]) -> Result<Self> {
        let Some(first) = runs.first() else { bail!("there is nothing to compare") };
        let of = first.envelope.command.clone();
        if let Some(other) = runs.iter().find(|run| run.envelope.command != of) {
            bail!("runs of {of} and of {} have no figures in common", other.envelope.command);
        }
        let settings: Vec<Vec<(String, String)>> = runs.iter().map(settings).collect();
        let headlines: Vec<Vec<Headline>> = runs.iter().map(headline).collect();
        Ok(Self {
            of,
            settings: rows(&settings)
                .into_iter()
                .map(|(name, values)| Setting { name, values })
                .filter(|setting| setting.values.iter().any(|value| *value != setting.values[0]))
                .collect(),
            figures: rows(&headlines)
                .into_iter()
                .map(|(name, figures)| ComparedFigure {
                    name,
                    values: figures.iter().map(|figure| figure.map(|(mean, _)| mean)).collect(),
                    intervals: figures.iter().map(|figure| figure.and_then(|(_, ends)| ends)).collect(),
                })
                .collect(),
        })
    }
}

/// What determined a run, leaf by leaf.
fn settings(run: &Run) -> Vec<(String, String)> {
    let envelope = &run.envelope;
    let seeds = match &envelope.seeds {
        Some(seeds) => seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(","),
        None => envelope.seed.to_string(),
    };
    let mut settings = leaves(&envelope.config);
    settings.push(("seed".into(), seeds));
    settings.push(("quick".into(), envelope.quick.to_string()));
    settings.push(("version".into(), envelope.version.clone()));
    settings
}

/// A figure's name, its value or mean, and the interval of a mean.
type Headline = (String, (f64, Option<(f64, f64)>));

fn headline(run: &Run) -> Vec<Headline> {
    let envelope = &run.envelope;
    if envelope.seeds.is_some()
        && let Ok(sweep) = serde_json::from_value::<Sweep>(Value::clone(&envelope.results))
    {
        return sweep.headline.into_iter().map(|s| (s.name, (s.mean, s.interval))).collect();
    }
    envelope.headline.iter().map(|figure| (figure.name.clone(), (figure.value, None))).collect()
}

/// Every name of any run, in the order of first appearance, with what each run has under it.
fn rows<T: Clone>(runs: &[Vec<(String, T)>]) -> Vec<(String, Vec<Option<T>>)> {
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in runs.iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let of = |name: &String, run: &Vec<(String, T)>| {
        run.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone())
    };
    names.into_iter().map(|name| (name.clone(), runs.iter().map(|run| of(name, run)).collect())).collect()
}
