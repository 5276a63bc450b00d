//! The fused network against Candle's composed autograd and against finite differences.

use candle_core::{DType, Device, Tensor};
use rlhf_lab::foundation::rng::Rng;
use rlhf_lab::model::batch::{Batch, Read};
use rlhf_lab::model::composed;
use rlhf_lab::model::config::{Config, Head};
use rlhf_lab::model::gpt::Gpt;

/// A model whose every parameter, biases and LayerNorms too, is far from its default.
fn random_model(config: Config, seed: u64) -> Gpt {
    let count = Gpt::new(config.clone(), &Rng::new(0)).unwrap().layout().len();
    let mut rng = Rng::new(seed).fork("parameters");
    let mut numbers: Vec<f32> = (0..count).map(|_| (0.15 * rng.normal()) as f32).collect();
    let layout = Gpt::new(config.clone(), &Rng::new(0)).unwrap();
    for parameter in &layout.layout().parameters {
        if parameter.name.contains("ln_") && parameter.name.ends_with("weight") {
            numbers[parameter.range.clone()].iter_mut().for_each(|w| *w += 1.0);
        }
    }
    Gpt::from_flat(config, numbers).unwrap()
}

fn config(n_embd: usize, n_head: usize) -> Config {
    Config { n_embd, n_head, n_layer: 2, ..Config::mini(11, 40) }
}

fn random_tokens(rng: &mut Rng, n: usize) -> Vec<u32> {
    (0..n).map(|_| (rng.uniform() * 11.0) as u32).collect()
}

/// Prompts and responses of random lengths, in groups that share a prompt.
fn random_pairs(rng: &mut Rng, groups: usize, group: usize) -> (Vec<Vec<u32>>, Vec<Vec<u32>>) {
    let (mut prompts, mut responses) = (Vec::new(), Vec::new());
    for _ in 0..groups {
        let length = 1 + (rng.uniform() * 20.0) as usize;
        let prompt = random_tokens(rng, length);
        for _ in 0..group {
            let length = (rng.uniform() * 20.0) as usize;
            prompts.push(prompt.clone());
            responses.push(random_tokens(rng, length));
        }
    }
    (prompts, responses)
}

/// Token log-probabilities by the composed network, one sequence after the other.
fn composed_logprobs(model: &Gpt, prompts: &[Vec<u32>], responses: &[Vec<u32>]) -> Tensor {
    let mut parts = Vec::new();
    for (prompt, response) in prompts.iter().zip(responses) {
        if response.is_empty() {
            continue;
        }
        let tokens = [prompt.as_slice(), response].concat();
        let x = Tensor::new(&tokens[..tokens.len() - 1], &Device::Cpu).unwrap();
        let logits = composed::logits(model, &x.unsqueeze(0).unwrap()).unwrap().squeeze(0).unwrap();
        let logits = logits.narrow(0, prompt.len() - 1, response.len()).unwrap();
        let logp = candle_nn::ops::log_softmax(&logits, 1).unwrap();
        let index = Tensor::new(response.as_slice(), &Device::Cpu).unwrap().unsqueeze(1).unwrap();
        parts.push(logp.gather(&index, 1).unwrap().squeeze(1).unwrap());
    }
    Tensor::cat(&parts, 0).unwrap()
}

fn numbers(x: &Tensor) -> Vec<f64> {
    x.flatten_all().unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap()
}

/// The gradient of Σ w x for fixed random w, so that no two outputs look alike.
fn gradient(model: &Gpt, x: &Tensor) -> Vec<f64> {
    let mut rng = Rng::new(5).fork("weights");
    let w: Vec<f64> = (0..x.elem_count()).map(|_| rng.normal()).collect();
    let w = Tensor::from_vec(w, x.shape(), &Device::Cpu).unwrap().to_dtype(x.dtype()).unwrap();
    let loss = (x * w).unwrap().sum_all().unwrap();
    numbers(loss.backward().unwrap().get(model.parameters()).unwrap())
}

fn assert_close(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let scale = want.iter().map(|w| w * w).sum::<f64>().sqrt() / (want.len() as f64).sqrt();
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= tolerance * (w.abs() + scale), "{what}, entry {i}: got {g}, want {w}");
    }
}

