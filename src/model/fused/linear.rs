//! A linear map y = x W + b with GPT-2's weights `[in, out]`, added to a residual where there is one.

use super::matmul::{Left, Onto, Panels, product};
use super::real::{Real, vectorized};

/// A weight matrix `[in, out]` packed as the right factor of both passes.
#[derive(Clone, Debug, Default)]
pub struct Weight<R> {
    forward: Panels<R>,  // W   [in, out]
    backward: Panels<R>, // W^T [out, in]
}

impl<R: Real> Weight<R> {
    /// Packs a row-major `[inputs, outputs]`; for the backward pass only if `gradient`.
    pub fn pack(&mut self, weight: &[R], inputs: usize, outputs: usize, gradient: bool) {
        self.forward.pack(weight, inputs, outputs);
        if gradient {
            self.backward.pack_transposed(weight, outputs, inputs);
        }
    }

    /// Packs the transpose of a row-major `[outputs, inputs]`, such as the tied token embedding.
    pub fn pack_transposed(&mut self, weight: &[R], inputs: usize, outputs: usize, gradient: bool) {
        self.forward.pack_transposed(weight, inputs, outputs);
        if gradient {
            self.backward.pack(weight, outputs, inputs);
        }
    }
}

/// `x [N, in]` to `y [N, out]` = residual + bias + x W; no residual counts as zero.
pub fn forward<R: Real>(x: &[R], w: &Weight<R>, bias: &[R], residual: Option<&[R]>, y: &mut [R]) {
    let onto = residual.map_or(Onto::Bias(bias), |residual| Onto::BiasAndResidual(bias, residual));
    product(Left::Plain(x), &w.forward, onto, y);
}

/// `x [N, in]` to `y [N, out]` = x W.
pub fn forward_unbiased<R: Real>(x: &[R], w: &Weight<R>, y: &mut [R]) {
    product(Left::Plain(x), &w.forward, Onto::Zero, y);
}

/// What `dy [N, out]` asks of the input: `dx [N, in]` = dy Wᵀ.
pub fn backward_input<R: Real>(w: &Weight<R>, dy: &[R], dx: &mut [R]) {
    product(Left::Plain(dy), &w.backward, Onto::Zero, dx);
}

/// What `dy [N, out]` asks of the weight: `dw [in, out]` = xᵀ dy. `scratch` is overwritten.
pub fn backward_weight<R: Real>(x: &[R], dy: &[R], outputs: usize, dw: &mut [R], scratch: &mut Panels<R>) {
    scratch.pack(dy, dy.len() / outputs, outputs);
    product(Left::Transposed(x), scratch, Onto::Zero, dw);
}

/// What `dy [N, out]` asks of the bias: `db [out]` is the sum of its rows.
pub fn backward_bias<R: Real>(dy: &[R], db: &mut [R]) {
    db.fill(R::zero());
    vectorized(
        #[inline(always)]
        || {
            for dy in dy.chunks_exact(db.len()) {
                for (total, &d) in db.iter_mut().zip(dy) {
                    *total += d;
                }
            }
        },
    );
}
