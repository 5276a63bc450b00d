//! Training and sampling: `cargo bench --bench engine`, rows as in `benches/pytorch_peer.py`.

mod common;

use common::{cross_entropy, model, random_tokens, training_pairs};
use criterion::{Criterion, criterion_group, criterion_main};
use rlhf_lab::foundation::rng::Rng;
use rlhf_lab::model::optim::{Adam, AdamConfig};
use rlhf_lab::policy::sampling::{Sampling, sample};

fn train_step(c: &mut Criterion) {
    for (row, ragged) in [("train_step", false), ("train_step_ragged", true)] {
        let (model, pairs) = (model(), training_pairs(ragged));
        let mut adam = Adam::for_model(AdamConfig::adamw(), &model);
        c.bench_function(row, |b| {
            b.iter(|| {
                let loss = cross_entropy(&model, &pairs);
                adam.minimize(&model, &loss, 3e-5).expect("a finite gradient")
            });
        });
    }
}

/// 16 prompts of 8 tokens x 8 responses; the first row never stops, the second stops at `</s>`.
fn sampling(c: &mut Criterion) {
    let model = model();
    let mut rng = Rng::new(3).fork("prompts");
    let prompts: Vec<Vec<u32>> = (0..16).map(|_| random_tokens(&mut rng, 8)).collect();
    let until_end = Sampling::policy(16);
    let full = Sampling { end: u32::MAX, ..until_end.clone() };
    for (row, how) in [("sample_kv_cache", full), ("sample_kv_cache_eos", until_end)] {
        c.bench_function(row, |b| {
            b.iter(|| sample(&model, &prompts, 8, &how, &rng).expect("the prompts fit"));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30);
    targets = train_step, sampling
}
criterion_main!(benches);
