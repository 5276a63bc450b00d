//! Causal self-attention over ragged sequences that may share a prompt.
//!
//! softmax(q Kᵀ / √D) V per head, on packed rows `[q | k | v]`. A segment is a run of rows which
//! attend to themselves causally and to all rows of one earlier segment, their prefix: a prompt and
//! its responses are a tree, and the prompt is computed once ("Prefix Grouper", Liu et al. 2025).
//! No arithmetic is spent on padding beyond filling up the last `LANES` keys.

use super::real::{LANES, Real, dot, max, sum, whole};
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
    kt: Vec<R>, // [D, S], blocked
    k: Vec<R>,  // [S, D]
    vt: Vec<R>, // [D, S], blocked
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
        match self.shape.0 / self.shape.1 {
            16 => self.run(simd, 16), // A width the compiler knows unrolls every inner loop.
            d => self.run(simd, d),
        }
    }
}

impl<R: Real> Forward<'_, R> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S, d: usize) {
        let Self { qkv, segments, shape: (c, heads), out, mut weights, scratch } = self;
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
                    attend(simd, d, q, (kt, v), keys, &mut p[..padded(keys)], o);
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
        match self.shape.0 / self.shape.1 {
            16 => self.run(simd, 16),
            d => self.run(simd, d),
        }
    }
}

impl<R: Real> Backward<'_, R> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S, d: usize) {
        let Self { qkv, segments, shape: (c, heads), mut weights, dout, dqkv, scratch } = self;
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
                    scores(simd, d, o, vt, R::one(), ds);
                    let mean = dot(simd, p, ds); // p is zero past the last key.
                    for (ds, &p) in ds.iter_mut().zip(p) {
                        *ds = p * (*ds - mean) * scale;
                    }
                    mix(simd, d, &ds[..keys], k, &mut dqkv[row * 3 * c + head * d..][..d]);
                    spread(simd, d, &ds[..keys], q, dk);
                    spread(simd, d, &p[..keys], o, dv);
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

/// One query `[D]` against the first `n` of the keys and values in `kv`, blocked (see [`slot`]) and
/// `[S, D]`: writes the weights `p`, filled up to whole lanes by zeros, and `out [D]`.
///
/// Training, scoring and decoding all come through here, so a token's log-probability has the same
/// bits in each.
#[inline(always)]
pub(crate) fn attend<R: Real, S: Simd>(
    simd: S,
    d: usize,
    q: &[R],
    kv: (&[R], &[R]),
    n: usize,
    p: &mut [R],
    out: &mut [R],
) {
    scores(simd, d, q, kv.0, scale(d), p);
    let first = p[0];
    for (i, x) in p.iter_mut().enumerate() {
        *x = if i < n { *x } else { first }; // Neutral in the maximum.
    }
    let max = max(simd, p);
    for (i, x) in p.iter_mut().enumerate() {
        let e = (*x - max).exp();
        *x = if i < n { e } else { R::zero() };
    }
    let scale = R::one() / sum(simd, p);
    for x in p.iter_mut() {
        *x *= scale;
    }
    mix(simd, d, &p[..n], kv.1, out);
}

/// Where number `j` of key `s` stands in a blocked matrix: `[S / LANES, D, LANES]`.
#[inline(always)]
pub(crate) fn slot(d: usize, s: usize, j: usize) -> usize {
    (s / LANES * d + j) * LANES + s % LANES
}

/// `out [S]` = `scale` x `xt`, of x `[D]` and a blocked `[D, S]`, all lanes of it.
#[inline(always)]
fn scores<R: Real, S: Simd>(simd: S, d: usize, x: &[R], xt: &[R], scale: R, out: &mut [R]) {
    let (zero, scale) = (R::zero().splat(simd), scale.splat(simd));
    for (out, block) in out.chunks_exact_mut(LANES).zip(xt.chunks_exact(d * LANES)) {
        let (out, block) = (R::vectors_mut::<S>(out), R::vectors::<S>(block));
        let per_line = out.len();
        for (j, out) in out.iter_mut().enumerate() {
            let mut total = zero;
            for (i, &x) in x[..d].iter().enumerate() {
                total = R::mul_add(simd, x.splat(simd), block[i * per_line + j], total);
            }
            *out = R::mul_add(simd, total, scale, zero);
        }
    }
}

/// `out [D]` = Σₛ `p[s]` `x[s, ..]`.
#[inline(always)]
fn mix<R: Real, S: Simd>(simd: S, d: usize, p: &[R], x: &[R], out: &mut [R]) {
    for (j, out) in R::vectors_mut::<S>(&mut out[..d]).iter_mut().enumerate() {
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
fn spread<R: Real, S: Simd>(simd: S, d: usize, p: &[R], x: &[R], out: &mut [R]) {
    let x = &x[..d];
    for (&p, out) in p.iter().zip(out.chunks_exact_mut(d)) {
        for (out, &x) in R::vectors_mut::<S>(out).iter_mut().zip(R::vectors::<S>(x)) {
            *out = R::mul_add(simd, p.splat(simd), x, *out);
        }
        for j in whole::<R, S>(d)..d {
            out[j] += p * x[j];
        }
    }
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

/// The same, blocked, with S filled up to whole lanes by zeros.
#[inline(always)]
fn gather_transposed<R: Real>(qkv: &[R], c: usize, segment: &Segment, at: usize, d: usize, out: &mut Vec<R>) {
    out.clear();
    out.resize(padded(segment.keys()) * d, R::zero());
    let rows = segment.prefix.clone().chain(segment.rows.clone());
    for (s, row) in rows.enumerate() {
        let block = &mut out[slot(d, s, 0) - s % LANES..][..d * LANES];
        let values = &qkv[row * 3 * c + at..][..d];
        for (line, &x) in block.chunks_exact_mut(LANES).zip(values) {
            line[s % LANES] = x;
        }
    }
}

/// 1/√D.
#[inline(always)]
pub(crate) fn scale<R: Real>(d: usize) -> R {
    R::from_f64(1.0 / (d as f64).sqrt())
}
