//! LayerNorm (Ba et al. 2016): y = w (x − mean) / √(var + ε) + b over the C numbers of each row.

use super::real::{Real, sum, vectorized};

/// GPT-2's ε.
pub const EPSILON: f64 = 1e-5;

/// `x [N, C]` to `y [N, C]`; keeps each row's mean and 1/√(var + ε) in `stats [N, 2]`.
pub fn forward<R: Real>(x: &[R], weight: &[R], bias: &[R], y: &mut [R], stats: &mut [R]) {
    vectorized(
        #[inline(always)]
        || {
            let c = weight.len();
            let rows = x.chunks_exact(c).zip(y.chunks_exact_mut(c));
            for ((x, y), stats) in rows.zip(stats.chunks_exact_mut(2)) {
                let (mean, rstd) = moments(x);
                stats.copy_from_slice(&[mean, rstd]);
                for (((y, &x), &w), &b) in y.iter_mut().zip(x).zip(weight).zip(bias) {
                    *y = (x - mean) * rstd * w + b;
                }
            }
        },
    );
}

/// Adds to `dx [N, C]`, `dweight [C]` and `dbias [C]` what `dy [N, C]` asks for.
///
/// With x̂ = (x − mean) rstd and g = w dy: dx = rstd (g − mean(g) − x̂ mean(g x̂)).
pub fn backward<R: Real>(
    x: &[R],
    weight: &[R],
    stats: &[R],
    dy: &[R],
    dx: &mut [R],
    dweight: &mut [R],
    dbias: &mut [R],
) {
    vectorized(
        #[inline(always)]
        || {
            let c = weight.len();
            let size = R::from_f64(c as f64);
            let rows = x
                .chunks_exact(c)
                .zip(dy.chunks_exact(c))
                .zip(dx.chunks_exact_mut(c));
            for (((x, dy), dx), stats) in rows.zip(stats.chunks_exact(2)) {
                let (mean, rstd) = (stats[0], stats[1]);
                let mean_g = sum(
                    c,
                    #[inline(always)]
                    |i| dy[i] * weight[i],
                ) / size;
                let mean_gx = sum(
                    c,
                    #[inline(always)]
                    |i| dy[i] * weight[i] * (x[i] - mean),
                ) * rstd
                    / size;
                let inputs = x.iter().zip(dy).zip(weight);
                let outputs = dx.iter_mut().zip(dweight.iter_mut()).zip(dbias.iter_mut());
                for (((&x, &dy), &w), ((dx, dw), db)) in inputs.zip(outputs) {
                    let normal = (x - mean) * rstd;
                    *dx += (dy * w - mean_g - normal * mean_gx) * rstd;
                    *dw += dy * normal;
                    *db += dy;
                }
            }
        },
    );
}

/// Mean and 1/√(var + ε) of a row, the variance from centred numbers.
#[inline(always)]
fn moments<R: Real>(x: &[R]) -> (R, R) {
    let size = R::from_f64(x.len() as f64);
    let mean = sum(
        x.len(),
        #[inline(always)]
        |i| x[i],
    ) / size;
    let variance = sum(
        x.len(),
        #[inline(always)]
        |i| (x[i] - mean) * (x[i] - mean),
    ) / size;
    (mean, R::one() / (variance + R::from_f64(EPSILON)).sqrt())
}
