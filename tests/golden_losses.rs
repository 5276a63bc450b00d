//! The losses against TRL's own: values and gradients that `tests/golden/make_losses.py` recorded.

use candle_core::{Device, Tensor, Var};
use rlhf_lab::algorithms::dpo::{PairLogProbs, PairMetrics, dpo_loss};
use rlhf_lab::algorithms::estimators::KlEstimator;
use rlhf_lab::algorithms::grpo::Grpo;
use rlhf_lab::algorithms::policy_gradient::{Experience, Objective};
use rlhf_lab::algorithms::ppo::Ppo;
use rlhf_lab::algorithms::preference::Ordering;
use rlhf_lab::algorithms::reward_model::reward_loss;
use rlhf_lab::policy::logprob::{TokenLogProbs, sum_segments};
use rlhf_lab::policy::sampling::Rollout;
use serde_json::Value;

/// Both sides compute in f64; what remains is rounding.
const TOLERANCE: f64 = 1e-12;

fn golden() -> Value {
    serde_json::from_str(include_str!("golden/losses.json")).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

fn counts(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect()
}

fn close(got: &[f64], want: &[f64], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= TOLERANCE * w.abs().max(1.0), "{what} {i}: {g} is not {w}");
    }
}

/// Compares a loss and its gradient with respect to `inputs` with what TRL has.
fn loss_agrees(loss: &Tensor, inputs: &Var, case: &Value, what: &str) {
    close(&[loss.to_scalar().unwrap()], &[number(&case["loss"])], what);
    let gradients = loss.backward().unwrap();
    let gradient = gradients.get(inputs).unwrap().to_vec1::<f64>().unwrap();
    close(&gradient, &numbers(&case["gradient"]), &format!("gradient of {what}"));
}

fn variable(value: &Value) -> Var {
    Var::new(numbers(value), &Device::Cpu).unwrap()
}

/// Token log-probabilities to pairs: chosen responses stand before all rejected ones.
fn pairs(tokens: &Tensor, lengths: &[usize]) -> PairLogProbs {
    let responses = sum_segments(tokens, lengths).unwrap();
    let half = lengths.len() / 2;
    let side = |start| responses.narrow(0, start, half).unwrap();
    PairLogProbs { chosen: side(0), rejected: side(half) }
}

#[test]
fn dpo_is_that_of_trl() {
    let golden = golden();
    let cases = golden["dpo"].as_array().unwrap();
    assert_eq!(cases.len(), 4);
    for case in cases {
        let (beta, lengths) = (number(&case["beta"]), counts(&case["lengths"]));
        let tokens = variable(&case["logp"]);
        let policy = pairs(&tokens, &lengths);
        let reference = pairs(&variable(&case["reference"]), &lengths);
        let what = format!("DPO at beta {beta}");
        loss_agrees(&dpo_loss(&policy, &reference, beta).unwrap(), &tokens, case, &what);
        let metrics = PairMetrics::of(&policy, &reference, beta).unwrap().unwrap();
        let rewards = &case["rewards"];
        let got = [
            beta * metrics.chosen,
            beta * metrics.rejected,
            metrics.ordering.margin,
            metrics.ordering.accuracy.unwrap(),
            metrics.ordering.loss,
        ];
        let want = ["chosen", "rejected", "margins", "accuracies"].map(|name| number(&rewards[name]));
        close(&got, &[&want[..], &[number(&case["loss"])]].concat(), &what);
    }
    // The last case has log-ratios of -10⁴.
    assert!(number(&cases[3]["loss"]) > 1000.0);
}

#[test]
fn the_reward_loss_is_that_of_trl() {
    for case in golden()["reward"].as_array().unwrap() {
        let scores = variable(&case["scores"]);
        let comparisons: Vec<(usize, usize)> = case["comparisons"]
            .as_array()
            .unwrap()
            .iter()
            .map(counts)
            .map(|pair| (pair[0], pair[1]))
            .collect();
        loss_agrees(&reward_loss(&scores, &comparisons).unwrap(), &scores, case, "reward loss");
        let values = scores.to_vec1::<f64>().unwrap();
        let margins: Vec<f64> = comparisons.iter().map(|&(w, l)| values[w] - values[l]).collect();
        let ordering = Ordering::of(&margins).unwrap();
        close(&[ordering.margin], &[number(&case["margin"])], "margin");
        // TRL counts a tie as lost; here it is neither. Its accuracy is an f32.
        let decided = margins.iter().filter(|&&margin| margin != 0.0).count() as f64;
        let accuracy = ordering.accuracy.unwrap() * decided / margins.len() as f64;
        assert!((accuracy - number(&case["accuracy"])).abs() < 1e-7);
    }
}

/// A policy-gradient objective from rewards to loss: advantages, value, gradient and clip fraction.
fn objective_agrees(objective: &impl Objective, group: usize, case: &Value, what: &str) {
    let lengths = counts(&case["lengths"]);
    let rollout = |&length: &usize| Rollout { tokens: vec![3; length], ..Rollout::default() };
    let experience = Experience {
        rollouts: lengths.iter().map(rollout).collect(),
        group,
        rewards: numbers(&case["rewards"]),
        old: numbers(&case["old"]),
        reference: numbers(&case["reference"]),
    };
    let advantages = objective.advantages(&experience);
    close(&advantages, &numbers(&case["advantages"]), &format!("advantages of {what}"));
    let tokens = variable(&case["logp"]);
    let logprobs = TokenLogProbs { values: tokens.as_tensor().clone(), lengths };
    let loss = objective.loss(&logprobs, &experience, &advantages).unwrap();
    loss_agrees(&loss.value, &tokens, case, what);
    let want = number(&case["clip_fraction"]); // An f32 of TRL's.
    assert!((loss.clip_fraction - want).abs() < 1e-7, "{what}: {} is not {want}", loss.clip_fraction);
    assert!(want > 0.0, "nothing is clipped: the case tests little");
}

#[test]
fn ppo_is_that_of_trl() {
    let case = &golden()["ppo"];
    let ppo = Ppo { epochs: 1, clip: number(&case["clip"]), beta: number(&case["beta"]) };
    objective_agrees(&ppo, 1, case, "PPO");
}

#[test]
fn grpo_is_that_of_trl() {
    let case = &golden()["grpo"];
    let (clip, beta) = (number(&case["clip"]), number(&case["beta"]));
    let grpo = Grpo { inner: 1, clip, beta, kl: KlEstimator::K3 };
    objective_agrees(&grpo, case["group"].as_u64().unwrap() as usize, case, "GRPO");
}
