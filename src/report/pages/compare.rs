//! The page of `compare`.

use crate::report::comparison::{ComparedFigure, Comparison};
use crate::report::document::{Axis, Block, Curve, Document, Line, Marks, Plot, Section, Table};
use crate::report::format::{interval, short};
use crate::report::sweep::Run;

/// The document of `comparison`, of `runs` known by `paths`.
pub fn page(comparison: &Comparison, paths: &[String], runs: &[Run]) -> Document {
    let letters: Vec<String> = (0..runs.len()).map(letter).collect();
    let named: Vec<String> =
        letters.iter().zip(paths).map(|(letter, path)| format!("{letter} is {path}")).collect();
    let mut sections = vec![settings(comparison, &letters), figures(comparison, &letters)];
    let plots = plots(&letters, runs);
    if !plots.is_empty() {
        sections.push(Section {
            title: "Curves".into(),
            text: "What was recorded along the way in every run, one line for each run and curve.".into(),
            blocks: plots.into_iter().map(Block::Plot).collect(),
            observations: Vec::new(),
        });
    }
    let curves = letters.iter().zip(runs).flat_map(|(letter, run)| {
        run.curves
            .iter()
            .map(move |curve| Curve { name: format!("{letter} {}", curve.name), ..curve.clone() })
    });
    Document {
        title: format!("{} runs of {}", runs.len(), comparison.of),
        summary: format!("{}.", named.join("; ")),
        sections,
        curves: curves.collect(),
    }
}

/// A, B, .., Z, A1, B1, ..
fn letter(i: usize) -> String {
    let letter = char::from(b'A' + (i % 26) as u8);
    if i < 26 { letter.to_string() } else { format!("{letter}{}", i / 26) }
}

fn settings(comparison: &Comparison, letters: &[String]) -> Section {
    let cell = |value: &Option<String>| value.clone().unwrap_or_else(|| "–".into());
    let rows: Vec<Vec<String>> = comparison
        .settings
        .iter()
        .map(|setting| std::iter::once(setting.name.clone()).chain(setting.values.iter().map(cell)).collect())
        .collect();
    let observations = match rows.len() {
        0 => vec!["Nothing differs: these are runs of one configuration, seed and version.".to_string()],
        1 => vec![format!("One thing differs: {}.", comparison.settings[0].name)],
        n => vec![format!("{n} settings differ: what a figure owes to which of them cannot be told.")],
    };
    let header = std::iter::once("setting".to_string()).chain(letters.iter().cloned()).collect();
    let blocks = if rows.is_empty() { Vec::new() } else { vec![Block::Table(Table { header, rows })] };
    Section {
        title: "What was set differently".into(),
        text: "Settings that are not the same in all runs.".into(),
        blocks,
        observations,
    }
}

fn figures(comparison: &Comparison, letters: &[String]) -> Section {
    let pair = letters.len() == 2;
    let cell = |(value, ends): (&Option<f64>, &Option<(f64, f64)>)| match (value, ends) {
        (Some(mean), Some(_)) => format!("{} [{}]", short(*mean), interval(*ends)),
        (Some(value), None) => short(*value),
        (None, _) => "–".into(),
    };
    let row = |figure: &ComparedFigure| {
        let mut row = vec![figure.name.clone()];
        row.extend(figure.values.iter().zip(&figure.intervals).map(cell));
        if pair {
            row.push(difference(figure).map_or_else(|| "–".into(), short));
        }
        row
    };
    let mut header = vec!["figure".to_string()];
    header.extend(letters.iter().cloned());
    header.extend(pair.then(|| "B − A".to_string()));
    let rows: Vec<Vec<String>> = comparison.figures.iter().map(row).collect();
    Section {
        title: "What came out".into(),
        text:
            "The figures that sum a run up; over many seeds their mean, with its 95 % interval in brackets."
                .into(),
        blocks: vec![Block::Table(Table { header, rows })],
        observations: findings(comparison),
    }
}

/// B − A.
fn difference(figure: &ComparedFigure) -> Option<f64> {
    match figure.values[..] {
        [Some(a), Some(b)] => Some(b - a),
        _ => None,
    }
}

/// Which differences the seeds do not explain.
fn findings(comparison: &Comparison) -> Vec<String> {
    let both = |figure: &ComparedFigure| match figure.intervals[..] {
        [Some(a), Some(b)] => Some(a.1 < b.0 || b.1 < a.0),
        _ => None,
    };
    let compared: Vec<(&str, bool)> =
        comparison.figures.iter().filter_map(|figure| Some((figure.name.as_str(), both(figure)?))).collect();
    let apart: Vec<&str> = compared.iter().filter(|(_, apart)| *apart).map(|(name, _)| *name).collect();
    let mut findings = Vec::new();
    if !compared.is_empty() {
        findings.push(format!(
            "The intervals of A and B do not overlap in {} of {} figures{}{}.",
            apart.len(),
            compared.len(),
            if apart.is_empty() { "" } else { ": " },
            apart.join("; ")
        ));
    } else if comparison.figures.iter().any(|figure| difference(figure).is_some_and(|d| d != 0.0)) {
        findings.push(
            "One seed each does not tell a difference from chance: run both with --seeds 10 and compare those."
                .into(),
        );
    }
    let missing =
        comparison.figures.iter().filter(|figure| figure.values.iter().any(Option::is_none)).count();
    if missing > 0 {
        findings.push(format!("{missing} of {} figures are not in every run.", comparison.figures.len()));
    }
    findings
}

/// A plot for each figure that some curve recorded, a line for each run and curve that has it.
fn plots(letters: &[String], runs: &[Run]) -> Vec<Plot> {
    let mut metrics: Vec<(String, String)> = Vec::new();
    for curve in runs.iter().flat_map(|run| &run.curves) {
        for (_, metric, _) in &curve.points {
            let metric = (metric.clone(), curve.x_name.clone());
            let end = metric.0.ends_with(" low") || metric.0.ends_with(" high"); // of an interval
            if !end && !metrics.contains(&metric) {
                metrics.push(metric);
            }
        }
    }
    let plots = metrics.into_iter().enumerate().map(|(i, (metric, x_name))| {
        let lines = letters.iter().zip(runs).flat_map(|(letter, run)| {
            let (metric, x_name) = (&metric, &x_name);
            run.curves.iter().filter(move |curve| curve.x_name == *x_name).filter_map(move |curve| {
                let points: Vec<(f64, f64)> = curve
                    .points
                    .iter()
                    .filter(|(_, name, _)| name == metric)
                    .map(|&(x, _, value)| (x, value))
                    .collect();
                (points.len() > 1).then(|| Line::new(format!("{letter} {}", curve.name), windowed(&points)))
            })
        });
        Plot {
            id: format!("curve_{i:02}").into(),
            title: metric.clone(),
            x: Axis::linear(&x_name),
            y: Axis::linear(&metric),
            marks: Marks::Lines(lines.collect()),
        }
    });
    plots.filter(|plot| matches!(&plot.marks, Marks::Lines(lines) if !lines.is_empty())).collect()
}

/// Means over consecutive points, so that about sixty are left.
fn windowed(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mean = |points: &[(f64, f64)]| {
        let n = points.len() as f64;
        (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n)
    };
    points.chunks(points.len().div_ceil(60).max(1)).map(mean).collect()
}
