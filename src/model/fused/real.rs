//! The numbers the kernels compute with, and the lanes they sum in.

use candle_core::WithDType;
use pulp::Simd;
use std::ops::Neg;

/// `f32` for work, `f64` for checking the same code against finite differences.
pub trait Real: WithDType + Neg<Output = Self> + Default {
    /// A register full of numbers.
    type Vector<S: Simd>: Copy;
    /// e^x to a relative 1e-6 or better, clamped to normal numbers at both ends; NaN stays NaN.
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// `self` in every lane.
    fn splat<S: Simd>(self, simd: S) -> Self::Vector<S>;
    /// `a * b + c` per lane, with one rounding where the CPU has the instruction.
    fn mul_add<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;
    /// `a + b` per lane.
    fn plus<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// The larger of `a` and `b` per lane.
    fn larger<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// The largest lane.
    fn largest<S: Simd>(simd: S, x: Self::Vector<S>) -> Self;
    /// The sum of all lanes.
    fn total<S: Simd>(simd: S, x: Self::Vector<S>) -> Self;
    /// A slice as registers; what does not fill one is left out.
    fn vectors<S: Simd>(slice: &[Self]) -> &[Self::Vector<S>];
    /// The same, to write to.
    fn vectors_mut<S: Simd>(slice: &mut [Self]) -> &mut [Self::Vector<S>];
}

macro_rules! real {
    ($t:ty, $vector:ident, $splat:ident, $mul_add:ident, $add:ident, $max:ident, $reduce_max:ident, $total:ident, $slice:ident, $slice_mut:ident, $exp:path) => {
        impl Real for $t {
            type Vector<S: Simd> = S::$vector;

            #[inline(always)]
            fn exp(self) -> $t {
                $exp(self)
            }

            #[inline(always)]
            fn ln(self) -> $t {
                <$t>::ln(self)
            }

            #[inline(always)]
            fn sqrt(self) -> $t {
                <$t>::sqrt(self)
            }

            #[inline(always)]
            fn splat<S: Simd>(self, simd: S) -> S::$vector {
                simd.$splat(self)
            }

            #[inline(always)]
            fn mul_add<S: Simd>(simd: S, a: S::$vector, b: S::$vector, c: S::$vector) -> S::$vector {
                simd.$mul_add(a, b, c)
            }

            #[inline(always)]
            fn plus<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$add(a, b)
            }

            #[inline(always)]
            fn larger<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$max(a, b)
            }

            #[inline(always)]
            fn largest<S: Simd>(simd: S, x: S::$vector) -> $t {
                simd.$reduce_max(x)
            }

            #[inline(always)]
            fn total<S: Simd>(simd: S, x: S::$vector) -> $t {
                simd.$total(x)
            }

            #[inline(always)]
            fn vectors<S: Simd>(slice: &[$t]) -> &[S::$vector] {
                S::$slice(slice).0
            }

            #[inline(always)]
            fn vectors_mut<S: Simd>(slice: &mut [$t]) -> &mut [S::$vector] {
                S::$slice_mut(slice).0
            }
        }
    };
}

real!(
    f32,
    f32s,
    splat_f32s,
    mul_add_e_f32s,
    add_f32s,
    max_f32s,
    reduce_max_f32s,
    reduce_sum_f32s,
    as_simd_f32s,
    as_mut_simd_f32s,
    exp_f32
);
real!(
    f64,
    f64s,
    splat_f64s,
    mul_add_e_f64s,
    add_f64s,
    max_f64s,
    reduce_max_f64s,
    reduce_sum_f64s,
    as_simd_f64s,
    as_mut_simd_f64s,
    f64::exp
);

// Branch-free, so that a loop over it vectorises: the library's `expf` is a call per number.
#[inline(always)]
fn exp_f32(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer in the low bits.
    const LN2_HIGH: f32 = 0.693_359_4; // 355 / 512: few bits, so that n * LN2_HIGH is exact.
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = if x < -87.0 { -87.0 } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = x - n * LN2_HIGH - n * LN2_LOW; // |r| <= ln(2) / 2
    // Minimax polynomial of e^r (Cephes, S. L. Moshier).
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_5e-2;
    let p = p * r + 0.166_666_65;
    let p = p * r + 0.5;
    let p = p * r * r + r + 1.0;
    p * f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits())) // p * 2^n
}

