//! One token at a time: the network with a cache of keys and values.
//!
//! Every kernel is the one the full pass uses, row for row, so a decoded token's logits have the bits
//! that [`Gpt::logits`](super::gpt::Gpt::logits) gives the same token.

use super::batch::{Batch, Read};
use super::fused::attention::{self, padded};
use super::fused::{embedding, gelu, layer_norm, linear};
use super::gpt::Gpt;
use super::network::{Network, Output, Weights, resized};
use super::parallel::{Pooled, lock, take};
use anyhow::{Result, ensure};
use candle_core::{CpuStorage, Storage};
use pulp::{Arch, Simd, WithSimd};
use std::sync::Mutex;

/// A language model's numbers at one moment, packed for decoding.
#[derive(Debug)]
pub struct Decoder<'a> {
    model: &'a Gpt,
    parameters: Vec<f32>,
    weights: Weights<f32>,
    /// Keys a cache has room for.
    stride: usize,
}

/// Keys and values of one sequence, each block and head by itself. Its memory is used again.
#[derive(Debug)]
pub(crate) struct Cache {
    kt: Vec<f32>, // [layers, H, D, S], blocked
    v: Vec<f32>,  // [layers, H, S, D]
    /// Tokens in it.
    pub len: usize,
}

/// Memory for one step of up to any number of sequences.
#[derive(Debug, Default)]
pub(crate) struct Step {
    x: Vec<f32>,          // [B, C]
    normal: Vec<f32>,     // [B, C]
    stats: Vec<f32>,      // [B, 2]
    qkv: Vec<f32>,        // [B, 3C]
    att: Vec<f32>,        // [B, C]
    mid: Vec<f32>,        // [B, C]
    fc: Vec<f32>,         // [B, 4C]
    act: Vec<f32>,        // [B, 4C]
    weights: Vec<f32>,    // [S]
    positions: Vec<u32>,  // [B]
    pub logits: Vec<f32>, // [B, V]
}

impl<'a> Decoder<'a> {
    /// Copies and packs the parameters of `model`, a language model in F32, to decode sequences of at
    /// most `longest` tokens.
    ///
    /// # Errors
    /// If it is a reward model or not in F32.
    pub fn new(model: &'a Gpt, longest: usize) -> Result<Self> {
        let config = model.config();
        ensure!(model.layout().score.is_none(), "a reward model cannot generate");
        let (storage, layout) = model.parameters().storage_and_layout();
        let parameters = match (&*storage, layout.contiguous_offsets()) {
            (Storage::Cpu(CpuStorage::F32(numbers)), Some((a, b))) => numbers[a..b].to_vec(),
            _ => anyhow::bail!("decoding needs contiguous F32 parameters, got {layout:?}"),
        };
        let mut weights = Weights::default();
        weights.pack(config, model.layout(), &parameters, false);
        Ok(Self { model, parameters, weights, stride: padded(longest) })
    }

