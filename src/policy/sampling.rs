//! Responses drawn from a policy.
//!
//! Each prompt is computed once and shared by its group; each response has a random stream and a cache
//! of its own and leaves the batch when it ends. A response depends on the model, its prompt and its
//! stream, never on its neighbours or on the number of threads.

use crate::foundation::rng::Rng;
use crate::foundation::stats::log_softmax;
use crate::foundation::vocab::Vocab;
use crate::model::decoder::{Cache, Decoder, Step};
use crate::model::fused::token_logprob::softmax;
use crate::model::gpt::Gpt;
use anyhow::{Result, bail, ensure};
use rayon::prelude::{IndexedParallelIterator, ParallelIterator, ParallelSlice};
use serde::{Deserialize, Serialize};

/// How to sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Logits are divided by this: 1 is the policy itself, 0 takes the most probable token.
    pub temperature: f64,
    /// Most tokens of a response, forced ones and the end token included.
    pub max_tokens: usize,
    /// The token that ends a response.
    pub end: u32,
    /// Tokens every response begins with; they are not drawn.
    pub forced: Vec<u32>,
}

impl Sampling {
    /// From the policy itself, up to `max_tokens` or [`Vocab::EOS`].
    pub fn policy(max_tokens: usize) -> Self {
        Self { temperature: 1.0, max_tokens, end: Vocab::EOS, forced: Vec::new() }
    }

    /// The most probable token each time; of equal ones the first.
    pub fn greedy(max_tokens: usize) -> Self {
        Self { temperature: 0.0, ..Self::policy(max_tokens) }
    }
}

/// One response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rollout {
    /// Its tokens: forced, then drawn, the end token last if it stopped.
    pub tokens: Vec<u32>,
    /// Whether it ended by itself rather than at `max_tokens` or the model's last position.
    pub stopped: bool,
    /// log π of each token under the policy, that is at temperature 1, forced ones included.
    pub logprobs: Vec<f32>,
    /// log of the probability each token was drawn with: equal to `logprobs` at temperature 1; 0 for
    /// forced tokens and in greedy decoding, where nothing is left to chance.
    pub sampling_logprobs: Vec<f32>,
}

impl Rollout {
    /// log π(y|x): the sum of [`Rollout::logprobs`].
    pub fn logprob(&self) -> f64 {
        self.logprobs.iter().map(|&lp| f64::from(lp)).sum()
    }
}

/// One response to write: to this prompt, from this stream.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// What it responds to.
    pub prompt: &'a [u32],
    /// Where its randomness comes from.
    pub rng: Rng,
}

/// Responses advanced together on one thread: their caches fit its second-level cache.
const SHARD: usize = 32;

/// `group` responses to each prompt, prompt by prompt; response i draws from `rng.fork(i)`.
///
/// # Errors
/// As [`sample_requests`].
pub fn sample<P: AsRef<[u32]>>(
    model: &Gpt,
    prompts: &[P],
    group: usize,
    sampling: &Sampling,
    rng: &Rng,
) -> Result<Vec<Rollout>> {
    let prompts = prompts.iter().flat_map(|prompt| std::iter::repeat_n(prompt.as_ref(), group));
    let requests: Vec<Request> =
        prompts.enumerate().map(|(i, prompt)| Request { prompt, rng: rng.fork(i) }).collect();
    sample_requests(model, &requests, sampling)
}

