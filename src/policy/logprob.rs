//! log π(y|x): what a policy gives to responses, per token or per response, with gradients.
//!
//! A response is its tokens up to and including the end token if it stopped; one that did not stop
//! has no end token. Every token given counts, prompt and padding never do, and logits are computed
//! for response tokens alone.

use crate::model::batch::{Batch, Read};
use crate::model::gpt::Gpt;
use anyhow::Result;
use candle_core::{Device, Tensor};

/// log π(yₜ | x, y₍<ₜ₎) of every response token, ragged: responses stand one after the other.
#[derive(Clone, Debug)]
pub struct TokenLogProbs {
    /// One number per token, `[Σ lengths]`, with gradient unless the model has none.
    pub values: Tensor,
    /// Tokens of each response, B numbers.
    pub lengths: Vec<usize>,
}

impl TokenLogProbs {
    /// log π(y|x) of each response, `[B]`: the sum of its tokens', 0 for an empty one.
    ///
    /// # Errors
    /// Only as Candle's operations fail.
    pub fn per_response(&self) -> Result<Tensor> {
        sum_segments(&self.values, &self.lengths)
    }
}

/// Token log-probabilities of `responses[b]` after `prompts[b]`; equal prompts are computed once.
///
/// # Errors
/// If the lists differ in length, a prompt is empty, a token is outside the vocabulary, or a pair is
/// longer than the model's positions.
pub fn token_logprobs<P: AsRef<[u32]>, R: AsRef<[u32]>>(
    model: &Gpt,
    prompts: &[P],
    responses: &[R],
) -> Result<TokenLogProbs> {
    let batch = Batch::new(prompts, responses, Read::Response)?;
    let lengths = batch.lengths().to_vec();
    Ok(TokenLogProbs { values: model.token_logprobs(batch)?, lengths })
}

/// log π(y|x) of each pair, `[B]`.
///
/// # Errors
/// As [`token_logprobs`].
pub fn seq_logprob<P: AsRef<[u32]>, R: AsRef<[u32]>>(
    model: &Gpt,
    prompts: &[P],
    responses: &[R],
) -> Result<Tensor> {
    token_logprobs(model, prompts, responses)?.per_response()
}

/// Sums of consecutive runs of `values [Σ lengths]`: `[B]`.
///
/// # Errors
/// If the lengths do not add up to the number of values.
pub fn sum_segments(values: &Tensor, lengths: &[usize]) -> Result<Tensor> {
    let owners: Vec<u32> =
        (0..).zip(lengths).flat_map(|(b, &length)| std::iter::repeat_n(b, length)).collect();
    anyhow::ensure!(
        values.dims() == [owners.len()],
        "the lengths add up to {}, got values of shape {:?}",
        owners.len(),
        values.dims()
    );
    let zeros = Tensor::zeros(lengths.len(), values.dtype(), &Device::Cpu)?;
    if owners.is_empty() {
        return Ok(zeros);
    }
    let owners = Tensor::new(owners, &Device::Cpu)?;
    Ok(zeros.index_add(&owners, values, 0)?)
}