/// Every parameter's gradient on its own, so that a small tensor cannot hide behind a large one.
fn assert_gradients_close(model: &Gpt, got: &[f64], want: &[f64], tolerance: f64) {
    for parameter in &model.layout().parameters {
        let range = parameter.range.clone();
        if parameter.name.ends_with("c_attn.bias") {
            // The keys' bias shifts all scores alike, so its true gradient is zero: compare the rest.
            let c = model.config().n_embd;
            for part in [range.start..range.start + c, range.start + 2 * c..range.end] {
                assert_close(&got[part.clone()], &want[part], tolerance, &parameter.name);
            }
        } else {
            assert_close(&got[range.clone()], &want[range], tolerance, &parameter.name);
        }
    }
}

#[test]
fn fused_logprobs_and_gradients_equal_the_composed_ones_on_ragged_shared_prompts() {
    // (C, H): a head of 16 has a path of its own; 12 and 20 fill no lane.
    for (seed, (c, h)) in [(64, 4), (16, 2), (12, 1), (40, 2)].into_iter().enumerate() {
        let mut rng = Rng::new(seed as u64).fork("pairs");
        let model = random_model(config(c, h), seed as u64);
        let exact = model.to_dtype(DType::F64).unwrap();
        let (prompts, responses) = random_pairs(&mut rng, 6, 5);
        let batch = || Batch::new(&prompts, &responses, Read::Response).unwrap();

        let want = composed_logprobs(&exact, &prompts, &responses);
        let got = exact.token_logprobs(batch()).unwrap();
        assert_close(&numbers(&got), &numbers(&want), 1e-10, "f64 log-probabilities");
        let (got, want_gradient) = (gradient(&exact, &got), gradient(&exact, &want));
        assert_gradients_close(&exact, &got, &want_gradient, 1e-8);

        let got = model.token_logprobs(batch()).unwrap();
        assert_close(&numbers(&got), &numbers(&want), 1e-5, "f32 log-probabilities");
        assert_gradients_close(&model, &gradient(&model, &got), &want_gradient, 1e-4);
    }
}

#[test]
fn a_single_token_and_a_single_sequence_are_right_too() {
    let model = random_model(config(16, 2), 3);
    for (prompt, response) in [(vec![1], vec![2]), (vec![1], vec![3, 4, 5, 2]), (vec![4; 17], vec![6])] {
        let (prompts, responses) = (vec![prompt], vec![response]);
        let batch = Batch::new(&prompts, &responses, Read::Response).unwrap();
        let got = model.token_logprobs(batch).unwrap();
        let want = composed_logprobs(&model, &prompts, &responses);
        assert_close(&numbers(&got), &numbers(&want), 1e-5, "log-probabilities");
        assert_gradients_close(&model, &gradient(&model, &got), &gradient(&model, &want), 1e-4);
    }
}

#[test]
fn logits_hidden_states_and_scores_equal_the_composed_ones() {
    let mut rng = Rng::new(8).fork("sequences");
    let model = random_model(config(16, 2), 8).to_dtype(DType::F64).unwrap();
    let reward = random_model(Config { head: Head::Score, ..config(16, 2) }, 9);
    let reward = reward.to_dtype(DType::F64).unwrap();
    let sequences: Vec<Vec<u32>> = (0..5).map(|_| random_tokens(&mut rng, 9)).collect();
    let tokens = Tensor::from_vec(sequences.concat(), (5, 9), &Device::Cpu).unwrap();
    let split: (Vec<_>, Vec<_>) = sequences.iter().map(|s| (s[..4].to_vec(), s[4..].to_vec())).unzip();
    let batch = |read| Batch::new(&split.0, &split.1, read).unwrap();

    let pairs = [
        (&model, model.logits(batch(Read::Every)).unwrap(), composed::logits(&model, &tokens)),
        (&model, model.hidden(batch(Read::Every)).unwrap(), composed::hidden(&model, &tokens)),
        (&reward, reward.scores(batch(Read::Last)).unwrap(), composed::scores(&reward, &tokens)),
    ];
    for (model, got, want) in pairs {
        let want = want.unwrap();
        let got = got.reshape(want.shape()).unwrap();
        assert_close(&numbers(&got), &numbers(&want), 1e-10, "outputs");
        assert_gradients_close(model, &gradient(model, &got), &gradient(model, &want), 1e-8);
    }
}

