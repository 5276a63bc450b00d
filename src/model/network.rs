//! The network on one shard: the forward pass and its mirror image, kernel by kernel.
//!
//! In the last block only keys and values are computed of rows that nothing is read from: its
//! second half runs on the M rows of `shard.rows` alone (M = N in the other blocks).

use super::batch::Shard;
use super::config::{Affine, BlockLayout, Config, Layout};
use super::fused::attention::{self, Scratch};
use super::fused::linear::{self, Weight};
use super::fused::matmul::Panels;
use super::fused::real::Real;
use super::fused::token_logprob::Target;
use super::fused::{embedding, gelu, layer_norm, token_logprob};

/// The weight matrices, packed for the products. Made once per pass and shared by all shards.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weights<R> {
    pub blocks: Vec<BlockWeights<R>>,
    pub tied_head: Weight<R>, // [C, V]
}

#[derive(Clone, Debug, Default)]
pub(crate) struct BlockWeights<R> {
    pub c_attn: Weight<R>,   // [C, 3C]
    pub attn_out: Weight<R>, // [C, C]
    pub c_fc: Weight<R>,     // [C, 4C]
    pub mlp_out: Weight<R>,  // [4C, C]
}

impl<R: Real> Weights<R> {
    /// Packs `parameters`; also for the backward pass if `gradient`.
    pub fn pack(&mut self, config: &Config, layout: &Layout, parameters: &[R], gradient: bool) {
        let c = config.n_embd;
        self.blocks.resize_with(config.n_layer, BlockWeights::default);
        for (block, at) in self.blocks.iter_mut().zip(&layout.blocks) {
            let weight = |affine: &Affine| &parameters[affine.weight.clone()];
            block.c_attn.pack(weight(&at.c_attn), c, 3 * c, gradient);
            block.attn_out.pack(weight(&at.attn_out), c, c, gradient);
            block.c_fc.pack(weight(&at.c_fc), c, 4 * c, gradient);
            block.mlp_out.pack(weight(&at.mlp_out), 4 * c, c, gradient);
        }
        let wte = &parameters[layout.wte.clone()];
        self.tied_head.pack_transposed(wte, c, config.vocab_size, gradient);
    }
}

/// What a block keeps for its backward pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block<R> {
    pub x: Vec<R>,    // [N, C]
    ln_1: Vec<R>,     // [N, C]
    stats_1: Vec<R>,  // [N, 2]
    pub qkv: Vec<R>,  // [N, 3C]
    weights: Vec<R>,  // All heads' attention weights.
    att: Vec<R>,      // [N, C], then [M, C]
    residual: Vec<R>, // [M, C], only in the last block; elsewhere it is x.
    mid: Vec<R>,      // [M, C]
    ln_2: Vec<R>,     // [M, C]
    stats_2: Vec<R>,  // [M, 2]
    fc: Vec<R>,       // [M, 4C]
    act: Vec<R>,      // [M, 4C]
}

/// All memory that a shard needs; reused from pass to pass, so that nothing is allocated or zeroed
/// by the operating system in between.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workspace<R> {
    pub blocks: Vec<Block<R>>,
    x: Vec<R>,          // [M, C], output of the last block
    pub hidden: Vec<R>, // [M, C], after the final LayerNorm
    stats: Vec<R>,      // [M, 2]
    probs: Vec<R>,      // [M, V]
    pub out: Vec<R>,    // One log-probability, or C hidden numbers, per target
    dx: Vec<R>,         // [N, C]
    d_c: Vec<R>,        // [N, C]
    d_3c: Vec<R>,       // [N, 3C]
    d_4c: Vec<R>,       // [N, 4C]
    scratch: Scratch<R>,
    panels: Panels<R>,
}

/// What is read at each target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// The final hidden state, C numbers.
    Hidden,
    /// The scores of the next token, V numbers.
    Logits,
    /// The log-probability of the target's token.
    LogProb,
}

/// A model's numbers, as the shards see them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network<'a, R> {
    pub config: &'a Config,
    pub layout: &'a Layout,
    pub parameters: &'a [R],
    pub weights: &'a Weights<R>,
}