    fn network(&self) -> Network<'_, f32> {
        Network {
            config: self.model.config(),
            layout: self.model.layout(),
            parameters: &self.parameters,
            weights: &self.weights,
        }
    }

    /// Computes each prompt once: its cache and the logits after its last token, `[prompts, V]`.
    ///
    /// # Errors
    /// If a prompt is empty, too long, or has a token outside the vocabulary.
    pub(crate) fn prefill(&self, prompts: &[&[u32]]) -> Result<(Vec<Cache>, Vec<f32>)> {
        let config = self.model.config();
        let (c, h, v) = (config.n_embd, config.n_head, config.vocab_size);
        let d = c / h;
        let none = vec![[0_u32; 0]; prompts.len()];
        let batch = Batch::new(prompts, &none, Read::Last)?;
        batch.check(v, config.n_positions)?;
        let size = config.n_layer * c * self.stride;
        let mut caches: Vec<Cache> = prompts.iter().map(|_| Cache::new(size)).collect();
        let mut logits = vec![0.0; prompts.len() * v];
        let mut ws = take(&f32::pool().workspaces);
        for shard in &batch.shards {
            self.network().forward(shard, Output::Logits, true, &mut ws);
            for (i, &slot) in shard.slots.iter().enumerate() {
                logits[slot * v..(slot + 1) * v].copy_from_slice(&ws.out[i * v..(i + 1) * v]);
                let last = shard.rows[shard.targets[i].row];
                let rows = last + 1 - prompts[slot].len()..last + 1;
                let cache = &mut caches[slot];
                for row in rows {
                    for (layer, block) in ws.blocks.iter().enumerate() {
                        let kv = &block.qkv[row * 3 * c + c..(row + 1) * 3 * c];
                        cache.put(layer, (h, d, self.stride), kv);
                    }
                    cache.len += 1;
                }
            }
        }
        lock(&f32::pool().workspaces).push(ws);
        Ok((caches, logits))
    }

    /// Appends `tokens[b]` to sequence b and computes the logits of what follows, in `step.logits`.
    ///
    /// Tokens must be within the vocabulary and the caches must have room: the caller has checked.
    pub(crate) fn step(&self, tokens: &[u32], caches: &mut [&mut Cache], step: &mut Step) {
        let config = self.model.config();
        let (b, c, h) = (tokens.len(), config.n_embd, config.n_head);
        let (d, stride) = (c / h, self.stride);
        let layout = self.model.layout();
        let at = |range: &std::ops::Range<usize>| &self.parameters[range.clone()];
        step.positions.clear();
        step.positions.extend(caches.iter().map(|cache| cache.len as u32));
        let x = resized(&mut step.x, b * c);
        embedding::forward(tokens, &step.positions, at(&layout.wte), at(&layout.wpe), x);
        let normal = resized(&mut step.normal, b * c);
        let stats = resized(&mut step.stats, b * 2);
        let qkv = resized(&mut step.qkv, b * 3 * c);
        let att = resized(&mut step.att, b * c);
        let mid = resized(&mut step.mid, b * c);
        let fc = resized(&mut step.fc, b * 4 * c);
        let act = resized(&mut step.act, b * 4 * c);
        let p = resized(&mut step.weights, stride);
        for (layer, (block, weights)) in layout.blocks.iter().zip(&self.weights.blocks).enumerate() {
            layer_norm::forward(x, at(&block.ln_1.weight), at(&block.ln_1.bias), normal, stats);
            linear::forward(normal, &weights.c_attn, at(&block.c_attn.bias), None, qkv);
            let rows = qkv.chunks_exact(3 * c).zip(att.chunks_exact_mut(c));
            for ((qkv, att), cache) in rows.zip(caches.iter_mut()) {
                cache.put(layer, (h, d, stride), &qkv[c..]);
                let shape = (h, d, stride);
                let (q, weights) = (&qkv[..c], &mut *p);
                Arch::new().dispatch(Attend { cache, layer, shape, q, weights, out: att });
            }
            linear::forward(att, &weights.attn_out, at(&block.attn_out.bias), Some(x), mid);
            layer_norm::forward(mid, at(&block.ln_2.weight), at(&block.ln_2.bias), normal, stats);
            linear::forward(normal, &weights.c_fc, at(&block.c_fc.bias), None, fc);
            gelu::forward(fc, act);
            linear::forward(act, &weights.mlp_out, at(&block.mlp_out.bias), Some(mid), x);
        }
        caches.iter_mut().for_each(|cache| cache.len += 1);
        layer_norm::forward(x, at(&layout.ln_f.weight), at(&layout.ln_f.bias), normal, stats);
        let logits = resized(&mut step.logits, b * config.vocab_size);
        linear::forward_unbiased(normal, &self.weights.tied_head, logits);
    }
}

/// The memory of caches that are no longer needed.
static SPARE: Mutex<Vec<(Vec<f32>, Vec<f32>)>> = Mutex::new(Vec::new());

impl Drop for Cache {
    fn drop(&mut self) {
        lock(&SPARE).push((std::mem::take(&mut self.kt), std::mem::take(&mut self.v)));
    }
}

impl Cache {
    /// An empty cache. What its memory holds does not matter: nothing past `len` is read unmasked.
    fn new(size: usize) -> Self {
        let (mut kt, mut v) = take(&SPARE);
        kt.resize(size, 0.0);
        v.resize(size, 0.0);
        Self { kt, v, len: 0 }
    }

    /// Writes the keys and values `kv [2C]` of the token at `self.len`.
    fn put(&mut self, layer: usize, (h, d, stride): (usize, usize, usize), kv: &[f32]) {
        let (k, v) = kv.split_at(h * d);
        for head in 0..h {
            let base = (layer * h + head) * d * stride;
            for j in 0..d {
                self.kt[base + attention::slot(d, self.len, j)] = k[head * d + j];
            }
            self.v[base + self.len * d..][..d].copy_from_slice(&v[head * d..][..d]);
        }
    }
}

/// Attention of the newest token of a sequence, `q [C]` to `out [C]`; its own key is already in place.
struct Attend<'a> {
    cache: &'a Cache,
    layer: usize,
    shape: (usize, usize, usize), // H, D and the stride of the cache
    q: &'a [f32],
    weights: &'a mut [f32],
    out: &'a mut [f32],
}

impl WithSimd for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { cache, layer, shape: (h, d, stride), q, weights, out } = self;
        let keys = cache.len + 1;
        for head in 0..h {
            let base = (layer * h + head) * d * stride;
            let kv = (&cache.kt[base..][..d * stride], &cache.v[base..][..d * stride]);
            let (q, out) = (&q[head * d..][..d], &mut out[head * d..][..d]);
            let p = &mut weights[..padded(keys)];
            match d {
                16 => attention::attend(simd, 16, q, kv, keys, p, out),
                d => attention::attend(simd, d, q, kv, keys, p, out),
            }
        }
    }
}