#[test]
fn gradients_equal_finite_differences_in_f64() {
    let model = random_model(Config { n_layer: 1, ..config(4, 2) }, 4).to_dtype(DType::F64).unwrap();
    let (prompts, responses) = (vec![vec![1, 2], vec![1, 2]], vec![vec![3, 4, 5], vec![6, 2]]);
    let loss = |parameters: &Tensor| {
        let model = Gpt::from_tensor(model.config().clone(), parameters.clone()).unwrap();
        let batch = Batch::new(&prompts, &responses, Read::Response).unwrap();
        let logp = model.token_logprobs(batch).unwrap();
        (model, logp.sqr().unwrap().sum_all().unwrap())
    };
    let (fresh, value) = loss(model.parameters());
    let got = numbers(value.backward().unwrap().get(fresh.parameters()).unwrap());
    let start = numbers(model.parameters());
    let step = 1e-5;
    for i in 0..start.len() {
        let at = |delta: f64| {
            let mut moved = start.clone();
            moved[i] += delta;
            let moved = Tensor::from_vec(moved, start.len(), &Device::Cpu).unwrap();
            loss(&moved).1.to_scalar::<f64>().unwrap()
        };
        let want = (at(step) - at(-step)) / (2.0 * step);
        assert!((got[i] - want).abs() < 1e-7 * (1.0 + want.abs()), "{i}: {} != {want}", got[i]);
    }
}

#[test]
fn one_two_and_eight_threads_give_the_same_bits() {
    let mut rng = Rng::new(6).fork("pairs");
    let model = random_model(config(64, 4), 6);
    let (prompts, responses) = random_pairs(&mut rng, 30, 4);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let batch = Batch::new(&prompts, &responses, Read::Response).unwrap();
            let logp = model.token_logprobs(batch).unwrap();
            (numbers(&logp), gradient(&model, &logp))
        })
    };
    let one = run(1);
    assert_eq!(one, run(2));
    assert_eq!(one, run(8));
}

#[test]
fn a_log_probability_has_the_same_bits_alone_and_in_any_batch() {
    let mut rng = Rng::new(7).fork("pairs");
    let model = random_model(config(64, 4), 7).no_grad();
    let (prompts, responses) = random_pairs(&mut rng, 10, 3);
    let together = Batch::new(&prompts, &responses, Read::Response).unwrap();
    let lengths = together.lengths().to_vec();
    let together = numbers(&model.token_logprobs(together).unwrap());
    let mut rest = together.as_slice();
    for (b, length) in lengths.into_iter().enumerate() {
        let (here, after) = rest.split_at(length);
        rest = after;
        let alone = Batch::new(&prompts[b..=b], &responses[b..=b], Read::Response).unwrap();
        assert_eq!(numbers(&model.token_logprobs(alone).unwrap()), here);
    }
}

#[test]
fn every_parameter_gets_a_gradient() {
    let model = random_model(config(16, 2), 1);
    let (prompts, responses) = random_pairs(&mut Rng::new(1).fork("pairs"), 8, 2);
    let batch = Batch::new(&prompts, &responses, Read::Response).unwrap();
    let gradient = gradient(&model, &model.token_logprobs(batch).unwrap());
    for parameter in &model.layout().parameters {
        let part = &gradient[parameter.range.clone()];
        assert!(part.iter().any(|&g| g != 0.0), "{} has no gradient", parameter.name);
    }
}

#[test]
fn without_gradients_the_numbers_are_the_same_and_nothing_is_tracked() {
    let model = random_model(config(16, 2), 2);
    let (prompts, responses) = random_pairs(&mut Rng::new(2).fork("pairs"), 3, 2);
    let batch = || Batch::new(&prompts, &responses, Read::Response).unwrap();
    let (tracked, plain) =
        (model.token_logprobs(batch()).unwrap(), model.no_grad().token_logprobs(batch()).unwrap());
    assert_eq!(numbers(&tracked), numbers(&plain));
    assert!(tracked.track_op() && !plain.track_op());
}
