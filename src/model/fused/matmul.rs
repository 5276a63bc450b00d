//! One matrix product for everything, written so that no row's result depends on the other rows.
//!
//! `gemm` and BLAS choose blocks, and with them the order of each sum, by the size of the whole
//! product, so the same token gets other bits in another batch. Here every element is one sum over
//! k = 0, 1, 2, .. from zero, whatever surrounds it. The right factor is packed into panels of
//! [`PANEL`] columns which stay in the first-level cache while tiles of rows pass by (Goto and van de
//! Geijn 2008, without the outer blocking that matrices this small do not need).

use super::real::Real;
use pulp::{Arch, Simd, WithSimd};

/// Columns of a panel.
pub const PANEL: usize = 32;

/// A right factor `[K, N]` in panels of [`PANEL`] columns, each contiguous as `[K, PANEL]`, the last
/// one filled up with zeros.
#[derive(Clone, Debug, Default)]
pub struct Panels<R> {
    data: Vec<R>,
    k: usize,
    n: usize,
}

impl<R: Real> Panels<R> {
    /// Packs a row-major `[k, n]`.
    pub fn pack(&mut self, source: &[R], k: usize, n: usize) {
        debug_assert_eq!(source.len(), k * n);
        self.reshape(k, n);
        for (row, values) in source.chunks_exact(n).enumerate() {
            let (full, rest) = values.as_chunks::<PANEL>();
            for (panel, piece) in full.iter().enumerate() {
                // An array of known size is copied in registers, not by a call.
                if let Some(to) = self.data[(panel * k + row) * PANEL..].first_chunk_mut() {
                    *to = *piece;
                }
            }
            if !rest.is_empty() {
                let start = (full.len() * k + row) * PANEL;
                self.data[start..start + rest.len()].copy_from_slice(rest);
            }
        }
    }

    /// Packs the transpose of a row-major `[n, k]`.
    pub fn pack_transposed(&mut self, source: &[R], k: usize, n: usize) {
        debug_assert_eq!(source.len(), k * n);
        self.reshape(k, n);
        for (column, values) in source.chunks_exact(k).enumerate() {
            let (panel, lane) = (column / PANEL, column % PANEL);
            let panel = &mut self.data[panel * k * PANEL..(panel + 1) * k * PANEL];
            for (row, &value) in panel.chunks_exact_mut(PANEL).zip(values) {
                row[lane] = value;
            }
        }
    }

    fn reshape(&mut self, k: usize, n: usize) {
        (self.k, self.n) = (k, n);
        let len = n.div_ceil(PANEL) * PANEL * k;
        if n.is_multiple_of(PANEL) {
            self.data.resize(len, R::zero());
        } else {
            self.data.clear();
            self.data.resize(len, R::zero());
        }
    }
}

/// The left factor `[M, K]` of a product.
#[derive(Clone, Copy, Debug)]
pub enum Left<'a, R> {
    /// Row-major `[M, K]`.
    Plain(&'a [R]),
    /// Stored as its transpose, row-major `[K, M]`.
    Transposed(&'a [R]),
}

/// What a product is added to.
#[derive(Clone, Copy, Debug)]
pub enum Onto<'a, R> {
    /// Nothing: it replaces what was there.
    Zero,
    /// What is there.
    Itself,
    /// This row `[N]`, for every row.
    Bias(&'a [R]),
    /// This row `[N]` and this matrix `[M, N]`.
    BiasAndResidual(&'a [R], &'a [R]),
}

/// `out [M, N]` = `onto` + `left [M, K]` `right [K, N]`.
pub fn product<R: Real>(left: Left<R>, right: &Panels<R>, onto: Onto<R>, out: &mut [R]) {
    let (k, n) = (right.k, right.n);
    if n == 0 || out.is_empty() {
        return;
    }
    let m = out.len() / n;
    let (Left::Plain(x) | Left::Transposed(x)) = left;
    assert!(
        out.len() == m * n && x.len() == m * k,
        "product of {} values as [{m}, {k}] with [{k}, {n}] into {} values",
        x.len(),
        out.len()
    );
    Arch::new().dispatch(Product { left, right, onto, out });
}

struct Product<'a, R> {
    left: Left<'a, R>,
    right: &'a Panels<R>,
    onto: Onto<'a, R>,
    out: &'a mut [R],
}

impl<R: Real> WithSimd for Product<'_, R> {
    type Output = ();

    /// Strip after strip of columns, in tiles of rows.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { left, right, onto, out } = self;
        let (k, n) = (right.k, right.n);
        let m = out.len() / n;
        let width = 2 * size_of::<R::Vector<S>>() / size_of::<R>();
        for column in (0..n).step_by(width) {
            let strip = Strip {
                panel: &right.data[column / PANEL * k * PANEL..][..k * PANEL],
                lane: column % PANEL,
                width,
                column,
                k,
                n,
                onto,
            };
            let mut row = 0;
            // The sixteen sums of eight rows fit the 32 registers of AVX-512 and NEON, twelve the 16
            // of AVX2.
            if size_of::<R::Vector<S>>() == 32 {
                while row + 6 <= m {
                    strip.tile::<S, 6>(simd, left, row, out);
                    row += 6;
                }
            } else {
                while row + 8 <= m {
                    strip.tile::<S, 8>(simd, left, row, out);
                    row += 8;
                }
            }
            while row + 2 <= m {
                strip.tile::<S, 2>(simd, left, row, out);
                row += 2;
            }
            if row < m {
                strip.tile::<S, 1>(simd, left, row, out);
            }
        }
    }
}

