//! LayerNorm (Ba et al. 2016): y = w (x − mean) / √(var + ε) + b over the C numbers of each row.

use super::real::{Real, dot, sum};
use pulp::{Arch, Simd, WithSimd};

/// GPT-2's ε.
pub const EPSILON: f64 = 1e-5;

/// `x [N, C]` to `y [N, C]`; keeps each row's mean and 1/√(var + ε) in `stats [N, 2]`.
pub fn forward<R: Real>(x: &[R], weight: &[R], bias: &[R], y: &mut [R], stats: &mut [R]) {
    Arch::new().dispatch(Forward { x, weight, bias, y, stats });
}

struct Forward<'a, R> {
    x: &'a [R],
    weight: &'a [R],
    bias: &'a [R],
    y: &'a mut [R],
    stats: &'a mut [R],
}

impl<R: Real> WithSimd for Forward<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, weight, bias, y, stats } = self;
        let c = weight.len();
        let size = R::from_f64(c as f64);
        let rows = x.chunks_exact(c).zip(y.chunks_exact_mut(c));
        for ((x, y), stats) in rows.zip(stats.chunks_exact_mut(2)) {
            let mean = sum(simd, x) / size;
            for (y, &x) in y.iter_mut().zip(x) {
                *y = x - mean;
            }
            let variance = dot(simd, y, y) / size;
            let rstd = R::one() / (variance + R::from_f64(EPSILON)).sqrt();
            for ((y, &w), &b) in y.iter_mut().zip(weight).zip(bias) {
                *y = *y * rstd * w + b;
            }
            stats.copy_from_slice(&[mean, rstd]);
        }
    }
}

/// Adds to `dx [N, C]` and writes to `dweight [C]` and `dbias [C]` what `dy [N, C]` asks for. `dy` is lost.
///
/// With x̂ = (x − mean) rstd and g = w dy: dx = rstd (g − mean(g) − x̂ mean(g x̂)).
pub fn backward<R: Real>(
    x: &[R],
    weight: &[R],
    stats: &[R],
    dy: &mut [R],
    dx: &mut [R],
    dweight: &mut [R],
    dbias: &mut [R],
) {
    let normal = vec![R::zero(); weight.len()];
    dweight.fill(R::zero());
    dbias.fill(R::zero());
    Arch::new().dispatch(Backward { x, weight, stats, dy, dx, dweight, dbias, normal });
}

struct Backward<'a, R> {
    x: &'a [R],
    weight: &'a [R],
    stats: &'a [R],
    dy: &'a mut [R],
    dx: &'a mut [R],
    dweight: &'a mut [R],
    dbias: &'a mut [R],
    normal: Vec<R>, // [C], x̂ of a row
}

impl<R: Real> WithSimd for Backward<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, weight, stats, dy, dx, dweight, dbias, mut normal } = self;
        let c = weight.len();
        let size = R::from_f64(c as f64);
        let rows = x.chunks_exact(c).zip(dy.chunks_exact_mut(c)).zip(dx.chunks_exact_mut(c));
        for (((x, dy), dx), stats) in rows.zip(stats.chunks_exact(2)) {
            let (mean, rstd) = (stats[0], stats[1]);
            for (n, &x) in normal.iter_mut().zip(x) {
                *n = (x - mean) * rstd;
            }
            for ((dw, &dy), &n) in dweight.iter_mut().zip(&*dy).zip(&normal) {
                *dw += dy * n;
            }
            for (db, &dy) in dbias.iter_mut().zip(&*dy) {
                *db += dy;
            }
            for (dy, &w) in dy.iter_mut().zip(weight) {
                *dy *= w; // Now g.
            }
            let mean_g = sum(simd, dy) / size;
            let mean_gn = dot(simd, dy, &normal) / size;
            for ((dx, &g), &n) in dx.iter_mut().zip(&*dy).zip(&normal) {
                *dx += (g - mean_g - n * mean_gn) * rstd;
            }
        }
    }
}