/// One response to each request, in their order. Equal prompts that stand near each other are
/// computed once.
///
/// # Errors
/// If a prompt is empty, leaves no room for a token or has one outside the vocabulary; if the
/// temperature is negative or not finite; if a forced token is outside the vocabulary.
pub fn sample_requests(model: &Gpt, requests: &[Request], sampling: &Sampling) -> Result<Vec<Rollout>> {
    let (v, n_positions) = (model.config().vocab_size, model.config().n_positions);
    let t = sampling.temperature;
    ensure!(t.is_finite() && t >= 0.0, "temperature must be finite and not negative, got {t}");
    if let Some(&bad) = sampling.forced.iter().find(|&&token| token as usize >= v) {
        bail!("forced token {bad} is outside the vocabulary of {v}");
    }
    if let Some(long) = requests.iter().find(|request| request.prompt.len() >= n_positions) {
        let length = long.prompt.len();
        bail!("a prompt of {length} tokens leaves no room in the model's {n_positions} positions");
    }
    let longest = requests.iter().map(|request| request.prompt.len()).max().unwrap_or(0);
    let longest = longest.saturating_add(sampling.max_tokens).min(n_positions);
    let decoder = Decoder::new(model, longest)?;
    let shards: Vec<Vec<Rollout>> = requests
        .par_chunks(SHARD)
        .with_max_len(1)
        .map(|requests| {
            let prompts: Vec<&[u32]> = requests.iter().map(|request| request.prompt).collect();
            let (caches, logits) = decoder.prefill(&prompts)?;
            let batch = requests.iter().zip(caches).zip(logits.chunks_exact(v));
            let batch = batch.map(|((request, cache), logits)| Growing {
                rollout: Rollout::default(),
                cache,
                logits: logits.to_vec(),
                rng: request.rng.clone(),
            });
            Ok(grow(&decoder, batch.collect(), sampling, n_positions))
        })
        .collect::<Result<_>>()?;
    Ok(shards.into_iter().flatten().collect())
}

/// A response that is being written.
struct Growing {
    rollout: Rollout,
    cache: Cache,
    logits: Vec<f32>, // [V], of its next token
    rng: Rng,
}

/// Advances all responses of a shard until each has ended.
fn grow(decoder: &Decoder, mut batch: Vec<Growing>, sampling: &Sampling, n_positions: usize) -> Vec<Rollout> {
    let mut step = Step::default();
    let mut alive: Vec<&mut Growing> =
        if sampling.max_tokens == 0 { Vec::new() } else { batch.iter_mut().collect() };
    loop {
        alive.retain_mut(|response| !response.extend(sampling, n_positions));
        if alive.is_empty() {
            break;
        }
        let tokens: Vec<u32> =
            alive.iter().filter_map(|response| response.rollout.tokens.last().copied()).collect();
        let mut caches: Vec<&mut Cache> = alive.iter_mut().map(|response| &mut response.cache).collect();
        decoder.step(&tokens, &mut caches, &mut step);
        let v = step.logits.len() / tokens.len();
        for (response, logits) in alive.iter_mut().zip(step.logits.chunks_exact(v)) {
            response.logits.copy_from_slice(logits);
        }
    }
    batch.into_iter().map(|response| response.rollout).collect()
}

impl Growing {
    /// Appends one token; returns whether that was the last.
    fn extend(&mut self, sampling: &Sampling, n_positions: usize) -> bool {
        let Rollout { tokens, logprobs, sampling_logprobs, stopped } = &mut self.rollout;
        let mut probs = self.logits.clone();
        let log_z = softmax(&mut probs); // The scoring pass's own kernel: the ratio to it is exactly 1.
        let (token, log_q) = if let Some(&forced) = sampling.forced.get(tokens.len()) {
            (forced as usize, 0.0)
        } else if sampling.temperature == 0.0 {
            (argmax(&self.logits), 0.0)
        } else {
            let scale = 1.0 / sampling.temperature;
            let scaled: Vec<f64> = self.logits.iter().map(|&x| f64::from(x) * scale).collect();
            let log_q = log_softmax(&scaled);
            let weights: Vec<f64> = log_q.iter().map(|lp| lp.exp()).collect();
            let token = self.rng.categorical(&weights);
            (token, log_q[token] as f32)
        };
        let logprob = self.logits[token] - log_z;
        let exact = sampling.temperature == 1.0 && tokens.len() >= sampling.forced.len();
        tokens.push(token as u32);
        logprobs.push(logprob);
        sampling_logprobs.push(if exact { logprob } else { log_q });
        *stopped = token as u32 == sampling.end;
        // A full sequence has at most as many tokens as the model has positions, so that a reward
        // model of the same size can read all of it.
        *stopped || tokens.len() >= sampling.max_tokens || self.cache.len + 1 >= n_positions
    }
}

fn argmax(logits: &[f32]) -> usize {
    let mut best = 0;
    for (i, &x) in logits.iter().enumerate() {
        if x > logits[best] {
            best = i;
        }
    }
    best
}
