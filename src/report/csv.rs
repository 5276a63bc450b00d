//! `curves.csv`: every recorded curve in tidy form, one value per line.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::report::document::Curve;

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Record<'a> {
    curve: &'a str,
    x_name: &'a str,
    x: f64,
    metric: &'a str,
    value: f64,
}

const HEADER: [&str; 5] = ["curve", "x_name", "x", "metric", "value"];

/// The curves with columns `curve,x_name,x,metric,value`.
///
/// # Errors
/// None that is known: it writes to memory.
pub fn render(curves: &[Curve]) -> Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    writer.write_record(HEADER)?;
    for curve in curves {
        for (x, metric, value) in &curve.points {
            let (curve, x_name) = (curve.name.as_str(), curve.x_name.as_str());
            writer.write_record([curve, x_name, &x.to_string(), metric, &value.to_string()])?;
        }
    }
    Ok(writer.into_inner()?)
}

/// Reads a `curves.csv`. Consecutive lines of one name are one curve.
///
/// # Errors
/// If there is none, or a line is not of the form that [`render`] writes; the message names the file.
pub fn read(path: &Path) -> Result<Vec<Curve>> {
    let read = || -> Result<Vec<Curve>> {
        let mut curves: Vec<Curve> = Vec::new();
        let mut reader = csv::Reader::from_path(path)?;
        let header = reader.headers()?.clone();
        let mut line = csv::StringRecord::new();
        while reader.read_record(&mut line)? {
            let record: Record = line.deserialize(Some(&header))?;
            if curves.last().is_none_or(|curve| curve.name != record.curve) {
                let (name, x_name) = (record.curve.to_string(), record.x_name.to_string());
                curves.push(Curve { name, x_name, points: Vec::new() });
            }
            if let Some(curve) = curves.last_mut() {
                curve.points.push((record.x, record.metric.to_string(), record.value));
            }
        }
        Ok(curves)
    };
    read().with_context(|| format!("{} cannot be read as curves", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_per_line_that_reads_back_as_it_was() {
        let points = vec![(2.0, "kl".to_string(), 0.25), (2.0, "a,b".to_string(), -1.0 / 3.0)];
        let curves = [Curve { name: "demo".into(), x_name: "step".into(), points }];
        let text = String::from_utf8(render(&curves).unwrap()).unwrap();
        let third = -1.0 / 3.0;
        assert_eq!(
            text,
            format!("curve,x_name,x,metric,value\ndemo,step,2,kl,0.25\ndemo,step,2,\"a,b\",{third}\n")
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &text).unwrap();
        assert_eq!(read(file.path()).unwrap(), curves);
        std::fs::write(file.path(), "curve,x\na,b\n").unwrap();
        let error = format!("{:#}", read(file.path()).unwrap_err());
        assert!(error.contains("cannot be read as curves"), "{error}");
    }
}
