//! The page of `pretrain`.

use serde_json::Value;

use crate::demos::pretrain::{Config, Results, Trained};
use crate::report::document::{Block, Document, Section, Table};
use crate::report::findings::pretrain as findings;
use crate::report::format::fixed;
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
}

fn section(config: &Config, model: &Trained) -> Section {
    let mut rows = Vec::new();
    numbers("", &model.metrics, &mut rows);
    Section {
        title: model.name.to_string(),
        text: "What was measured of it at the end.".into(),
        blocks: vec![Block::Table(Table { header: ["metric", "value"].map(String::from).to_vec(), rows })],
        observations: findings::model(config, model),
    }
}

/// Every number with its path.
fn numbers(path: &str, value: &Value, rows: &mut Vec<Vec<String>>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path} {name}") };
                numbers(&path, value, rows);
            }
        }
        value => rows.extend(value.as_f64().map(|x| vec![path.to_string(), fixed(x, 3)])),
    }
}
