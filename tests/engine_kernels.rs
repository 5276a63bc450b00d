//! Every kernel's backward pass against finite differences of its forward pass, in f64.

use rlhf_lab::foundation::rng::Rng;
use rlhf_lab::model::fused::attention::{self, Scratch, Segment};
use rlhf_lab::model::fused::linear::{self, Weight};
use rlhf_lab::model::fused::matmul::Panels;
use rlhf_lab::model::fused::token_logprob::{self, Target};
use rlhf_lab::model::fused::{embedding, gelu, layer_norm};

fn numbers(rng: &mut Rng, n: usize) -> Vec<f64> {
    (0..n).map(|_| rng.normal()).collect()
}

/// Checks `gradient` of Σ `weights` · `f(x)` by central differences.
fn check(x: &[f64], weights: &[f64], gradient: &[f64], what: &str, f: impl Fn(&[f64]) -> Vec<f64>) {
    let value = |x: &[f64]| f(x).iter().zip(weights).map(|(y, w)| y * w).sum::<f64>();
    let step = 1e-5;
    assert_eq!(x.len(), gradient.len(), "{what}");
    for i in 0..x.len() {
        let at = |delta: f64| {
            let mut moved = x.to_vec();
            moved[i] += delta;
            value(&moved)
        };
        let want = (at(step) - at(-step)) / (2.0 * step);
        let difference = (gradient[i] - want).abs();
        assert!(difference < 1e-6 * (1.0 + want.abs()), "{what} {i}: got {}, want {want}", gradient[i]);
    }
}

#[test]
fn layer_norm_backward_is_the_derivative() {
    let mut rng = Rng::new(1).fork("layer_norm");
    for (n, c) in [(1, 1), (1, 5), (3, 16), (4, 37), (2, 64)] {
        let (x, w, b, dy) =
            (numbers(&mut rng, n * c), numbers(&mut rng, c), numbers(&mut rng, c), numbers(&mut rng, n * c));
        let forward = |x: &[f64], w: &[f64], b: &[f64]| {
            let (mut y, mut stats) = (vec![0.0; n * c], vec![0.0; n * 2]);
            layer_norm::forward(x, w, b, &mut y, &mut stats);
            (y, stats)
        };
        let (_, stats) = forward(&x, &w, &b);
        let (mut dx, mut dw, mut db) = (vec![0.0; n * c], vec![9.0; c], vec![9.0; c]);
        layer_norm::backward(&x, &w, &stats, &mut dy.clone(), &mut dx, &mut dw, &mut db);
        if c > 1 {
            check(&x, &dy, &dx, "x", |x| forward(x, &w, &b).0);
        }
        check(&w, &dy, &dw, "weight", |w| forward(&x, w, &b).0);
        check(&b, &dy, &db, "bias", |b| forward(&x, &w, b).0);
    }
}

#[test]
fn gelu_is_the_tanh_form_and_its_backward_the_derivative() {
    let x: Vec<f64> = (-80..=80).map(|i| f64::from(i) / 10.0).collect();
    let forward = |x: &[f64]| {
        let mut y = vec![0.0; x.len()];
        gelu::forward(x, &mut y);
        y
    };
    for (x, y) in x.iter().zip(forward(&x)) {
        let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
        assert!((y - 0.5 * x * (1.0 + u.tanh())).abs() < 1e-12);
    }
    let dy = numbers(&mut Rng::new(2).fork("gelu"), x.len());
    let mut dx = dy.clone();
    gelu::backward(&x, &mut dx);
    check(&x, &dy, &dx, "x", forward);
}

#[test]
fn gelu_in_f32_is_right_to_one_part_in_a_million() {
    let x: Vec<f32> = (-400..=400).map(|i| i as f32 / 40.0).collect();
    let mut y = vec![0.0_f32; x.len()];
    gelu::forward(&x, &mut y);
    for (&x, &y) in x.iter().zip(&y) {
        let x = f64::from(x);
        let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
        let want = x / (1.0 + (-2.0 * u).exp());
        // Far to the left the rounding of u itself is all that is seen.
        assert!((f64::from(y) - want).abs() <= 1e-6 * want.abs().max(0.01), "gelu({x}) = {y}, want {want}");
    }
}

