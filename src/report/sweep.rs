//! Many seeds of one command: every figure and every curve with its spread.
//!
//! Reporting a mean with a bootstrap interval, and the interquartile mean beside it, is what Agarwal et
//! al. 2021 ask of work with few runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::foundation::rng::Rng;
use crate::foundation::stats::{bootstrap_mean_interval, interquartile_mean};
use crate::report::document::Curve;
use crate::report::json::Envelope;
use crate::report::numbers::numbers;

/// Resamples of the bootstrap.
const RESAMPLES: usize = 2000;

/// One finished run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What `report.json` holds.
    pub envelope: Envelope,
    /// What `curves.csv` holds.
    pub curves: Vec<Curve>,
}

/// What several seeds say together: the `results` of such a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// The figures that sum a run up.
    pub headline: Vec<Statistic>,
    /// Every number of the results, under its path. Curves stand below.
    pub metrics: Vec<Statistic>,
    /// Every recorded curve.
    pub curves: Vec<CurveStatistic>,
}

/// A figure over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statistic {
    /// What it is.
    pub name: String,
    /// Seeds that have it.
    pub n: usize,
    /// Mean over them.
    pub mean: f64,
    /// 95 % interval of the mean, percentile bootstrap; none for a single seed.
    pub interval: Option<(f64, f64)>,
    /// Mean of the middle half.
    pub interquartile_mean: f64,
    /// The value of each seed that has it, in the order of seeds.
    pub values: Vec<f64>,
}

/// A curve over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurveStatistic {
    /// What was recorded, such as `GRPO`.
    pub curve: String,
    /// Name of the independent variable.
    pub x_name: String,
    /// Name of the figure.
    pub metric: String,
    /// In increasing x.
    pub points: Vec<Point>,
}

/// A point of a curve over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// Seeds that have it.
    pub n: usize,
    /// Mean over them.
    pub mean: f64,
    /// 95 % interval of the mean, percentile bootstrap; none for a single seed.
    pub interval: Option<(f64, f64)>,
    /// Mean of the middle half.
    pub interquartile_mean: f64,
}

impl Sweep {
    /// From runs of one command that differ in their seed.
    pub fn of(runs: &[Run]) -> Self {
        let headline = runs.iter().map(|run| {
            run.envelope.headline.iter().map(|figure| (figure.name.clone(), figure.value)).collect()
        });
        let metrics = runs.iter().map(|run| numbers(&run.envelope.results));
        Self {
            headline: statistics(headline.collect()),
            metrics: statistics(metrics.collect()),
            curves: curves(runs),
        }
    }

    /// The curves in long form: the mean under its name, the ends of its interval beside it.
    pub fn long_form(&self) -> Vec<Curve> {
        let mut long: Vec<Curve> = Vec::new();
        for curve in &self.curves {
            let mut points = Vec::new();
            for point in &curve.points {
                points.push((point.x, curve.metric.clone(), point.mean));
                if let Some((low, high)) = point.interval {
                    points.push((point.x, format!("{} low", curve.metric), low));
                    points.push((point.x, format!("{} high", curve.metric), high));
                }
            }
            match long.last_mut().filter(|last| last.name == curve.curve) {
                Some(last) => last.points.extend(points),
                None => {
                    let (name, x_name) = (curve.curve.clone(), curve.x_name.clone());
                    long.push(Curve { name, x_name, points });
                }
            }
        }
        long
    }
}

/// A statistic of every name, in the order of first appearance.
fn statistics(runs: Vec<Vec<(String, f64)>>) -> Vec<Statistic> {
    let mut values: Vec<(String, Vec<f64>)> = Vec::new();
    let mut place: BTreeMap<String, usize> = BTreeMap::new();
    for (name, value) in runs.into_iter().flatten() {
        let at = *place.entry(name.clone()).or_insert(values.len());
        if at == values.len() {
            values.push((name, Vec::new()));
        }
        values[at].1.push(value);
    }
    values.into_iter().map(|(name, values)| Statistic::of(name, values)).collect()
}

impl Statistic {
    fn of(name: String, values: Vec<f64>) -> Self {
        let (mean, interval, interquartile_mean) = summary(&values, &name);
        Self { name, n: values.len(), mean, interval, interquartile_mean, values }
    }
}

