//! Causal self-attention over ragged sequences that may share a prompt.
//!
//! softmax(q Kᵀ / √D) V per head, on packed rows `[q | k | v]`. A segment is a run of rows which
//! attend to themselves causally and to all rows of one earlier segment, their prefix: a prompt and
//! its responses are a tree, and the prompt is computed once ("Prefix Grouper", Liu et al. 2025).
//! No arithmetic is spent on padding beyond filling up the last [`LANES`] keys.

use super::real::{LANES, Real, dot, sum, whole};
use pulp::{Arch, Simd, WithSimd};
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

/// `qkv [N, 3C]` to `out [N, C]`, with C and H in `shape`; keeps the attention weights,
/// [`weights_len`] numbers.
pub fn forward<R: Real>(
    qkv: &[R],
    segments: &[Segment],
    shape: (usize, usize),
    out: &mut [R],
    weights: &mut [R],
    scratch: &mut Scratch<R>,
) {
    Arch::new().dispatch(Forward { qkv, segments, shape, out, weights, scratch });
}

struct Forward<'a, R> {
    qkv: &'a [R],
    segments: &'a [Segment],
    shape: (usize, usize),
    out: &'a mut [R],
    weights: &'a mut [R],
    scratch: &'a mut Scratch<R>,
}

impl<R: Real> WithSimd for Forward<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { qkv, segments, shape: (c, heads), out, mut weights, scratch } = self;
        let d = c / heads;
        let Scratch { kt, v, .. } = scratch;
        for segment in segments {
            let stride = padded(segment.keys());
            for head in 0..heads {
                gather_transposed(qkv, c, segment, c + head * d, d, kt);
                gather(qkv, c, segment, 2 * c + head * d, d, v);
                let (here, rest) = weights.split_at_mut(segment.weights());
                weights = rest;
                let rows = segment.rows.clone().zip(segment.prefix.len() + 1..);
                for ((row, keys), p) in rows.zip(here.chunks_exact_mut(stride)) {
                    let q = &qkv[row * 3 * c + head * d..][..d];
                    let o = &mut out[row * c + head * d..][..d];
                    attend(simd, q, (kt, v), stride, keys, p, o);
                }
            }
        }
    }
}

/// From `dout [N, C]` to `dqkv [N, 3C]`, which is overwritten.
///
/// With p the kept weights: dv = Σ p do, dp = do·v, ds = p (dp − Σ p dp) / √D, dq = Σ ds k, dk = Σ ds q.
pub fn backward<R: Real>(
    qkv: &[R],
    segments: &[Segment],
    shape: (usize, usize),
    weights: &[R],
    dout: &[R],
    dqkv: &mut [R],
    scratch: &mut Scratch<R>,
) {
    dqkv.fill(R::zero());
    Arch::new().dispatch(Backward { qkv, segments, shape, weights, dout, dqkv, scratch });
}

struct Backward<'a, R> {
    qkv: &'a [R],
    segments: &'a [Segment],
    shape: (usize, usize),
    weights: &'a [R],
    dout: &'a [R],
    dqkv: &'a mut [R],
    scratch: &'a mut Scratch<R>,
}

impl<R: Real> WithSimd for Backward<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { qkv, segments, shape: (c, heads), mut weights, dout, dqkv, scratch } = self;
        let d = c / heads;
        let scale = scale::<R>(d);
        let Scratch { k, vt, dk, dv, ds, .. } = scratch;
        for segment in segments {
            let stride = padded(segment.keys());
            for head in 0..heads {
                let (at_k, at_v) = (c + head * d, 2 * c + head * d);
                gather(qkv, c, segment, at_k, d, k);
                gather_transposed(qkv, c, segment, at_v, d, vt);
                for buffer in [&mut *dk, &mut *dv] {
                    buffer.clear();
                    buffer.resize(segment.keys() * d, R::zero());
                }
                ds.resize(stride, R::zero());
                let (here, rest) = weights.split_at(segment.weights());
                weights = rest;
                let rows = segment.rows.clone().zip(segment.prefix.len() + 1..);
                for ((row, keys), p) in rows.zip(here.chunks_exact(stride)) {
                    let q = &qkv[row * 3 * c + head * d..][..d];
                    let o = &dout[row * c + head * d..][..d];
                    let (p, ds) = (&p[..padded(keys)], &mut ds[..padded(keys)]);
                    scores(simd, o, vt, stride, R::one(), ds);
                    let mean = dot(simd, p, ds); // p is zero past the last key.
                    for (ds, &p) in ds.iter_mut().zip(p) {
                        *ds = p * (*ds - mean) * scale;
                    }
                    mix(simd, &ds[..keys], k, &mut dqkv[row * 3 * c + head * d..][..d]);
                    spread(simd, &ds[..keys], q, dk);
                    spread(simd, &p[..keys], o, dv);
                }
                let rows = segment.prefix.clone().chain(segment.rows.clone());
                for ((row, dk), dv) in rows.zip(dk.chunks_exact(d)).zip(dv.chunks_exact(d)) {
                    let out = &mut dqkv[row * 3 * c..][..3 * c];
                    out[at_k..at_k + d].iter_mut().zip(dk).for_each(|(o, &g)| *o += g);
                    out[at_v..at_v + d].iter_mut().zip(dv).for_each(|(o, &g)| *o += g);
                }
            }
        }
    }
}

