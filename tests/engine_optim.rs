//! The optimiser against PyTorch's, on values made by `tests/golden/make_golden.py`.

use candle_core::{Device, Tensor, Var};
use rlhf_lab::model::optim::{Adam, AdamConfig, Decay, Schedule};
use serde_json::Value;

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        other => vec![other.as_f64().unwrap()],
    }
}

fn assert_close(got: &[f32], want: &Value, what: &str) {
    for (got, want) in got.iter().zip(numbers(want)) {
        assert!((f64::from(*got) - want).abs() < 1e-6, "{what}: got {got}, want {want}");
    }
}

#[test]
fn a_hundred_clipped_and_scheduled_steps_equal_pytorchs() {
    let golden = include_str!("golden/adamw.json");
    let golden: Value = serde_json::from_str(golden).unwrap();
    let at = |name: &str| golden[name].as_f64().unwrap();
    let (total, warmup) = (at("total") as usize, at("warmup") as usize);
    let schedule = Schedule { lr: at("base_lr"), warmup, decay: Decay::Cosine { total } };
    let target = numbers(&golden["target"]);
    let start: Vec<f32> = numbers(&golden["start"]).iter().map(|&p| p as f32).collect();
    let coupling = at("coupling") as f32;

    for name in ["adamw", "adam"] {
        let run = &golden[name];
        let config = AdamConfig { weight_decay: run["weight_decay"].as_f64().unwrap(), ..AdamConfig::adam() };
        let parameters = Var::new(start.as_slice(), &Device::Cpu).unwrap();
        let mut adam = Adam::new(config, start.len());
        for step in 1..=total {
            let p = parameters.to_vec1::<f32>().unwrap();
            let mut gradient: Vec<f32> =
                p.iter().zip(&target).map(|(p, &t)| 4.0 * (p - t as f32).powi(3)).collect();
            for i in 1..p.len() {
                let pull = 2.0 * coupling * (p[i] - p[i - 1]);
                gradient[i] += pull;
                gradient[i - 1] -= pull;
            }
            let gradient = Tensor::new(gradient.as_slice(), &Device::Cpu).unwrap();
            let lr = schedule.at(step);
            assert!((lr - run["lr"][step - 1].as_f64().unwrap()).abs() < 1e-12);
            let norm = adam.update(&parameters, &gradient, lr).unwrap();
            let want = run["grad_norm"][step - 1].as_f64().unwrap();
            assert!((norm - want).abs() < 1e-5 * (1.0 + want), "{name} {step}: {norm} != {want}");
            if let Some(want) = run["steps"].get(step.to_string()) {
                let what = format!("{name}, step {step}");
                assert_close(&parameters.to_vec1().unwrap(), &want["params"], &what);
                assert_close(adam.moments().0, &want["exp_avg"], &what);
                assert_close(adam.moments().1, &want["exp_avg_sq"], &what);
            }
        }
    }
}
