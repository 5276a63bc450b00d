//! Causal self-attention over ragged sequences that may share a prompt.
//!
//! softmax(q Kᵀ / √D) V per head, on packed rows `[q | k | v]`. A segment is a run of rows which
//! attend to themselves causally and to all rows of one earlier segment, their prefix: a prompt and
//! its responses are a tree, and the prompt is computed once ("Prefix Grouper", Liu et al. 2025).
//! No arithmetic is spent on padding beyond filling up the last [`LANES`] keys.

use super::real::{LANES, Real, sum, vectorized};
use std::ops::Range;

/// A run of rows and the rows of the prompt it continues (empty for a sequence of its own).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The rows themselves.
    pub rows: Range<usize>,
    /// Rows they all attend to.
    pub prefix: Range<usize>,
}

impl Segment {
    /// Keys that its last row sees.
    pub fn keys(&self) -> usize {
        self.prefix.len() + self.rows.len()
    }

    /// Attention weights kept for one head.
    fn weights(&self) -> usize {
        self.rows.len() * padded(self.keys())
    }
}

/// Attention weights kept for the backward pass, all heads of all segments.
pub fn weights_len(segments: &[Segment], heads: usize) -> usize {
    heads * segments.iter().map(Segment::weights).sum::<usize>()
}

/// `n` filled up to whole lanes.
pub fn padded(n: usize) -> usize {
    n.next_multiple_of(LANES)
}

/// The keys and values of one head, gathered so that both inner loops run over contiguous numbers.
#[derive(Clone, Debug, Default)]
pub struct Scratch<R> {
    kt: Vec<R>, // [D, S]
    k: Vec<R>,  // [S, D]
    vt: Vec<R>, // [D, S]
    v: Vec<R>,  // [S, D]
    dk: Vec<R>, // [S, D]
    dv: Vec<R>, // [S, D]
    ds: Vec<R>, // [S]
}

/// `qkv [N, 3C]` to `out [N, C]`, with C and H in `(c, heads)`; keeps the attention weights, [`weights_len`] numbers.
pub fn forward<R: Real>(
    qkv: &[R],
    segments: &[Segment],
    (c, heads): (usize, usize),
    out: &mut [R],
    weights: &mut [R],
    scratch: &mut Scratch<R>,
) {
    vectorized(
        #[inline(always)]
        || {
            let d = c / heads;
            let Scratch { kt, v, .. } = scratch;
            let mut start = 0;
            for segment in segments {
                let stride = padded(segment.keys());
                for head in 0..heads {
                    gather_transposed(qkv, c, segment, c + head * d, d, kt);
                    gather(qkv, c, segment, 2 * c + head * d, d, v);
                    for (i, row) in segment.rows.clone().enumerate() {
                        let q = &qkv[row * 3 * c + head * d..][..d];
                        let p = &mut weights[start + i * stride..][..stride];
                        let o = &mut out[row * c + head * d..][..d];
                        attend(q, kt, stride, v, segment.prefix.len() + i + 1, p, o);
                    }
                    start += segment.weights();
                }
            }
        },
    );
}

/// From `dout [N, C]` to `dqkv [N, 3C]`, which is overwritten.
///
/// With p the kept weights: dv = Σ p do, dp = do·v, ds = p (dp − Σ p dp) / √D, dq = Σ ds k, dk = Σ ds q.
pub fn backward<R: Real>(
    qkv: &[R],
    segments: &[Segment],
    (c, heads): (usize, usize),
    weights: &[R],
    dout: &[R],
    dqkv: &mut [R],
    scratch: &mut Scratch<R>,
) {
    dqkv.fill(R::zero());
    vectorized(
        #[inline(always)]
        || {
            let d = c / heads;
            let mut start = 0;
            for segment in segments {
                let stride = padded(segment.keys());
                for head in 0..heads {
                    let (at_k, at_v) = (c + head * d, 2 * c + head * d);
                    gather(qkv, c, segment, at_k, d, &mut scratch.k);
                    gather_transposed(qkv, c, segment, at_v, d, &mut scratch.vt);
                    let Scratch {
                        k, vt, dk, dv, ds, ..
                    } = scratch;
                    reset(dk, stride * d);
                    reset(dv, stride * d);
                    reset(ds, stride);
                    for (i, row) in segment.rows.clone().enumerate() {
                        let n = segment.prefix.len() + i + 1;
                        let q = &qkv[row * 3 * c + head * d..][..d];
                        let p = &weights[start + i * stride..][..padded(n)];
                        let o = &dout[row * c + head * d..][..d];
                        let ds = &mut ds[..padded(n)];
                        scores(o, vt, stride, R::one(), ds);
                        let mean = sum(
                            n,
                            #[inline(always)]
                            |s| p[s] * ds[s],
                        );
                        let scale = scale::<R>(d);
                        for (ds, &p) in ds.iter_mut().zip(p) {
                            *ds = p * (*ds - mean) * scale;
                        }
                        mix(&ds[..n], k, &mut dqkv[row * 3 * c + head * d..][..d]);
                        spread(&ds[..n], q, dk);
                        spread(&p[..n], o, dv);
                    }
                    let rows = segment.prefix.clone().chain(segment.rows.clone());
                    for ((row, dk), dv) in rows.zip(dk.chunks_exact(d)).zip(dv.chunks_exact(d)) {
                        let out = &mut dqkv[row * 3 * c..][..3 * c];
                        out[at_k..at_k + d]
                            .iter_mut()
                            .zip(dk)
                            .for_each(|(o, &g)| *o += g);
                        out[at_v..at_v + d]
                            .iter_mut()
                            .zip(dv)
                            .for_each(|(o, &g)| *o += g);
                    }
                    start += segment.weights();
                }
            }
        },
    );
}

