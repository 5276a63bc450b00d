//! Scoring: `cargo bench --bench seq_logprob`, rows as in `benches/pytorch_peer.py`.

mod common;

use common::{Pairs, grouped_pairs, model, seq_logprob_pairs};
use criterion::{Criterion, criterion_group, criterion_main};
use rlhf_lab::model::gpt::Gpt;
use rlhf_lab::policy::logprob::seq_logprob;
use std::hint::black_box;

fn forward(model: &Gpt, pairs: &Pairs) -> Vec<f32> {
    let logp = seq_logprob(model, &pairs.prompts, &pairs.responses).expect("the pairs fit");
    logp.to_vec1().expect("one number per response")
}

fn forward_backward(model: &Gpt, pairs: &Pairs) {
    let logp = seq_logprob(model, &pairs.prompts, &pairs.responses).expect("the pairs fit");
    black_box(logp.mean_all().and_then(|mean| mean.backward()).expect("a gradient"));
}

fn rows(c: &mut Criterion) {
    let (trained, frozen) = (model(), model().no_grad());
    for (suffix, pairs) in [("", seq_logprob_pairs()), ("_shared_prompts", grouped_pairs())] {
        c.bench_function(&format!("seq_logprob_forward{suffix}"), |b| {
            b.iter(|| forward(&frozen, &pairs));
        });
        c.bench_function(&format!("seq_logprob_forward_backward{suffix}"), |b| {
            b.iter(|| forward_backward(&trained, &pairs));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30);
    targets = rows
}
criterion_main!(benches);