/// Two registers' width of columns of a panel, and where their results go.
#[derive(Clone, Copy)]
struct Strip<'a, R> {
    panel: &'a [R], // [K, PANEL]
    lane: usize,    // First column within the panel.
    width: usize,
    column: usize, // First column within the result.
    k: usize,
    n: usize,
    onto: Onto<'a, R>,
}

impl<R: Real> Strip<'_, R> {
    /// `M` rows of results from `row` on.
    #[inline(always)]
    fn tile<S: Simd, const M: usize>(self, simd: S, left: Left<R>, row: usize, out: &mut [R]) {
        let sums: [_; M] = match left {
            Left::Plain(x) => {
                let rows: [&[R]; M] = std::array::from_fn(
                    #[inline(always)]
                    |i| &x[(row + i) * self.k..][..self.k],
                );
                self.sums(
                    simd,
                    #[inline(always)]
                    |k| {
                        let rows = &rows;
                        #[inline(always)]
                        move |i| rows[i][k]
                    },
                )
            }
            Left::Transposed(x) => {
                let m = out.len() / self.n;
                self.sums(
                    simd,
                    #[inline(always)]
                    |k| {
                        let line = &x[k * m + row..][..M];
                        #[inline(always)]
                        move |i| line[i]
                    },
                )
            }
        };
        let width = self.width.min(self.n - self.column);
        for (i, sums) in sums.iter().enumerate() {
            let start = (row + i) * self.n + self.column;
            let columns = self.column..self.column + width;
            let out = &mut out[start..start + width];
            match self.onto {
                Onto::Zero => out.fill(R::zero()),
                Onto::Itself => {}
                Onto::Bias(bias) => out.copy_from_slice(&bias[columns]),
                Onto::BiasAndResidual(bias, residual) => {
                    let addends = bias[columns].iter().zip(&residual[start..start + width]);
                    out.iter_mut().zip(addends).for_each(|(o, (&b, &r))| *o = b + r);
                }
            }
            if width == self.width {
                for (out, &sum) in R::vectors_mut::<S>(out).iter_mut().zip(sums) {
                    *out = R::plus(simd, *out, sum);
                }
            } else {
                let mut line = [R::zero(); PANEL];
                R::vectors_mut::<S>(&mut line)[..2].copy_from_slice(sums);
                out.iter_mut().zip(&line).for_each(|(o, &s)| *o += s);
            }
        }
    }

    /// `left(k)(i)` times row k of the strip, summed over k, for each of `M` rows i.
    #[inline(always)]
    fn sums<S: Simd, L: Fn(usize) -> R, const M: usize>(
        self,
        simd: S,
        left: impl Fn(usize) -> L,
    ) -> [[R::Vector<S>; 2]; M] {
        let mut sums = [[R::zero().splat(simd); 2]; M];
        for (k, line) in self.panel.chunks_exact(PANEL).take(self.k).enumerate() {
            let right = R::vectors::<S>(&line[self.lane..self.lane + self.width]);
            let (b0, b1) = (right[0], right[1]);
            let left = left(k);
            for (i, sums) in sums.iter_mut().enumerate() {
                let a = left(i).splat(simd);
                sums[0] = R::mul_add(simd, a, b0, sums[0]);
                sums[1] = R::mul_add(simd, a, b1, sums[1]);
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foundation::rng::Rng;

    fn numbers(rng: &mut Rng, n: usize) -> Vec<f32> {
        (0..n).map(|_| rng.normal() as f32).collect()
    }

    fn transpose(x: &[f32], rows: usize, columns: usize) -> Vec<f32> {
        (0..rows * columns).map(|i| x[i % rows * columns + i / rows]).collect()
    }

    #[test]
    fn every_layout_and_size_gives_the_naive_product() {
        let mut rng = Rng::new(0).fork("matmul");
        for (m, k, n) in [(1, 1, 1), (3, 5, 18), (8, 64, 192), (23, 64, 33), (130, 7, 64), (9, 256, 16)] {
            let (x, w) = (numbers(&mut rng, m * k), numbers(&mut rng, k * n));
            let want: Vec<f64> = (0..m * n)
                .map(|i| (0..k).map(|j| f64::from(x[i / n * k + j]) * f64::from(w[j * n + i % n])).sum())
                .collect();
            let (mut plain, mut turned) = (Panels::default(), Panels::default());
            plain.pack(&numbers(&mut rng, 7 * 40), 7, 40); // A used buffer must not matter.
            plain.pack(&w, k, n);
            turned.pack_transposed(&transpose(&w, k, n), k, n);
            let xt = transpose(&x, m, k);
            for right in [&plain, &turned] {
                for left in [Left::Plain(&x), Left::Transposed(&xt)] {
                    let mut out = vec![0.5_f32; m * n];
                    product(left, right, Onto::Itself, &mut out);
                    for (got, want) in out.iter().zip(&want) {
                        assert!((f64::from(*got) - 0.5 - want).abs() < 1e-4, "[{m}, {k}, {n}]");
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_alone_and_in_company() {
        let mut rng = Rng::new(1).fork("matmul");
        let (m, k, n) = (37, 64, 50);
        let (x, w) = (numbers(&mut rng, m * k), numbers(&mut rng, k * n));
        let mut right = Panels::default();
        right.pack(&w, k, n);
        let mut together = vec![0.0; m * n];
        product(Left::Plain(&x), &right, Onto::Zero, &mut together);
        for row in 0..m {
            let mut alone = vec![0.0; n];
            product(Left::Plain(&x[row * k..(row + 1) * k]), &right, Onto::Zero, &mut alone);
            assert_eq!(alone, together[row * n..(row + 1) * n]);
        }
    }
}
