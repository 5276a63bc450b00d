//! Exact analysis of a model on its support, against full enumeration and against sampling.

use std::collections::HashMap;

use rlhf_lab::foundation::rng::Rng;
use rlhf_lab::foundation::stats::{mean, standard_error};
use rlhf_lab::foundation::vocab::Vocab;
use rlhf_lab::model::config::Config;
use rlhf_lab::model::gpt::Gpt;
use rlhf_lab::policy::logprob::seq_logprob;
use rlhf_lab::policy::optimal::log_optimal_policy;
use rlhf_lab::policy::sampling::{Sampling, sample};
use rlhf_lab::policy::support::{Coverage, Support};

const V: u32 = 5;
const LENGTH: usize = 3;
const PROMPT: [u32; 2] = [Vocab::BOS, 4];
const ALL: Coverage = Coverage { mass: 1.0, max_samples: 20_000 };

/// Weights so even that no response is too rare to be found by [`ALL`]'s samples.
fn model(seed: u64) -> Gpt {
    let config = Config { n_layer: 2, initializer_range: 0.1, ..Config::mini(V as usize, 8) };
    Gpt::new(config, &Rng::new(seed)).unwrap()
}

fn collect(model: &Gpt, coverage: Coverage) -> Support {
    Support::collect(model, &PROMPT, &Sampling::policy(LENGTH), coverage, &Rng::new(1)).unwrap()
}

/// Every response of at most [`LENGTH`] tokens that ends by itself.
fn finished() -> Vec<Vec<u32>> {
    let mut open: Vec<Vec<u32>> = vec![vec![]];
    let mut finished = Vec::new();
    for _ in 0..LENGTH {
        open = open.iter().flat_map(|r| (0..V).map(move |t| [r.as_slice(), &[t]].concat())).collect();
        finished.extend(open.iter().filter(|r| r.last() == Some(&Vocab::EOS)).cloned());
        open.retain(|r| r.last() != Some(&Vocab::EOS));
    }
    finished
}

fn log_probs(model: &Gpt, responses: &[Vec<u32>]) -> Vec<f64> {
    let prompts = vec![PROMPT; responses.len()];
    let scores = seq_logprob(&model.no_grad(), &prompts, responses).unwrap().to_vec1::<f32>().unwrap();
    scores.into_iter().map(f64::from).collect()
}

/// A reward that depends on the text alone.
fn reward(response: &[u32]) -> f64 {
    response.iter().map(|&t| f64::from(t) - 2.0).sum::<f64>() * 0.5
}

#[test]
fn a_full_support_is_the_enumeration() {
    let model = model(3);
    let support = collect(&model, ALL);
    let all = finished();
    assert_eq!(support.responses.len(), all.len(), "20000 samples find all {}", all.len());
    let exact: HashMap<Vec<u32>, f64> = all.iter().cloned().zip(log_probs(&model, &all)).collect();
    for (response, log_ref) in support.responses.iter().zip(&support.log_ref) {
        assert!((exact[response] - log_ref).abs() < 1e-5, "{response:?}");
    }
    let mass: f64 = exact.values().map(|lp| lp.exp()).sum();
    assert!((support.mass() - mass).abs() < 1e-5 && mass < 0.99, "what does not stop is outside");

    let rewards: Vec<f64> = support.responses.iter().map(|r| reward(r)).collect();
    let star = support.optimal(&rewards, 0.5);
    let want =
        log_optimal_policy(&log_probs(&model, &all), &all.iter().map(|r| reward(r)).collect::<Vec<_>>(), 0.5);
    let want: HashMap<&Vec<u32>, f64> = all.iter().zip(want).collect();
    for (response, got) in support.responses.iter().zip(star.probabilities()) {
        assert!((want[response].exp() - got).abs() < 1e-5);
    }
    assert!((star.mass - 1.0).abs() < 1e-12);
}

#[test]
fn exact_expectations_agree_with_sampling() {
    let model = model(4);
    let reference = collect(&model, ALL);
    assert_eq!(reference.responses.len(), finished().len());
    let other = self::model(5);
    let policy = reference.policy(&other).unwrap();
    let rewards: Vec<f64> = reference.responses.iter().map(|r| reward(r)).collect();

    let rollouts = sample(&other, &[PROMPT], 20_000, &Sampling::policy(LENGTH), &Rng::new(9)).unwrap();
    let stopped: Vec<&[u32]> = rollouts.iter().filter(|r| r.stopped).map(|r| r.tokens.as_slice()).collect();
    let close = |exact: f64, samples: &[f64], what: &str| {
        let (m, se) = (mean(samples).unwrap(), standard_error(samples).unwrap());
        assert!((exact - m).abs() < 4.0 * se, "{what}: exact {exact}, sampled {m} ± {se}");
    };
    let indicator: Vec<f64> = rollouts.iter().map(|r| f64::from(u8::from(r.stopped))).collect();
    close(policy.mass, &indicator, "mass");
    close(policy.expectation(&rewards), &stopped.iter().map(|r| reward(r)).collect::<Vec<_>>(), "reward");
    let at: HashMap<&[u32], usize> =
        reference.responses.iter().enumerate().map(|(i, r)| (r.as_slice(), i)).collect();
    let base = reference.reference();
    let ratio: Vec<f64> = stopped.iter().map(|r| policy.log_probs[at[r]] - base.log_probs[at[r]]).collect();
    close(policy.kl_to(&base), &ratio, "KL");
    let bits: Vec<f64> = stopped.iter().map(|r| -policy.log_probs[at[r]] / 2_f64.ln()).collect();
    close(policy.entropy_bits(), &bits, "entropy");
}

#[test]
fn distances_are_zero_to_itself_and_count_what_is_outside() {
    let model = model(6);
    let support = collect(&model, ALL);
    let (base, same) = (support.reference(), support.policy(&model).unwrap());
    assert!(base.tv_to(&same) < 1e-6 && base.kl_to(&same).abs() < 1e-6);
    let rewards: Vec<f64> = support.responses.iter().map(|r| reward(r)).collect();
    let far = support.optimal(&rewards, 1e12);
    // At β = ∞ the optimum is the reference on its support: only the missing mass separates them.
    assert!((base.tv_to(&far) - (1.0 - base.mass)).abs() < 1e-6);
    let greedy = support.optimal(&rewards, 0.0);
    assert!(greedy.expectation(&rewards) > base.expectation(&rewards));
    assert!(base.tv_to(&greedy) <= 1.0 && greedy.entropy_bits() < base.entropy_bits());
}

#[test]
fn collecting_stops_at_the_mass_or_at_the_last_sample() {
    let model = model(7);
    let little = collect(&model, Coverage { mass: 0.2, max_samples: 20_000 });
    assert!(little.mass() >= 0.2 && little.samples < 20_000);
    let few = collect(&model, Coverage { mass: 1.0, max_samples: 10 });
    assert_eq!(few.samples, 10);
    assert!(few.responses.iter().zip(&collect(&model, ALL).responses).all(|(a, b)| a == b), "a prefix");
    let none = collect(&model, Coverage { mass: 1.0, max_samples: 0 });
    assert!(none.responses.is_empty() && none.mass() == 0.0);
    let bad = Coverage { mass: f64::NAN, max_samples: 1 };
    assert!(Support::collect(&model, &PROMPT, &Sampling::policy(3), bad, &Rng::new(1)).is_err());
}
