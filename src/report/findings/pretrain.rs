//! The findings of `pretrain`.

use crate::demos::pretrain::{Config, Trained};

/// Whether a model was kept, and whether it could be made again.
pub fn model(config: &Config, model: &Trained) -> Vec<String> {
    let Some(check) = &model.check else {
        let shortened = config.shorten > 1;
        return Vec::from_iter(shortened.then(|| {
            format!("Trained {} times shorter than the recipe asks, measured, and not kept.", config.shorten)
        }));
    };
    if !check.same_recipe {
        return vec!["The checkpoint was made by another recipe: run pretrain without --check.".into()];
    }
    vec![if check.identical {
        "Trained anew, every weight has the bits of the checkpoint.".to_string()
    } else {
        format!(
            "Trained anew, the weights differ from the checkpoint's by up to {:.1e}. On the processor that made \
             it they would not: another one rounds differently, and training amplifies that.",
            check.largest_difference
        )
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demos::pretrain::Check;
    use serde_json::Value;

    fn says(config: &Config, check: Option<Check>) -> String {
        let trained = Trained { name: "reason-base", recipe: Value::Null, metrics: Value::Null, check };
        model(config, &trained).join(" ")
    }

    #[test]
    fn each_outcome_has_its_sentence() {
        let check = |same_recipe, identical, largest_difference| {
            Some(Check { same_recipe, identical, largest_difference })
        };
        let config = Config::default();
        assert_eq!(says(&config, None), "");
        assert!(says(&Config { shorten: 200, ..config.clone() }, None).contains("200 times shorter"));
        assert!(says(&config, check(true, true, 0.0)).contains("has the bits"));
        assert!(says(&config, check(true, false, 0.012)).contains("by up to 1.2e-2"));
        assert!(says(&config, check(false, false, 0.5)).contains("another recipe"));
    }
}