#[test]
fn linear_backward_is_the_derivative() {
    let mut rng = Rng::new(3).fork("linear");
    for (n, inputs, outputs) in [(1, 1, 1), (1, 7, 5), (5, 3, 33), (11, 16, 18)] {
        let (x, w, b) =
            (numbers(&mut rng, n * inputs), numbers(&mut rng, inputs * outputs), numbers(&mut rng, outputs));
        let (residual, dy) = (numbers(&mut rng, n * outputs), numbers(&mut rng, n * outputs));
        let forward = |x: &[f64], w: &[f64], b: &[f64]| {
            let mut weight = Weight::default();
            weight.pack(w, inputs, outputs, false);
            let mut y = vec![7.0; n * outputs];
            linear::forward(x, &weight, b, Some(&residual), &mut y);
            y
        };
        let mut weight = Weight::default();
        weight.pack(&w, inputs, outputs, true);
        let (mut dx, mut dw, mut db) =
            (vec![7.0; n * inputs], vec![7.0; inputs * outputs], vec![7.0; outputs]);
        linear::backward_input(&weight, &dy, &mut dx);
        linear::backward_weight(&x, &dy, outputs, &mut dw, &mut Panels::default());
        linear::backward_bias(&dy, &mut db);
        check(&x, &dy, &dx, "x", |x| forward(x, &w, &b));
        check(&w, &dy, &dw, "weight", |w| forward(&x, w, &b));
        check(&b, &dy, &db, "bias", |b| forward(&x, &w, b));
    }
}

/// A prompt with two responses, a sequence of its own, a single token.
fn segments() -> Vec<Segment> {
    let segment = |rows, prefix| Segment { rows, prefix };
    vec![
        segment(0..3, 0..0),
        segment(3..7, 0..3),
        segment(7..8, 0..3),
        segment(8..26, 0..0),
        segment(26..27, 0..0),
    ]
}

#[test]
fn attention_backward_is_the_derivative_on_ragged_shared_prompts() {
    let mut rng = Rng::new(4).fork("attention");
    for shape in [(4, 2), (3, 1), (16, 1), (20, 1), (32, 2)] {
        for segments in [segments(), vec![Segment { rows: 0..1, prefix: 0..0 }]] {
            let n = segments.last().unwrap().rows.end;
            let (qkv, dout) = (numbers(&mut rng, n * 3 * shape.0), numbers(&mut rng, n * shape.0));
            let forward = |qkv: &[f64]| {
                let mut out = vec![0.0; n * shape.0];
                let mut weights = vec![0.0; attention::weights_len(&segments, shape.1)];
                let mut scratch = Scratch::default();
                attention::forward(qkv, &segments, shape, &mut out, &mut weights, &mut scratch);
                (out, weights)
            };
            let (_, weights) = forward(&qkv);
            let mut dqkv = vec![7.0; qkv.len()];
            let mut scratch = Scratch::default();
            attention::backward(&qkv, &segments, shape, &weights, &dout, &mut dqkv, &mut scratch);
            check(&qkv, &dout, &dqkv, "qkv", |qkv| forward(qkv).0);
        }
    }
}

#[test]
fn token_logprob_backward_is_the_derivative_when_rows_are_read_twice_or_never() {
    let mut rng = Rng::new(5).fork("token_logprob");
    let (n, c, v) = (4, 6, 19);
    let (hidden, embedding) = (numbers(&mut rng, n * c), numbers(&mut rng, v * c));
    let targets: Vec<Target> =
        [(0, 3), (0, 18), (2, 0), (3, 7), (3, 7)].map(|(row, token)| Target { row, token }).into();
    let dlogp = numbers(&mut rng, targets.len());
    let forward = |hidden: &[f64], embedding: &[f64]| {
        let mut weight = Weight::default();
        weight.pack_transposed(embedding, c, v, true);
        let (mut probs, mut logp) = (vec![0.0; n * v], vec![0.0; targets.len()]);
        token_logprob::forward(hidden, &weight, &targets, v, &mut probs, &mut logp);
        (logp, probs, weight)
    };
    let (_, mut probs, weight) = forward(&hidden, &embedding);
    token_logprob::backward(&targets, &dlogp, v, &mut probs);
    let (mut dhidden, mut dembedding) = (vec![0.0; n * c], vec![0.0; v * c]);
    linear::backward_input(&weight, &probs, &mut dhidden);
    linear::backward_weight(&probs, &hidden, c, &mut dembedding, &mut Panels::default());
    check(&hidden, &dlogp, &dhidden, "hidden", |hidden| forward(hidden, &embedding).0);
    check(&embedding, &dlogp, &dembedding, "embedding", |embedding| forward(&hidden, embedding).0);
}

#[test]
fn embedding_backward_is_the_derivative() {
    let mut rng = Rng::new(6).fork("embedding");
    let (c, tokens, positions) = (3, [1_u32, 4, 1], [0_u32, 1, 0]);
    let (wte, wpe, dx) = (numbers(&mut rng, 5 * c), numbers(&mut rng, 2 * c), numbers(&mut rng, 3 * c));
    let forward = |wte: &[f64], wpe: &[f64]| {
        let mut x = vec![0.0; 3 * c];
        embedding::forward(&tokens, &positions, wte, wpe, &mut x);
        x
    };
    let (mut dwte, mut dwpe) = (vec![0.0; wte.len()], vec![0.0; wpe.len()]);
    embedding::backward(&tokens, &positions, &dx, &mut dwte, &mut dwpe);
    check(&wte, &dx, &dwte, "wte", |wte| forward(wte, &wpe));
    check(&wpe, &dx, &dwpe, "wpe", |wpe| forward(&wte, wpe));
}