impl<R: Real> Network<'_, R> {
    /// Fills `ws.out` with the `output` of each target. Only with `keep` can [`Network::backward`]
    /// follow.
    pub fn forward(&self, shard: &Shard, output: Output, keep: bool, ws: &mut Workspace<R>) {
        let (c, n, m) = (self.config.n_embd, shard.tokens.len(), shard.rows.len());
        let layers = self.config.n_layer;
        ws.blocks.resize_with(if keep { layers } else { 1 }, Block::default);
        let (wte, wpe) = (self.at(&self.layout.wte), self.at(&self.layout.wpe));
        let x = resized(&mut ws.blocks[0].x, n * c);
        embedding::forward(&shard.tokens, &shard.positions, wte, wpe, x); // [N, C]
        for layer in 0..layers {
            let block = &mut ws.blocks[if keep { layer } else { 0 }];
            let rows = (layer + 1 == layers).then_some(shard.rows.as_slice());
            self.attend(layer, shard, block, &mut ws.scratch);
            let mut y = std::mem::take(&mut ws.x);
            self.transform(layer, rows, block, &mut y); // [M, C]
            if rows.is_none() {
                let next = &mut ws.blocks[if keep { layer + 1 } else { 0 }].x;
                std::mem::swap(next, &mut y);
            }
            ws.x = y;
        }
        let ln_f = &self.layout.ln_f;
        let hidden = resized(&mut ws.hidden, m * c);
        let stats = resized(&mut ws.stats, m * 2);
        layer_norm::forward(&ws.x, self.at(&ln_f.weight), self.at(&ln_f.bias), hidden, stats);
        let (v, head) = (self.config.vocab_size, &self.weights.tied_head);
        match output {
            Output::LogProb => {
                let probs = resized(&mut ws.probs, m * v);
                let out = resized(&mut ws.out, shard.targets.len());
                token_logprob::forward(&ws.hidden, head, &shard.targets, v, probs, out);
            }
            Output::Logits => {
                let logits = resized(&mut ws.probs, m * v);
                linear::forward_unbiased(&ws.hidden, head, logits);
                read(&shard.targets, logits, v, &mut ws.out);
            }
            Output::Hidden => read(&shard.targets, &ws.hidden, c, &mut ws.out),
        }
    }

    /// First half of a block: LayerNorm, q k v, attention.
    fn attend(&self, layer: usize, shard: &Shard, block: &mut Block<R>, scratch: &mut Scratch<R>) {
        let (c, heads, n) = (self.config.n_embd, self.config.n_head, shard.tokens.len());
        let (at, weights) = (&self.layout.blocks[layer], &self.weights.blocks[layer]);
        let Block { x, ln_1, stats_1, qkv, weights: p, att, .. } = block;
        let ln_1 = resized(ln_1, n * c);
        let stats_1 = resized(stats_1, n * 2);
        layer_norm::forward(x, self.at(&at.ln_1.weight), self.at(&at.ln_1.bias), ln_1, stats_1);
        let qkv = resized(qkv, n * 3 * c);
        linear::forward(ln_1, &weights.c_attn, self.at(&at.c_attn.bias), None, qkv);
        let p = resized(p, attention::weights_len(&shard.segments, heads));
        let att = resized(att, n * c);
        attention::forward(qkv, &shard.segments, (c, heads), att, p, scratch);
    }

    /// Second half of a block, on all rows or on `rows`: projection, LayerNorm, MLP.
    fn transform(&self, layer: usize, rows: Option<&[usize]>, block: &mut Block<R>, y: &mut Vec<R>) {
        let c = self.config.n_embd;
        let (at, weights) = (&self.layout.blocks[layer], &self.weights.blocks[layer]);
        let Block { x, att, residual, mid, ln_2, stats_2, fc, act, .. } = block;
        let residual: &[R] = match rows {
            None => x,
            Some(rows) => {
                resized(residual, rows.len() * c);
                for (m, &row) in rows.iter().enumerate() {
                    residual[m * c..(m + 1) * c].copy_from_slice(&x[row * c..(row + 1) * c]);
                    att.copy_within(row * c..(row + 1) * c, m * c); // m <= row: nothing is lost.
                }
                att.truncate(rows.len() * c);
                residual
            }
        };
        let m = residual.len() / c;
        let mid = resized(mid, m * c);
        let bias = self.at(&at.attn_out.bias);
        linear::forward(att, &weights.attn_out, bias, Some(residual), mid);
        let ln_2 = resized(ln_2, m * c);
        let stats_2 = resized(stats_2, m * 2);
        layer_norm::forward(mid, self.at(&at.ln_2.weight), self.at(&at.ln_2.bias), ln_2, stats_2);
        let fc = resized(fc, m * 4 * c);
        linear::forward(ln_2, &weights.c_fc, self.at(&at.c_fc.bias), None, fc);
        let act = resized(act, m * 4 * c);
        gelu::forward(fc, act);
        let y = resized(y, m * c);
        linear::forward(act, &weights.mlp_out, self.at(&at.mlp_out.bias), Some(mid), y);
    }

    /// Writes to `gradient`, laid out as the parameters, what `dout`, shaped as `ws.out`, asks for.
    /// `ws` is as the forward pass with the same `output` left it.
    pub fn backward(
        &self,
        shard: &Shard,
        output: Output,
        dout: &[R],
        ws: &mut Workspace<R>,
        gradient: &mut [R],
    ) {
        let (c, n, m) = (self.config.n_embd, shard.tokens.len(), shard.rows.len());
        let dhidden = resized(&mut ws.d_c, m * c);
        let (v, head) = (self.config.vocab_size, &self.weights.tied_head);
        // The other tensors are written before they are added to.
        gradient[..self.layout.wpe.end].fill(R::zero());
        if let Some(score) = &self.layout.score {
            gradient[score.clone()].fill(R::zero());
        }
        if output == Output::Hidden {
            add_to_rows(&shard.targets, dout, c, dhidden);
        } else {
            match output {
                Output::LogProb => {
                    token_logprob::backward(&shard.targets, dout, v, &mut ws.probs);
                }
                _ => add_to_rows(&shard.targets, dout, v, resized(&mut ws.probs, m * v)),
            }
            let dwte = &mut gradient[self.layout.wte.clone()];
            linear::backward_weight(&ws.probs, &ws.hidden, c, dwte, &mut ws.panels); // [V, M] [M, C]
            linear::backward_input(head, &ws.probs, dhidden);
        }
        let dx = resized(&mut ws.dx, m * c);
        dx.fill(R::zero());
        let ln_f = &self.layout.ln_f;
        let (dw, db) = pair(gradient, ln_f);
        layer_norm::backward(&ws.x, self.at(&ln_f.weight), &ws.stats, dhidden, dx, dw, db);

        for layer in (0..self.config.n_layer).rev() {
            self.transform_backward(layer, ws, gradient);
            if layer + 1 == self.config.n_layer {
                scatter(&mut ws.dx, &mut ws.d_4c, &shard.rows, n, c); // [M, C] to [N, C]
                scatter(&mut ws.d_c, &mut ws.d_4c, &shard.rows, n, c);
            }
            self.attend_backward(layer, shard, ws, gradient);
        }
        let split = self.layout.wte.len();
        let (dwte, dwpe) = gradient[..self.layout.wpe.end].split_at_mut(split);
        embedding::backward(&shard.tokens, &shard.positions, &ws.dx, dwte, dwpe);
    }

    /// From `ws.dx [M, C]` behind the block to the same before its MLP, and the gradient of the
    /// attention's output in `ws.d_c [M, C]`.
    fn transform_backward(&self, layer: usize, ws: &mut Workspace<R>, gradient: &mut [R]) {
        let (at, weights) = (&self.layout.blocks[layer], &self.weights.blocks[layer]);
        let Block { att, mid, ln_2, stats_2, fc, act, .. } = &ws.blocks[layer];
        let (dx, panels) = (&mut ws.dx, &mut ws.panels);
        let d_4c = resized(&mut ws.d_4c, act.len());
        let d_c = resized(&mut ws.d_c, dx.len());
        linear_backward(act, &weights.mlp_out, &at.mlp_out, dx, d_4c, gradient, panels);
        gelu::backward(fc, d_4c);
        linear_backward(ln_2, &weights.c_fc, &at.c_fc, d_4c, d_c, gradient, panels);
        let (dw, db) = pair(gradient, &at.ln_2);
        layer_norm::backward(mid, self.at(&at.ln_2.weight), stats_2, d_c, dx, dw, db);
        linear_backward(att, &weights.attn_out, &at.attn_out, dx, d_c, gradient, panels);
    }

    /// From `ws.dx` and `ws.d_c`, both `[N, C]`, to `ws.dx` before the block.
    fn attend_backward(&self, layer: usize, shard: &Shard, ws: &mut Workspace<R>, gradient: &mut [R]) {
        let (c, heads) = (self.config.n_embd, self.config.n_head);
        let at: &BlockLayout = &self.layout.blocks[layer];
        let weights = &self.weights.blocks[layer];
        let Block { x, ln_1, stats_1, qkv, weights: p, .. } = &ws.blocks[layer];
        let (d_c, panels) = (&mut ws.d_c, &mut ws.panels);
        let d_3c = resized(&mut ws.d_3c, qkv.len());
        let shape = (c, heads);
        attention::backward(qkv, &shard.segments, shape, p, d_c, d_3c, &mut ws.scratch);
        linear_backward(ln_1, &weights.c_attn, &at.c_attn, d_3c, d_c, gradient, panels);
        let (dw, db) = pair(gradient, &at.ln_1);
        layer_norm::backward(x, self.at(&at.ln_1.weight), stats_1, d_c, &mut ws.dx, dw, db);
    }

    fn at(&self, range: &std::ops::Range<usize>) -> &[R] {
        &self.parameters[range.clone()]
    }
}

