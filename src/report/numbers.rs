//! Every number of a JSON value, each under a name that means the same in another run.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Every number in `value` with its path: `final.sampled.acc`, `policy[2]`, and for entries of a list
/// of objects what tells them apart, `runs[algo=grpo].final.acc`, so that runs with other entries can be
/// laid side by side. Lists named `curve` are left out: they are for `curves.csv`.
pub fn numbers(value: &Value) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    collect(String::new(), value, &mut |path, leaf| {
        found.extend(leaf.as_f64().map(|number| (path, number)));
    });
    found
}

/// Every leaf of `value` with its path, a string as it is and anything else as JSON.
pub fn leaves(value: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(String::new(), value, &mut |path, leaf| {
        let text = leaf.as_str().map_or_else(|| leaf.to_string(), String::from);
        found.push((path, text));
    });
    found
}

fn collect(path: String, value: &Value, found: &mut impl FnMut(String, &Value)) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter().filter(|(name, _)| *name != "curve") {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(path, field, found);
            }
        }
        Value::Array(entries) => {
            for (label, entry) in labels(entries).into_iter().zip(entries) {
                collect(format!("{path}[{label}]"), entry, found);
            }
        }
        leaf => found(path, leaf),
    }
}

/// The fewest first fields that tell the entries apart, or their indices.
fn labels(entries: &[Value]) -> Vec<String> {
    let objects: Option<Vec<&Map<String, Value>>> = entries.iter().map(Value::as_object).collect();
    let names: Vec<Vec<String>> = objects.unwrap_or_default().iter().map(|object| names(object)).collect();
    let most = names.iter().map(Vec::len).min().unwrap_or(0);
    for fields in 1..=most {
        let labels: Vec<String> = names.iter().map(|names| names[..fields].join(",")).collect();
        if labels.iter().collect::<BTreeSet<_>>().len() == labels.len() {
            return labels;
        }
    }
    (0..entries.len()).map(|i| i.to_string()).collect()
}

/// The leading fields of an object that may name it: words, whole numbers and round ones. A number with
/// many digits is measured, and differs from run to run.
fn names(object: &Map<String, Value>) -> Vec<String> {
    let name = |(field, value): (&String, &Value)| match value {
        Value::String(word) => Some(format!("{field}={word}")),
        Value::Bool(_) => Some(format!("{field}={value}")),
        Value::Number(number) if number.to_string().len() <= 8 => Some(format!("{field}={number}")),
        _ => None,
    };
    object.iter().map_while(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_are_named_by_what_tells_them_apart() {
        let value = json!({
            "a": 1.5,
            "runs": [
                { "algo": "ppo", "beta": 0.0, "true": 1.0, "curve": [{ "step": 1 }] },
                { "algo": "ppo", "beta": 0.5, "true": 2.0, "curve": [] },
            ],
            "policy": [0.25, 0.75],
            "measured": [{ "kl": 0.123456789 }, { "kl": 0.2 }],
            "text": "x",
            "none": null,
        });
        let want = [
            ("a", 1.5),
            ("runs[algo=ppo,beta=0.0].beta", 0.0),
            ("runs[algo=ppo,beta=0.0].true", 1.0),
            ("runs[algo=ppo,beta=0.5].beta", 0.5),
            ("runs[algo=ppo,beta=0.5].true", 2.0),
            ("policy[0]", 0.25),
            ("policy[1]", 0.75),
            ("measured[0].kl", 0.123456789),
            ("measured[1].kl", 0.2),
        ];
        assert_eq!(numbers(&value), want.map(|(path, number)| (path.to_string(), number)));
        let leaves = leaves(&value);
        assert!(
            leaves.contains(&("text".into(), "x".into())) && leaves.contains(&("none".into(), "null".into()))
        );
    }
}