/// One query against its first `n` keys: writes the weights `p [S]`, zero past `n`, and `out [D]`.
///
/// `kt` is `[D, stride]`, `v` is `[S, D]`. Training, scoring and decoding all come through here, so a
/// token's log-probability has the same bits in each.
#[inline(always)]
pub(crate) fn attend<R: Real>(
    q: &[R],
    kt: &[R],
    stride: usize,
    v: &[R],
    n: usize,
    p: &mut [R],
    out: &mut [R],
) {
    let (p, rest) = p.split_at_mut(padded(n));
    rest.fill(R::zero());
    scores(q, kt, stride, scale(q.len()), p);
    let first = p[0];
    p[n..].fill(first); // Neutral in the maximum.
    let max = max(p);
    for x in p.iter_mut() {
        *x = (*x - max).exp();
    }
    p[n..].fill(R::zero());
    let z = sum(
        p.len(),
        #[inline(always)]
        |s| p[s],
    );
    let scale = R::one() / z;
    for x in p.iter_mut() {
        *x *= scale;
    }
    mix(&p[..n], v, out);
}

/// `out [S]` = `scale` x `xt [D, stride]`, all lanes of it.
#[inline(always)]
fn scores<R: Real>(x: &[R], xt: &[R], stride: usize, scale: R, out: &mut [R]) {
    for (start, out) in (0..).step_by(LANES).zip(out.chunks_exact_mut(LANES)) {
        let mut lanes = [R::zero(); LANES];
        for (&x, line) in x.iter().zip(xt.chunks_exact(stride)) {
            let line = &line[start..start + LANES];
            for (total, &y) in lanes.iter_mut().zip(line) {
                *total += x * y;
            }
        }
        for (out, &total) in out.iter_mut().zip(&lanes) {
            *out = total * scale;
        }
    }
}

/// `out [D]` = Σₛ `p[s]` `x[s, ..]`.
#[inline(always)]
fn mix<R: Real>(p: &[R], x: &[R], out: &mut [R]) {
    let d = out.len();
    if d == LANES {
        let mut lanes = [R::zero(); LANES];
        for (&p, x) in p.iter().zip(x.chunks_exact(LANES)) {
            for (total, &x) in lanes.iter_mut().zip(x) {
                *total += p * x;
            }
        }
        out.copy_from_slice(&lanes);
    } else {
        out.fill(R::zero());
        for (&p, x) in p.iter().zip(x.chunks_exact(d)) {
            for (total, &x) in out.iter_mut().zip(x) {
                *total += p * x;
            }
        }
    }
}

/// Adds `p[s]` `x [D]` to each row s of `out [S, D]`.
#[inline(always)]
fn spread<R: Real>(p: &[R], x: &[R], out: &mut [R]) {
    for (&p, out) in p.iter().zip(out.chunks_exact_mut(x.len())) {
        for (total, &x) in out.iter_mut().zip(x) {
            *total += p * x;
        }
    }
}

#[inline(always)]
fn max<R: Real>(x: &[R]) -> R {
    let mut lanes = [x[0]; LANES];
    for x in x.chunks_exact(LANES) {
        for (max, &x) in lanes.iter_mut().zip(x) {
            *max = if x > *max { x } else { *max };
        }
    }
    lanes
        .iter()
        .fold(lanes[0], |max, &x| if x > max { x } else { max })
}

/// Columns `at..at + d` of the rows a segment sees, as `[S, D]`.
#[inline(always)]
fn gather<R: Real>(qkv: &[R], c: usize, segment: &Segment, at: usize, d: usize, out: &mut Vec<R>) {
    reset(out, padded(segment.keys()) * d);
    let rows = segment.prefix.clone().chain(segment.rows.clone());
    for (row, out) in rows.zip(out.chunks_exact_mut(d)) {
        out.copy_from_slice(&qkv[row * 3 * c + at..][..d]);
    }
}

/// The same, as `[D, S]` with S filled up to whole lanes by zeros.
#[inline(always)]
fn gather_transposed<R: Real>(
    qkv: &[R],
    c: usize,
    segment: &Segment,
    at: usize,
    d: usize,
    out: &mut Vec<R>,
) {
    let stride = padded(segment.keys());
    reset(out, stride * d);
    let rows = segment.prefix.clone().chain(segment.rows.clone());
    for (s, row) in rows.enumerate() {
        for (j, &x) in qkv[row * 3 * c + at..][..d].iter().enumerate() {
            out[j * stride + s] = x;
        }
    }
}

#[inline(always)]
fn reset<R: Real>(x: &mut Vec<R>, len: usize) {
    x.clear();
    x.resize(len, R::zero());
}

/// 1/√D.
#[inline(always)]
pub(crate) fn scale<R: Real>(d: usize) -> R {
    R::from_f64(1.0 / (d as f64).sqrt())
}
