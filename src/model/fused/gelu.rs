//! GELU in the tanh form (Hendrycks and Gimpel 2016), written as x σ(2u) with u = √(2/π) (x + .044715 x³):
//! the same function with one exponential and no cancellation.

use super::real::{Real, vectorized};
use std::f64::consts::{FRAC_2_SQRT_PI, SQRT_2};

const CUBIC: f64 = 0.044_715;
/// 2 √(2/π).
const SLOPE: f64 = FRAC_2_SQRT_PI * SQRT_2;

/// `y = gelu(x)`, number by number.
pub fn forward<R: Real>(x: &[R], y: &mut [R]) {
    vectorized(
        #[inline(always)]
        || {
            for (y, &x) in y.iter_mut().zip(x) {
                *y = x * gate(x);
            }
        },
    );
}

/// Turns `dy` into `dx` in place: with s = σ(2u), dx = dy (s + x s (1 − s) 2u').
pub fn backward<R: Real>(x: &[R], dy: &mut [R]) {
    vectorized(
        #[inline(always)]
        || {
            let (slope, cubic) = (R::from_f64(SLOPE), R::from_f64(3.0 * CUBIC));
            for (d, &x) in dy.iter_mut().zip(x) {
                let s = gate(x);
                let du = slope * (R::one() + cubic * x * x);
                *d *= s + x * s * (R::one() - s) * du;
            }
        },
    );
}

/// σ(2u).
#[inline(always)]
fn gate<R: Real>(x: R) -> R {
    let u = R::from_f64(SLOPE) * (x + R::from_f64(CUBIC) * x * x * x);
    R::one() / (R::one() + (-u).exp())
}
