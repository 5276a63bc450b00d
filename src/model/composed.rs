//! GPT-2 written out in Candle's own operations: the definition that the fused network is tested
//! against, and the place to read what it computes. Slow, padded, exact.
//!
//! Candle's fused `layer_norm` and `softmax_last_dim` are avoided: they drop gradients silently.

use super::config::Head;
use super::gpt::Gpt;
use anyhow::{Result, ensure};
use candle_core::{D, Tensor};

/// Hidden states after the final LayerNorm, `[B, T, C]`, of `tokens [B, T]`, equally long sequences.
pub fn hidden(model: &Gpt, tokens: &Tensor) -> Result<Tensor> {
    let (b, t) = tokens.dims2()?;
    let config = model.config();
    ensure!(
        t <= config.n_positions,
        "a sequence of {t} tokens is longer than the model's {} positions",
        config.n_positions
    );
    let (c, h) = (config.n_embd, config.n_head);
    let token = model.parameter("transformer.wte.weight")?.embedding(&tokens.flatten_all()?)?; // [B*T, C]
    let position = model.parameter("transformer.wpe.weight")?.narrow(0, 0, t)?; // [T, C]
    let mut x = token.reshape((b, t, c))?.broadcast_add(&position)?; // [B, T, C]
    for layer in 0..config.n_layer {
        let name = |part: &str| format!("transformer.h.{layer}.{part}");
        let normal = layer_norm(model, &name("ln_1"), &x)?;
        let qkv = linear(model, &name("attn.c_attn"), &normal)?; // [B, T, 3C]
        let heads = |i: usize| -> Result<Tensor> {
            let part = qkv.narrow(D::Minus1, i * c, c)?.reshape((b, t, h, c / h))?;
            Ok(part.transpose(1, 2)?.contiguous()?) // [B, H, T, D]
        };
        let att = attention(&heads(0)?, &heads(1)?, &heads(2)?)?; // [B, H, T, D]
        let att = att.transpose(1, 2)?.reshape((b, t, c))?; // [B, T, C]
        x = (x + linear(model, &name("attn.c_proj"), &att)?)?;
        let normal = layer_norm(model, &name("ln_2"), &x)?;
        let act = gelu(&linear(model, &name("mlp.c_fc"), &normal)?)?; // [B, T, 4C]
        x = (x + linear(model, &name("mlp.c_proj"), &act)?)?;
    }
    layer_norm(model, "transformer.ln_f", &x)
}

/// Scores of the token that follows each of `tokens [B, T]`: `[B, T, V]`.
pub fn logits(model: &Gpt, tokens: &Tensor) -> Result<Tensor> {
    let embedding = model.parameter("transformer.wte.weight")?; // [V, C]
    Ok(hidden(model, tokens)?.broadcast_matmul(&embedding.t()?)?)
}

/// The reward of each of `tokens [B, T]`, read at the last one: `[B]`.
pub fn scores(model: &Gpt, tokens: &Tensor) -> Result<Tensor> {
    ensure!(model.config().head == Head::Score, "scores need a reward model");
    let (_, t) = tokens.dims2()?;
    let last = hidden(model, tokens)?.narrow(1, t - 1, 1)?.squeeze(1)?; // [B, C]
    Ok(last.matmul(&model.parameter("score.weight")?.t()?)?.squeeze(1)?)
}

/// softmax(q kᵀ / √D + causal mask) v on `[B, H, T, D]`.
fn attention(q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
    let (_, _, t, d) = q.dims4()?;
    let mask: Vec<f64> = (0..t * t).map(|i| if i % t <= i / t { 0.0 } else { f64::NEG_INFINITY }).collect();
    let mask = Tensor::from_vec(mask, (t, t), q.device())?.to_dtype(q.dtype())?;
    let scores = (q.matmul(&k.t()?)? / (d as f64).sqrt())?; // [B, H, T, T]
    let weights = candle_nn::ops::softmax(&scores.broadcast_add(&mask)?, D::Minus1)?;
    Ok(weights.matmul(v)?)
}

/// GELU in the tanh form: x (1 + tanh(√(2/π) (x + .044715 x³))) / 2.
fn gelu(x: &Tensor) -> Result<Tensor> {
    let cubic = (x + (x.powf(3.0)? * 0.044_715)?)?;
    let tanh = (cubic * (2.0 / std::f64::consts::PI).sqrt())?.tanh()?;
    Ok((x * (tanh + 1.0)?)?.affine(0.5, 0.0)?)
}

/// x W + b with `W [in, out]`.
fn linear(model: &Gpt, name: &str, x: &Tensor) -> Result<Tensor> {
    let weight = model.parameter(&format!("{name}.weight"))?;
    let bias = model.parameter(&format!("{name}.bias"))?;
    Ok(x.broadcast_matmul(&weight)?.broadcast_add(&bias)?)
}

/// w (x − mean) / √(var + ε) + b over the last dimension.
fn layer_norm(model: &Gpt, name: &str, x: &Tensor) -> Result<Tensor> {
    let weight = model.parameter(&format!("{name}.weight"))?;
    let bias = model.parameter(&format!("{name}.bias"))?;
    let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
    let variance = centred.sqr()?.mean_keepdim(D::Minus1)?;
    let normal = centred.broadcast_div(&(variance + super::fused::layer_norm::EPSILON)?.sqrt()?)?;
    Ok(normal.broadcast_mul(&weight)?.broadcast_add(&bias)?)
}
