//! The work that both benches and `pytorch_peer.py` time: same shapes, same row names.

#![allow(dead_code, reason = "each bench uses a part")]

use candle_core::Tensor;
use rlhf_lab::foundation::rng::Rng;
use rlhf_lab::model::config::Config;
use rlhf_lab::model::gpt::Gpt;

/// Tokens of a vocabulary word that is none of the special ones: 3 to 31.
pub fn random_tokens(rng: &mut Rng, n: usize) -> Vec<u32> {
    (0..n).map(|_| 3 + (rng.uniform() * 29.0) as u32).collect()
}

/// Width 64, 4 layers, 4 heads, 32 words, 48 positions.
pub fn model() -> Gpt {
    Gpt::new(Config::mini(32, 48), &Rng::new(0)).expect("the config is valid")
}

/// Prompts and responses of random tokens.
pub struct Pairs {
    pub prompts: Vec<Vec<u32>>,
    pub responses: Vec<Vec<u32>>,
}

/// 128 x (prompt 8 + response 16), every prompt another one.
pub fn seq_logprob_pairs() -> Pairs {
    let mut rng = Rng::new(1).fork("seq_logprob");
    let prompts = (0..128).map(|_| random_tokens(&mut rng, 8)).collect();
    let responses = (0..128).map(|_| random_tokens(&mut rng, 16)).collect();
    Pairs { prompts, responses }
}

/// The same in 16 groups of 8 responses to one prompt.
pub fn grouped_pairs() -> Pairs {
    let mut pairs = seq_logprob_pairs();
    for b in 0..pairs.prompts.len() {
        pairs.prompts[b] = pairs.prompts[b / 8 * 8].clone();
    }
    pairs
}

/// 64 sequences, every token after the first a target: 23 tokens computed of each, or 12 to 23.
pub fn training_pairs(ragged: bool) -> Pairs {
    let mut rng = Rng::new(2).fork("train_step");
    let length = |b: usize| if ragged { 12 + b % 12 } else { 23 };
    let prompts = (0..64).map(|_| random_tokens(&mut rng, 1)).collect();
    let responses = (0..64).map(|b| random_tokens(&mut rng, length(b))).collect();
    Pairs { prompts, responses }
}

/// Mean cross-entropy over all response tokens.
pub fn cross_entropy(model: &Gpt, pairs: &Pairs) -> Tensor {
    let logp = rlhf_lab::policy::logprob::token_logprobs(model, &pairs.prompts, &pairs.responses);
    let logp = logp.expect("the pairs fit the model").values;
    logp.mean_all().and_then(|mean| mean.neg()).expect("a mean of numbers")
}
