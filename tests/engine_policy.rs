//! The policy layer: what is scored, what is sampled, and that both agree.

use candle_core::{DType, Tensor};
use rlhf_lab::foundation::rng::Rng;
use rlhf_lab::foundation::vocab::Vocab;
use rlhf_lab::model::batch::{Batch, Read};
use rlhf_lab::model::config::Config;
use rlhf_lab::model::gpt::Gpt;
use rlhf_lab::model::optim::{Adam, AdamConfig};
use rlhf_lab::policy::logprob::{seq_logprob, token_logprobs};
use rlhf_lab::policy::sampling::{Request, Rollout, Sampling, sample, sample_requests};

fn numbers(x: &Tensor) -> Vec<f64> {
    x.flatten_all().unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap()
}

/// A language model of `v` tokens with clearly uneven probabilities.
fn model(v: usize, n_positions: usize, seed: u64) -> Gpt {
    let config = Config { n_layer: 2, initializer_range: 0.25, ..Config::mini(v, n_positions) };
    Gpt::new(config, &Rng::new(seed)).unwrap()
}

fn prompts(n: usize) -> Vec<Vec<u32>> {
    (0..n).map(|i| (0..=i % 5).map(|j| (1 + (i + 3 * j) % 7) as u32).collect()).collect()
}

fn tokens(rollouts: &[Rollout]) -> Vec<&[u32]> {
    rollouts.iter().map(|r| r.tokens.as_slice()).collect()
}

#[test]
fn stored_logprobs_are_the_scored_ones_bit_for_bit_at_any_temperature() {
    let model = model(9, 24, 1);
    let prompts = prompts(7);
    for temperature in [0.0, 0.5, 1.0, 2.0] {
        let sampling = Sampling { temperature, forced: vec![5, 6], ..Sampling::policy(16) };
        let rollouts = sample(&model, &prompts, 5, &sampling, &Rng::new(2)).unwrap();
        let repeated: Vec<_> = prompts.iter().flat_map(|p| vec![p.clone(); 5]).collect();
        let scored = token_logprobs(&model, &repeated, &tokens(&rollouts)).unwrap();
        let stored: Vec<f64> =
            rollouts.iter().flat_map(|r| r.logprobs.iter().map(|&lp| f64::from(lp))).collect();
        assert_eq!(numbers(&scored.values), stored);
        assert!(rollouts.iter().all(|r| r.tokens[..2] == [5, 6]));
        let lengths: Vec<usize> = rollouts.iter().map(|r| r.tokens.len()).collect();
        assert!(lengths.iter().min() < lengths.iter().max(), "mixed lengths");
    }
}

#[test]
fn sampling_logprobs_are_those_of_the_tempered_logits() {
    let model = model(9, 24, 1);
    for temperature in [0.5, 1.0, 2.0] {
        let sampling = Sampling { temperature, ..Sampling::policy(6) };
        let rollouts = sample(&model, &[[1, 3]], 20, &sampling, &Rng::new(3)).unwrap();
        for rollout in &rollouts {
            let batch = Batch::new(&[[1, 3]], &[&rollout.tokens], Read::Every).unwrap();
            let logits = (model.logits(batch).unwrap() / temperature).unwrap();
            let logp = candle_nn::ops::log_softmax(&logits, 1).unwrap().to_vec2::<f32>().unwrap();
            for (t, &token) in rollout.tokens.iter().enumerate() {
                let got = rollout.sampling_logprobs[t];
                assert!((got - logp[1 + t][token as usize]).abs() < 1e-5);
            }
        }
        let differ = rollouts.iter().any(|r| r.sampling_logprobs != r.logprobs);
        assert_eq!(differ, temperature != 1.0);
    }
}

#[test]
fn at_learning_rate_zero_every_log_ratio_is_zero_in_any_batch_split() {
    let model = model(9, 24, 4);
    let prompts = prompts(12);
    let rollouts = sample(&model, &prompts, 1, &Sampling::policy(12), &Rng::new(5)).unwrap();
    let whole = seq_logprob(&model, &prompts, &tokens(&rollouts)).unwrap();
    let mut adam = Adam::for_model(AdamConfig::adam(), &model);
    adam.minimize(&model, &whole.mean_all().unwrap(), 0.0).unwrap();
    for size in [1, 5, 12] {
        let parts: Vec<f64> = prompts
            .chunks(size)
            .zip(tokens(&rollouts).chunks(size))
            .flat_map(|(p, r)| numbers(&seq_logprob(&model, p, r).unwrap()))
            .collect();
        for (a, b) in parts.iter().zip(numbers(&whole)) {
            assert!((a - b).abs() < 1e-5);
        }
    }
}

