//! The page of many seeds.

use crate::report::document::{Axis, Block, Document, Line, Marks, Plot, Section, Table};
use crate::report::format::{count, interval, short};
use crate::report::sweep::{CurveStatistic, Statistic, Sweep};

/// Curves are drawn with at most so many points.
const POINTS: usize = 60;

/// The document of `sweep`, runs of `command` with `seeds`.
pub fn page(command: &str, seeds: &[u64], sweep: &Sweep) -> Document {
    let plots = plots(sweep);
    let mut sections = vec![figures(&sweep.headline)];
    if !plots.is_empty() {
        sections.push(Section {
            title: "Curves".into(),
            text: "Mean over seeds, with its 95 % interval where there are several.".into(),
            blocks: plots.into_iter().map(Block::Plot).collect(),
            observations: Vec::new(),
        });
    }
    Document {
        title: format!("{command}: {}", count(seeds.len() as u64, "seed")),
        summary: format!(
            "{}, each a run of its own that shares nothing with the others but the base model and the settings. \
             Intervals are of the mean over seeds: 95 %, percentile bootstrap. The interquartile mean (IQM) leaves \
             the lowest and the highest quarter of the seeds out.",
            listed(seeds)
        ),
        sections,
        curves: sweep.long_form(),
    }
}

/// `Seeds 0 to 9`, or all of them where some are missing between.
fn listed(seeds: &[u64]) -> String {
    match seeds {
        [] => "No seed".into(),
        [seed] => format!("Seed {seed}"),
        [first, .., last] if last - first + 1 == seeds.len() as u64 => format!("Seeds {first} to {last}"),
        seeds => format!("Seeds {}", seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

fn figures(headline: &[Statistic]) -> Section {
    let row = |figure: &Statistic| {
        vec![
            figure.name.clone(),
            figure.n.to_string(),
            short(figure.mean),
            interval(figure.interval),
            short(figure.interquartile_mean),
            interval(Some(range(figure))),
        ]
    };
    let header = ["", "seeds", "mean", "95 % interval", "IQM", "range"];
    Section {
        title: "Figures".into(),
        text: "The figures that sum a run up. The JSON has all others under `metrics`.".into(),
        blocks: vec![Block::Table(Table {
            header: header.map(String::from).to_vec(),
            rows: headline.iter().map(row).collect(),
        })],
        observations: findings(headline),
    }
}

/// The lowest and the highest value.
fn range(figure: &Statistic) -> (f64, f64) {
    let values = || figure.values.iter().copied();
    (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
}

/// Which figure depends most on the seed, and which are missing somewhere.
fn findings(headline: &[Statistic]) -> Vec<String> {
    let spread = |figure: &Statistic| {
        let (low, high) = range(figure);
        (high - low) / figure.mean.abs().max(1e-12)
    };
    let seeds = headline.iter().map(|figure| figure.n).max().unwrap_or(0);
    if seeds < 2 {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let widest = headline.iter().max_by(|a, b| spread(a).total_cmp(&spread(b)));
    if let Some(figure) = widest {
        let (low, high) = range(figure);
        findings.push(if high > low {
            format!(
                "Measured against its mean, what depends most on the seed is {}: from {} to {}.",
                figure.name,
                short(low),
                short(high)
            )
        } else {
            "No figure depends on the seed.".into()
        });
    }
    for figure in headline.iter().filter(|figure| figure.n < seeds) {
        findings.push(format!(
            "{} exists for {} of {} only.",
            figure.name,
            figure.n,
            count(seeds as u64, "seed")
        ));
    }
    findings
}

/// A plot for each figure that was recorded along the way, a line for each curve that has it.
fn plots(sweep: &Sweep) -> Vec<Plot> {
    let mut metrics: Vec<(&str, &str)> = Vec::new();
    for curve in sweep.curves.iter().filter(|curve| curve.points.len() > 1) {
        let metric = (curve.metric.as_str(), curve.x_name.as_str());
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    let plot = |(i, (metric, x_name)): (usize, (&str, &str))| Plot {
        id: format!("curve_{i:02}").into(),
        title: metric.to_string(),
        x: Axis::linear(x_name),
        y: Axis::linear(metric),
        marks: Marks::Lines(
            sweep.curves.iter().filter(|c| c.metric == metric && c.x_name == x_name).map(line).collect(),
        ),
    };
    metrics.into_iter().enumerate().map(plot).collect()
}

/// A curve with its band; of a long one, means over consecutive points.
fn line(curve: &CurveStatistic) -> Line {
    let window = curve.points.len().div_ceil(POINTS).max(1);
    let windows = curve.points.chunks(window);
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let (points, band): (Vec<_>, Vec<_>) = windows
        .map(|points| {
            let point = (
                mean(points.iter().map(|point| point.x).collect()),
                mean(points.iter().map(|point| point.mean).collect()),
            );
            let intervals: Option<Vec<(f64, f64)>> = points.iter().map(|point| point.interval).collect();
            let band = intervals.map(|ends| {
                let (low, high): (Vec<f64>, Vec<f64>) = ends.into_iter().unzip();
                (mean(low), mean(high))
            });
            (point, band)
        })
        .unzip();
    Line::new(curve.curve.clone(), points).with_band(&band)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistic(name: &str, values: &[f64]) -> Statistic {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Statistic {
            name: name.into(),
            n: values.len(),
            mean,
            interval: None,
            interquartile_mean: mean,
            values: values.to_vec(),
        }
    }

    #[test]
    fn seeds_are_listed_as_they_are() {
        assert_eq!(listed(&[4]), "Seed 4");
        assert_eq!(listed(&[4, 5, 6]), "Seeds 4 to 6");
        assert_eq!(listed(&[0, 2]), "Seeds 0, 2");
    }

    #[test]
    fn findings_follow_the_figures() {
        let varied = [statistic("a", &[1.0, 1.1]), statistic("b", &[1.0, 3.0])];
        assert_eq!(
            findings(&varied),
            ["Measured against its mean, what depends most on the seed is b: from 1.00 to 3.00."]
        );
        let constant = [statistic("a", &[1.0, 1.0]), statistic("b", &[2.0])];
        assert_eq!(
            findings(&constant),
            ["No figure depends on the seed.", "b exists for 1 of 2 seeds only."]
        );
        assert!(findings(&[statistic("a", &[1.0])]).is_empty());
    }
}