/// One query `[D]` against the first `n` of the keys and values in `kv`, as `[D, stride]` and `[S, D]`:
/// writes the weights `p [S]`, zero past `n`, and `out [D]`.
///
/// Training, scoring and decoding all come through here, so a token's log-probability has the same
/// bits in each.
#[inline(always)]
pub(crate) fn attend<R: Real, S: Simd>(
    simd: S,
    q: &[R],
    kv: (&[R], &[R]),
    stride: usize,
    n: usize,
    p: &mut [R],
    out: &mut [R],
) {
    let (p, rest) = p.split_at_mut(padded(n));
    rest.fill(R::zero());
    scores(simd, q, kv.0, stride, scale(q.len()), p);
    let first = p[0];
    p[n..].fill(first); // Neutral in the maximum.
    let max = max(p);
    for x in p.iter_mut() {
        *x = (*x - max).exp();
    }
    p[n..].fill(R::zero());
    let scale = R::one() / sum(simd, p);
    for x in p.iter_mut() {
        *x *= scale;
    }
    mix(simd, &p[..n], kv.1, out);
}

/// `out [S]` = `scale` x `xt [D, stride]`, all lanes of it.
#[inline(always)]
fn scores<R: Real, S: Simd>(simd: S, x: &[R], xt: &[R], stride: usize, scale: R, out: &mut [R]) {
    let (zero, scale) = (R::zero().splat(simd), scale.splat(simd));
    for (j, out) in R::vectors_mut::<S>(out).iter_mut().enumerate() {
        let mut total = zero;
        for (&x, line) in x.iter().zip(xt.chunks_exact(stride)) {
            total = R::mul_add(simd, x.splat(simd), R::vectors::<S>(line)[j], total);
        }
        *out = R::mul_add(simd, total, scale, zero);
    }
}

/// `out [D]` = Σₛ `p[s]` `x[s, ..]`.
#[inline(always)]
fn mix<R: Real, S: Simd>(simd: S, p: &[R], x: &[R], out: &mut [R]) {
    let d = out.len();
    for (j, out) in R::vectors_mut::<S>(out).iter_mut().enumerate() {
        let mut total = R::zero().splat(simd);
        for (&p, x) in p.iter().zip(x.chunks_exact(d)) {
            total = R::mul_add(simd, p.splat(simd), R::vectors::<S>(x)[j], total);
        }
        *out = total;
    }
    for j in whole::<R, S>(d)..d {
        out[j] = p.iter().zip(x.chunks_exact(d)).fold(R::zero(), |sum, (&p, x)| sum + p * x[j]);
    }
}

/// Adds `p[s]` `x [D]` to each row s of `out [S, D]`.
#[inline(always)]
fn spread<R: Real, S: Simd>(simd: S, p: &[R], x: &[R], out: &mut [R]) {
    let d = x.len();
    for (&p, out) in p.iter().zip(out.chunks_exact_mut(d)) {
        for (out, &x) in R::vectors_mut::<S>(out).iter_mut().zip(R::vectors::<S>(x)) {
            *out = R::mul_add(simd, p.splat(simd), x, *out);
        }
        for j in whole::<R, S>(d)..d {
            out[j] += p * x[j];
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
    lanes.iter().fold(lanes[0], |max, &x| if x > max { x } else { max })
}

/// Columns `at..at + d` of the rows a segment sees, as `[S, D]`.
#[inline(always)]
fn gather<R: Real>(qkv: &[R], c: usize, segment: &Segment, at: usize, d: usize, out: &mut Vec<R>) {
    out.resize(segment.keys() * d, R::zero());
    let rows = segment.prefix.clone().chain(segment.rows.clone());
    for (row, out) in rows.zip(out.chunks_exact_mut(d)) {
        for (out, &x) in out.iter_mut().zip(&qkv[row * 3 * c + at..][..d]) {
            *out = x;
        }
    }
}

/// The same, as `[D, S]` with S filled up to whole lanes by zeros.
#[inline(always)]
fn gather_transposed<R: Real>(qkv: &[R], c: usize, segment: &Segment, at: usize, d: usize, out: &mut Vec<R>) {
    let stride = padded(segment.keys());
    out.clear();
    out.resize(stride * d, R::zero());
    let rows = segment.prefix.clone().chain(segment.rows.clone());
    for (s, row) in rows.enumerate() {
        let values = &qkv[row * 3 * c + at..][..d];
        for (line, &x) in out.chunks_exact_mut(stride).zip(values) {
            line[s] = x;
        }
    }
}

/// 1/√D.
#[inline(always)]
pub(crate) fn scale<R: Real>(d: usize) -> R {
    R::from_f64(1.0 / (d as f64).sqrt())
}
