//! What a report consists of, independent of the medium it is shown in.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

/// A whole report.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// One line.
    pub title: String,
    /// What the reader is about to see, in a few sentences.
    pub summary: String,
    /// In reading order.
    pub sections: Vec<Section>,
    /// Every recorded curve, for `curves.csv`.
    pub curves: Vec<Curve>,
}

/// One lesson.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// One line.
    pub title: String,
    /// What is computed and how to read it: true of every run.
    pub text: String,
    /// Tables and plots.
    pub blocks: Vec<Block>,
    /// What *this* run shows: sentences computed from its results.
    pub observations: Vec<String>,
}

/// A table or a plot.
#[derive(Clone, Debug)]
pub enum Block {
    /// Figures in rows.
    Table(Table),
    /// Figures as a picture.
    Plot(Plot),
}

/// Formatted cells under headers; the first column is text, the others are numbers.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Column headers.
    pub header: Vec<String>,
    /// Rows as long as the header.
    pub rows: Vec<Vec<String>>,
}

/// A picture with its axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// File name without extension, unique in the document.
    pub id: Cow<'static, str>,
    /// One line.
    pub title: String,
    /// Horizontal axis; unused by bars, whose categories are named.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub marks: Marks,
}

/// An axis of a plot.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// Quantity and unit.
    pub label: String,
    /// Logarithmic scale; values that are not positive are left out.
    pub log: bool,
}

impl Axis {
    /// An axis of linear scale.
    pub fn linear(label: &str) -> Self {
        Self { label: label.into(), log: false }
    }

    /// An axis of logarithmic scale.
    pub fn log(label: &str) -> Self {
        Self { label: label.into(), log: true }
    }
}

/// What a plot draws.
#[derive(Clone, Debug)]
pub enum Marks {
    /// Curves over the horizontal axis.
    Lines(Vec<Line>),
    /// A bar for each category and series.
    Bars {
        /// Names on the horizontal axis.
        categories: Vec<String>,
        /// Label and one value per category.
        series: Vec<(String, Vec<f64>)>,
    },
}

/// One curve.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Legend entry.
    pub label: String,
    /// (x, y) in increasing x.
    pub points: Vec<(f64, f64)>,
    /// (low, high) at each point.
    pub band: Option<Vec<(f64, f64)>>,
    /// Drawn dashed: a reference such as the optimum rather than a result.
    pub dashed: bool,
}

impl Line {
    /// A solid curve.
    pub fn new(label: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { label: label.into(), points, band: None, dashed: false }
    }

    /// The same curve, dashed.
    pub fn dashed(mut self) -> Self {
        self.dashed = true;
        self
    }

    /// The same curve with an interval (low, high) at each point, if every point has one.
    pub fn with_band(mut self, band: &[Option<(f64, f64)>]) -> Self {
        self.band = band.iter().copied().collect();
        self
    }
}

/// A recorded curve in long form: every number of every row becomes one line of `curves.csv`.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What was recorded, such as `reinforce`.
    pub name: String,
    /// Name of the independent variable.
    pub x_name: String,
    /// (x, metric, value).
    pub points: Vec<(f64, String, f64)>,
}

impl Curve {
    /// From rows as they stand in `results`: the first field is the independent variable, every other
    /// number a metric under its JSON name (`share.full` for a field of a field, `policy[2]` for the
    /// third entry of an array).
    pub fn from_rows<R: Serialize>(name: impl Into<String>, rows: &[R]) -> Self {
        let mut curve = Self { name: name.into(), x_name: String::new(), points: Vec::new() };
        for row in rows {
            let Ok(Value::Object(fields)) = serde_json::to_value(row) else {
                continue;
            };
            let mut fields = fields.iter();
            let Some((x_name, x)) = fields.next() else {
                continue;
            };
            curve.x_name.clone_from(x_name);
            let Some(x) = x.as_f64() else { continue };
            for (metric, value) in fields {
                numbers(metric.clone(), value, &mut |metric, number| curve.points.push((x, metric, number)));
            }
        }
        curve
    }
}

/// Calls `found` with every number in `value` and its path.
fn numbers(path: String, value: &Value, found: &mut impl FnMut(String, f64)) {
    match value {
        Value::Array(entries) => {
            for (i, entry) in entries.iter().enumerate() {
                numbers(format!("{path}[{i}]"), entry, found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                numbers(format!("{path}.{name}"), field, found);
            }
        }
        value => {
            if let Some(number) = value.as_f64() {
                found(path, number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Share {
        full: f64,
    }

    #[derive(Serialize)]
    struct Row {
        step: u64,
        kl: f64,
        label: &'static str,
        share: Share,
        policy: [f64; 2],
        missing: Option<f64>,
    }

    #[test]
    fn a_curve_takes_every_number_under_its_json_name() {
        let rows = [Row {
            step: 5,
            kl: 0.5,
            label: "x",
            share: Share { full: 0.1 },
            policy: [0.25, 0.75],
            missing: None,
        }];
        let curve = Curve::from_rows("demo", &rows);
        assert_eq!(curve.x_name, "step");
        let want =
            [(5.0, "kl", 0.5), (5.0, "share.full", 0.1), (5.0, "policy[0]", 0.25), (5.0, "policy[1]", 0.75)];
        assert_eq!(curve.points, want.map(|(x, m, v)| (x, m.to_string(), v)));
    }
}
