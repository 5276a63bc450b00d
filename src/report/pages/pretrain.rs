//! The page of `pretrain`.

use serde_json::{Map, Value};

use crate::demos::pretrain::{Config, Results, Trained};
use crate::report::document::{Block, Document, Section, Table};
use crate::report::findings::pretrain as findings;
use crate::report::format::optional;
use crate::report::json::Figure;
use crate::report::numbers::numbers;
use crate::report::pages::page::Page;

impl Page for Config {
    fn page(&self, results: &Results) -> Document {
        Document {
            title: "Base models".into(),
            summary: "The models that the other commands start from, trained from random weights by a fixed recipe. \
                      The seed is part of the recipe; the demos use that of seed 0."
                .into(),
            sections: results.models.iter().map(|model| section(self, model)).collect(),
            curves: Vec::new(),
        }
    }

    fn headline(&self, results: &Results) -> Vec<Figure> {
        let figures = results.models.iter().flat_map(|model| {
            let named = |(path, value)| Figure::new(format!("{}, {path}", model.name), value);
            numbers(&model.metrics).into_iter().map(named)
        });
        figures.collect()
    }
}

fn section(config: &Config, model: &Trained) -> Section {
    let mut measured = Vec::new();
    evaluations(String::new(), &model.metrics, &mut measured);
    Section {
        title: model.name.to_string(),
        text: "What was measured of it at the end, under the names that the JSON has for it.".into(),
        blocks: vec![Block::Table(table(&measured))],
        observations: findings::model(config, model),
    }
}

/// Figures that belong together, and what they are figures of.
type Evaluation = (String, Vec<(String, Option<f64>)>);

/// Every object that has a number among its fields, under its path.
fn evaluations(path: String, value: &Value, found: &mut Vec<Evaluation>) {
    let Value::Object(fields) = value else { return };
    if fields.values().any(Value::is_number) {
        let mut figures = Vec::new();
        flatten("", fields, &mut figures);
        return found.push((path, figures));
    }
    for (name, value) in fields {
        evaluations(format!("{path} {name}").trim().to_string(), value, found);
    }
}

/// Every number with its path; none where one would stand if it existed.
fn flatten(path: &str, fields: &Map<String, Value>, found: &mut Vec<(String, Option<f64>)>) {
    for (name, value) in fields {
        let path = format!("{path} {name}").trim().to_string();
        match value {
            Value::Object(fields) => flatten(&path, fields, found),
            Value::Number(_) | Value::Null => found.push((path, value.as_f64())),
            _ => {}
        }
    }
}

/// An evaluation per row and a figure per column.
fn table(measured: &[Evaluation]) -> Table {
    let mut columns: Vec<&str> = Vec::new();
    for (name, _) in measured.iter().flat_map(|(_, figures)| figures) {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    let row = |(of, figures): &Evaluation| {
        let figure = |column: &&str| figures.iter().find(|(name, _)| name == column).and_then(|&(_, x)| x);
        std::iter::once(of.clone()).chain(columns.iter().map(|column| optional(figure(column), 3))).collect()
    };
    let header = std::iter::once("").chain(columns.iter().copied()).map(String::from).collect();
    Table { header, rows: measured.iter().map(row).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn evaluations_are_rows_and_their_figures_columns() {
        let metrics = json!({
            "sampled": { "acc": 0.75, "share": { "direct": 0.5 } },
            "forced": { "short": { "acc": 1, "chain_ok": null }, "full": { "length": 9, "acc": 0.5 } },
        });
        let mut measured = Vec::new();
        evaluations(String::new(), &metrics, &mut measured);
        let table = table(&measured);
        assert_eq!(table.header, ["", "acc", "share direct", "chain_ok", "length"]);
        assert_eq!(table.rows[0], ["sampled", "0.750", "0.500", "–", "–"]);
        assert_eq!(table.rows[1], ["forced short", "1.000", "–", "–", "–"]);
        assert_eq!(table.rows[2], ["forced full", "0.500", "–", "–", "9.000"]);
    }
}