/// Numbers handled together; a multiple of every vector width in use.
pub(crate) const LANES: usize = 16;

/// Runs a loop over single numbers compiled once for AVX-512, once for AVX2 and once for any CPU, chosen at run time: a
/// binary uses what it finds and dies nowhere. The closure and what it calls must be
/// `#[inline(always)]`, because only inlined code is compiled for the chosen instructions.
#[inline(always)]
pub(crate) fn vectorized<T>(kernel: impl FnOnce() -> T) -> T {
    pulp::Arch::new().dispatch(kernel)
}

/// Σ xᵢ yᵢ, in as many interleaved partial sums as four registers hold, folded in a fixed order.
#[inline(always)]
pub(crate) fn dot<R: Real, S: Simd>(simd: S, x: &[R], y: &[R]) -> R {
    let (xs, ys) = (R::vectors::<S>(x), R::vectors::<S>(y));
    let mut sums = [R::zero().splat(simd); 4];
    for (xs, ys) in xs.chunks(4).zip(ys.chunks(4)) {
        for ((sum, &x), &y) in sums.iter_mut().zip(xs).zip(ys) {
            *sum = R::mul_add(simd, x, y, *sum);
        }
    }
    let done = whole::<R, S>(x.len());
    let tail = x[done..].iter().zip(&y[done..]);
    fold::<R, S>(simd, sums) + tail.fold(R::zero(), |sum, (&x, &y)| sum + x * y)
}

/// Σ xᵢ, summed as [`dot`] does.
#[inline(always)]
pub(crate) fn sum<R: Real, S: Simd>(simd: S, x: &[R]) -> R {
    let mut sums = [R::zero().splat(simd); 4];
    for xs in R::vectors::<S>(x).chunks(4) {
        for (sum, &x) in sums.iter_mut().zip(xs) {
            *sum = R::plus(simd, x, *sum);
        }
    }
    fold::<R, S>(simd, sums) + x[whole::<R, S>(x.len())..].iter().fold(R::zero(), |sum, &x| sum + x)
}

/// The largest of some whole registers full of numbers.
#[inline(always)]
pub(crate) fn max<R: Real, S: Simd>(simd: S, x: &[R]) -> R {
    let mut max = x[0].splat(simd);
    for &x in R::vectors::<S>(x) {
        max = R::larger(simd, x, max);
    }
    R::largest(simd, max)
}

/// The sum of all lanes of four registers.
#[inline(always)]
fn fold<R: Real, S: Simd>(simd: S, [a, b, c, d]: [R::Vector<S>; 4]) -> R {
    R::total(simd, R::plus(simd, R::plus(simd, a, b), R::plus(simd, c, d)))
}

/// How many of `n` numbers fill registers.
#[inline(always)]
pub(crate) fn whole<R: Real, S: Simd>(n: usize) -> usize {
    let lanes = size_of::<R::Vector<S>>() / size_of::<R>();
    n - n % lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_right_to_one_part_in_a_million_and_keeps_nan() {
        let mut worst = 0.0_f64;
        for i in 0..=1_740_000 {
            let x = -86.99 + i as f32 * 1e-4;
            let want = f64::from(x).exp();
            worst = worst.max((f64::from(Real::exp(x)) / want - 1.0).abs());
        }
        assert!(worst < 2e-7, "relative error {worst}");
        assert_eq!(Real::exp(0.0_f32), 1.0);
        assert!(Real::exp(f32::NAN).is_nan());
        assert!(Real::exp(f32::NEG_INFINITY) < 2e-38);
        assert!(Real::exp(f32::INFINITY).is_finite());
    }

    #[test]
    fn sums_of_any_length_are_the_sums() {
        struct Sums<'a>(&'a [f64]);
        impl pulp::WithSimd for Sums<'_> {
            type Output = (f64, f64);
            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) -> (f64, f64) {
                (sum(simd, self.0), dot(simd, self.0, self.0))
            }
        }
        for n in 0..150_u32 {
            let x: Vec<f64> = (0..n).map(f64::from).collect();
            let (sum, dot) = pulp::Arch::new().dispatch(Sums(&x));
            assert_eq!(sum, x.iter().sum::<f64>());
            assert_eq!(dot, x.iter().map(|x| x * x).sum::<f64>());
        }
    }
}