fn curves(runs: &[Run]) -> Vec<CurveStatistic> {
    type Place<'a> = (&'a str, &'a str);
    let mut order: Vec<(Place, &str)> = Vec::new();
    let mut values: BTreeMap<Place, BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    for curve in runs.iter().flat_map(|run| &run.curves) {
        for (x, metric, value) in &curve.points {
            let place = (curve.name.as_str(), metric.as_str());
            let points = values.entry(place).or_insert_with(|| {
                order.push((place, &curve.x_name));
                BTreeMap::new()
            });
            points.entry(sortable(*x)).or_default().push(*value);
        }
    }
    let statistic = |&((curve, metric), x_name): &(Place, &str)| {
        let points = values[&(curve, metric)].iter().map(|(&x, values)| {
            let (mean, interval, interquartile_mean) = summary(values, metric);
            Point { x: unsortable(x), n: values.len(), mean, interval, interquartile_mean }
        });
        CurveStatistic {
            curve: curve.into(),
            x_name: x_name.into(),
            metric: metric.into(),
            points: points.collect(),
        }
    };
    order.iter().map(statistic).collect()
}

/// An integer that sorts as the number does.
fn sortable(x: f64) -> u64 {
    let bits = x.to_bits();
    if x.is_sign_negative() { !bits } else { bits | 1 << 63 }
}

fn unsortable(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
}

/// Mean, its interval and the interquartile mean. The bootstrap's draws depend on the name alone, so
/// that parts of a sweep, merged, say what the whole would.
fn summary(values: &[f64], name: &str) -> (f64, Option<(f64, f64)>, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let mut rng = Rng::new(0).fork("bootstrap").fork(name);
    let constant = values.iter().all(|value| *value == values[0]);
    let interval = if constant && values.len() > 1 {
        Some((mean, mean))
    } else {
        bootstrap_mean_interval(values, 0.95, RESAMPLES, &mut rng)
    };
    (mean, interval, interquartile_mean(values).unwrap_or(mean))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json::{Figure, SCHEMA, Timing};
    use serde_json::json;

    fn run(seed: u64, value: f64) -> Run {
        let envelope = Envelope {
            schema: SCHEMA,
            command: "demo".into(),
            version: "0".into(),
            seed,
            seeds: None,
            quick: false,
            config: json!({}),
            results: json!({ "a": value, "fixed": 1.0 }),
            headline: vec![Figure { name: "a".into(), value }],
            timing: Timing { seconds: 1.0, threads: 1 },
        };
        let points = vec![(10.0, "kl".to_string(), value), (-1.0, "kl".to_string(), 0.0)];
        Run { envelope, curves: vec![Curve { name: "c".into(), x_name: "step".into(), points }] }
    }

    #[test]
    fn figures_have_mean_interval_and_interquartile_mean() {
        let runs: Vec<Run> = [0.0, 1.0, 2.0, 9.0].iter().zip(0..).map(|(&v, seed)| run(seed, v)).collect();
        let sweep = Sweep::of(&runs);
        let a = &sweep.metrics[0];
        assert_eq!((a.name.as_str(), a.n, a.mean, a.interquartile_mean), ("a", 4, 3.0, 1.5));
        let (low, high) = a.interval.unwrap();
        assert!((0.25..1.5).contains(&low) && (5.0..8.0).contains(&high), "{low} {high}");
        assert_eq!(sweep.metrics[1].interval, Some((1.0, 1.0)), "no rounding where nothing varies");
        assert_eq!((sweep.headline.len(), &sweep.headline[0]), (1, a));
        let curve = &sweep.curves[0];
        assert_eq!((curve.points[0].x, curve.points[1].x, curve.points[1].mean), (-1.0, 10.0, 3.0));
        assert_eq!(sweep.long_form()[0].points.len(), 6);
    }

    #[test]
    fn one_seed_has_no_interval() {
        let sweep = Sweep::of(&[run(0, 2.0)]);
        assert_eq!((sweep.metrics[0].interval, sweep.metrics[0].interquartile_mean), (None, 2.0));
    }

    #[test]
    fn what_was_written_reads_back() {
        let sweep = Sweep::of(&[run(0, 0.1), run(1, 1.0 / 3.0)]);
        let text = serde_json::to_string(&sweep).unwrap();
        assert_eq!(serde_json::from_str::<Sweep>(&text).unwrap(), sweep);
    }
}