#[test]
fn response_tokens_are_counted_from_the_first_to_the_end_token_and_no_others() {
    let model = model(9, 24, 6);
    let by_hand = |sequence: &[u32], from: usize| -> f64 {
        let batch = Batch::new(&[sequence], &[[0_u32; 0]], Read::Every).unwrap();
        let logits = model.logits(batch).unwrap();
        let logp = candle_nn::ops::log_softmax(&logits, 1).unwrap().to_vec2::<f32>().unwrap();
        (from..sequence.len()).map(|t| f64::from(logp[t - 1][sequence[t] as usize])).sum()
    };
    for length in 1..=5 {
        let prompt: Vec<u32> = (0..length).map(|i| 1 + i % 4).collect();
        for response in [vec![Vocab::EOS], vec![7, 3, 8], vec![7, 3, 8, Vocab::EOS]] {
            let got = numbers(&seq_logprob(&model, &[&prompt], &[&response]).unwrap())[0];
            let want = by_hand(&[prompt.clone(), response].concat(), prompt.len());
            assert!((got - want).abs() < 1e-5, "prompt of {length}: {got} != {want}");
        }
    }
    let score = |response: &[u32]| numbers(&seq_logprob(&model, &[[1, 2]], &[response]).unwrap())[0];
    assert_ne!(score(&[3, 4]), score(&[5, 4]), "the first token counts");
    assert_ne!(score(&[3, 4]), score(&[3, 4, Vocab::EOS]), "the end token counts");
    assert_eq!(score(&[]), 0.0);
}

#[test]
fn the_end_tokens_logit_gets_a_gradient_and_padding_is_another_token() {
    let model = model(9, 24, 7);
    let loss = seq_logprob(&model, &[[1, 3]], &[[4, Vocab::EOS]]).unwrap().sum_all().unwrap();
    let without = seq_logprob(&model, &[[1, 3]], &[[4]]).unwrap().sum_all().unwrap();
    let row = |loss: &Tensor| {
        let gradients = loss.backward().unwrap();
        let gradient = numbers(gradients.get(model.parameters()).unwrap());
        let (c, eos) = (model.config().n_embd, Vocab::EOS as usize);
        gradient[eos * c..(eos + 1) * c].to_vec()
    };
    assert_ne!(row(&loss), row(&without));
    assert_ne!(Vocab::PAD, Vocab::EOS);
    assert_ne!(Vocab::PAD, Vocab::BOS);
}

#[test]
fn text_depends_on_the_stream_and_not_on_order_sharding_or_threads() {
    let model = model(9, 24, 8);
    let prompts = prompts(150);
    let requests: Vec<Request> =
        prompts.iter().enumerate().map(|(i, prompt)| Request { prompt, rng: Rng::new(9).fork(i) }).collect();
    let sampling = Sampling::policy(16);
    let run = |requests: &[Request], threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| sample_requests(&model, requests, &sampling).unwrap())
    };
    let want = run(&requests, 1);
    assert_eq!(run(&requests, 2), want);
    assert_eq!(run(&requests, 8), want);
    let reversed: Vec<Request> = requests.iter().rev().cloned().collect();
    let mut got = run(&reversed, 2);
    got.reverse();
    assert_eq!(got, want);
    assert_eq!(run(&requests[40..41], 1), want[40..41]);
}

#[test]
fn greedy_takes_the_argmax_of_the_plain_forward_pass() {
    let model = model(9, 24, 10);
    for prompt in prompts(6) {
        let rollout = &sample(&model, &[&prompt], 1, &Sampling::greedy(10), &Rng::new(0)).unwrap()[0];
        let mut sequence = prompt.clone();
        for &token in &rollout.tokens {
            let batch = Batch::new(&[&sequence], &[[0_u32; 0]], Read::Last).unwrap();
            let logits = numbers(&model.logits(batch).unwrap());
            let best = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            assert_eq!(logits[token as usize], best);
            sequence.push(token);
        }
        assert!(rollout.stopped || rollout.tokens.len() == 10);
    }
}

/// Every response of at most `length` tokens: stopped ones, and full ones that did not stop.
fn all_responses(v: u32, length: usize) -> Vec<Vec<u32>> {
    let (mut done, mut open) = (Vec::new(), vec![Vec::new()]);
    for _ in 0..length {
        let mut longer = Vec::new();
        for prefix in open {
            for token in 0..v {
                let response = [prefix.as_slice(), &[token]].concat();
                (if token == Vocab::EOS { &mut done } else { &mut longer }).push(response);
            }
        }
        open = longer;
    }
    done.extend(open);
    done
}

