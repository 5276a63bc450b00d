//! A whole GRPO step: `cargo bench --bench grpo`, row `grpo_step` of `benches/pytorch_peer.py`.

mod common;

use anyhow::Result;
use common::{model, random_tokens};
use criterion::{Criterion, criterion_group, criterion_main};
use rlhf_lab::algorithms::estimators::KlEstimator;
use rlhf_lab::algorithms::grpo::Grpo;
use rlhf_lab::algorithms::policy_gradient::{Environment, PolicyGradient};
use rlhf_lab::foundation::rng::Rng;
use rlhf_lab::policy::sampling::{Rollout, Sampling};

/// Prompts of 8 random tokens; a response is paid for its even tokens.
struct EvenTokens;

impl Environment for EvenTokens {
    type Problem = Vec<u32>;

    fn draw(&self, rng: &mut Rng) -> Vec<u32> {
        random_tokens(rng, 8)
    }

    fn prompt(&self, problem: &Vec<u32>) -> Vec<u32> {
        problem.clone()
    }

    fn rewards(&self, _problems: &[Vec<u32>], responses: &[Rollout]) -> Result<Vec<f64>> {
        let even = |response: &Rollout| response.tokens.iter().filter(|&token| token % 2 == 0).count();
        Ok(responses.iter().map(|response| even(response) as f64).collect())
    }
}

/// 16 prompts x 8 responses of 16 tokens: sampling, reference log-probs, 2 updates.
fn grpo_step(c: &mut Criterion) {
    let policy = model();
    let reference = policy.duplicate().expect("the same shape").no_grad();
    let sampling = Sampling { end: u32::MAX, ..Sampling::policy(16) };
    let step = PolicyGradient { steps: 1, prompts: 16, group: 8, lr: 3e-5, sampling };
    let grpo = Grpo { inner: 2, clip: 0.2, beta: 0.04, kl: KlEstimator::K3 };
    let mut rng = Rng::new(4);
    c.bench_function("grpo_step", |b| {
        b.iter(|| {
            rng = rng.fork(0_u64); // other prompts each time
            step.train(&policy, &reference, &EvenTokens, &grpo, &rng, |_| Ok(())).expect("a finite gradient")
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = grpo_step
}
criterion_main!(benches);