/// All three gradients of a linear map; `dx` is overwritten.
fn linear_backward<R: Real>(
    x: &[R],
    weight: &Weight<R>,
    at: &Affine,
    dy: &[R],
    dx: &mut [R],
    gradient: &mut [R],
    panels: &mut Panels<R>,
) {
    let (dw, db) = pair(gradient, at);
    linear::backward_bias(dy, db);
    linear::backward_weight(x, dy, db.len(), dw, panels);
    linear::backward_input(weight, dy, dx);
}

/// The weight's and the bias's part of a gradient; the layout puts them side by side.
fn pair<'a, R>(gradient: &'a mut [R], at: &Affine) -> (&'a mut [R], &'a mut [R]) {
    gradient[at.weight.start..at.bias.end].split_at_mut(at.weight.len())
}

/// Copies each target's row of `rows [M, width]` to `out`.
fn read<R: Real>(targets: &[Target], rows: &[R], width: usize, out: &mut Vec<R>) {
    let out = resized(out, targets.len() * width);
    for (out, target) in out.chunks_exact_mut(width).zip(targets) {
        out.copy_from_slice(&rows[target.row * width..][..width]);
    }
}

/// The mirror image of [`read`]: `rows` become the sums of what their targets got.
fn add_to_rows<R: Real>(targets: &[Target], dout: &[R], width: usize, rows: &mut [R]) {
    rows.fill(R::zero());
    for (dout, target) in dout.chunks_exact(width).zip(targets) {
        let row = &mut rows[target.row * width..][..width];
        row.iter_mut().zip(dout).for_each(|(total, &d)| *total += d);
    }
}

/// Spreads `x [M, C]` over the given ones of N rows, zero elsewhere.
fn scatter<R: Real>(x: &mut Vec<R>, spare: &mut Vec<R>, rows: &[usize], n: usize, c: usize) {
    spare.clear();
    spare.resize(n * c, R::zero());
    for (x, &row) in x.chunks_exact(c).zip(rows) {
        spare[row * c..(row + 1) * c].copy_from_slice(x);
    }
    std::mem::swap(x, spare);
}

/// `x` with `len` numbers, whatever they are.
pub(crate) fn resized<R: Real>(x: &mut Vec<R>, len: usize) -> &mut [R] {
    x.resize(len, R::zero());
    x
}