#[test]
fn probabilities_of_all_responses_sum_to_one_and_samples_follow_them() {
    let model = model(4, 8, 11);
    let responses = all_responses(4, 3);
    let prompts = vec![vec![1, 3]; responses.len()];
    let exact: Vec<f64> =
        numbers(&seq_logprob(&model, &prompts, &responses).unwrap()).into_iter().map(f64::exp).collect();
    let total: f64 = exact.iter().sum();
    assert!((total - 1.0).abs() < 1e-5, "total probability {total}");

    let n = 100_000;
    let rollouts = sample(&model, &[[1, 3]], n, &Sampling::policy(3), &Rng::new(12)).unwrap();
    let index: std::collections::HashMap<&[u32], usize> =
        responses.iter().enumerate().map(|(i, r)| (r.as_slice(), i)).collect();
    let mut counts = vec![0.0; responses.len()];
    for rollout in &rollouts {
        counts[index[rollout.tokens.as_slice()]] += 1.0;
        assert_eq!(rollout.stopped, rollout.tokens.last() == Some(&Vocab::EOS));
    }
    // Cells expected to hold fewer than ten samples are pooled.
    let (mut chi2, mut cells, mut rest) = (0.0, 0.0, (0.0, 0.0));
    for (&count, &p) in counts.iter().zip(&exact) {
        let expected = p * n as f64;
        if expected < 10.0 {
            rest = (rest.0 + count, rest.1 + expected);
        } else {
            chi2 += (count - expected) * (count - expected) / expected;
            cells += 1.0;
        }
    }
    if rest.1 > 0.0 {
        chi2 += (rest.0 - rest.1) * (rest.0 - rest.1) / rest.1;
        cells += 1.0;
    }
    // Wilson-Hilferty bound at z = 3.09, p = .001.
    let df: f64 = cells - 1.0;
    let bound = df * (1.0 - 2.0 / (9.0 * df) + 3.09 * (2.0 / (9.0 * df)).sqrt()).powi(3);
    assert!(chi2 < bound, "chi-square {chi2} with {df} degrees of freedom, bound {bound}");
    assert!(df > 10.0, "the test must have cells to see, got {df}");
}

#[test]
fn a_response_ends_with_the_models_last_position() {
    let model = model(9, 6, 13);
    let sampling = Sampling { end: 99, ..Sampling::policy(50) };
    let rollouts = sample(&model, &[vec![1], vec![1, 3, 4, 5, 6]], 3, &sampling, &Rng::new(0)).unwrap();
    assert!(rollouts[..3].iter().all(|r| r.tokens.len() == 5 && !r.stopped));
    assert!(rollouts[3..].iter().all(|r| r.tokens.len() == 1));
    let error = |prompt: Vec<u32>, sampling: &Sampling| {
        sample(&model, &[prompt], 1, sampling, &Rng::new(0)).unwrap_err().to_string()
    };
    assert!(error(vec![1; 6], &sampling).contains("leaves no room"));
    assert!(error(vec![9], &sampling).contains("token 9"));
    assert!(error(vec![], &sampling).contains("empty"));
    let cold = Sampling { temperature: -1.0, ..Sampling::policy(3) };
    assert!(error(vec![1], &cold).contains("temperature"));
    let forced = Sampling { forced: vec![77], ..Sampling::policy(3) };
    assert!(error(vec![1], &forced).contains("77"));
    let none = Sampling::policy(0);
    assert!(sample(&model, &[[1]], 2, &none, &Rng::new(0)).unwrap()[1].tokens.is_empty());
}

#[test]
fn every_parameter_moves_in_one_step() {
    let model = model(9, 16, 14);
    let before = numbers(model.parameters());
    let prompts = prompts(20);
    let rollouts = sample(&model, &prompts, 2, &Sampling::policy(12), &Rng::new(0)).unwrap();
    let repeated: Vec<_> = prompts.iter().flat_map(|p| vec![p.clone(); 2]).collect();
    let loss = seq_logprob(&model, &repeated, &tokens(&rollouts)).unwrap().mean_all().unwrap();
    Adam::for_model(AdamConfig::adam(), &model).minimize(&model, &loss, 1e-3).unwrap();
    let after = numbers(model.parameters());
    for parameter in &model.layout().parameters {
        let range = parameter.range.clone();
        assert_ne!(before[range.clone()], after[range], "{} stayed", parameter.name);
    }
}
