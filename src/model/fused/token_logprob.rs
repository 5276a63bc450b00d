//! log softmax(h Eᵀ) at the tokens asked for, from final hidden states h and the tied embedding E.

use super::linear::{self, Weight};
use super::real::{Real, vectorized};

/// One log-probability to read: of `token`, from hidden state `row`.
///
/// A row may be read several times: the responses to a shared prompt all begin at its last token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Index of the hidden state.
    pub row: usize,
    /// The token whose log-probability is wanted.
    pub token: u32,
}

/// `hidden [N, C]` to `logp`, one per target. Leaves the probabilities in `probs [N, V]`.
pub fn forward<R: Real>(
    hidden: &[R],
    embedding: &Weight<R>,
    targets: &[Target],
    v: usize,
    probs: &mut [R],
    logp: &mut [R],
) {
    linear::forward_unbiased(hidden, embedding, probs); // [N, V], still logits.
    for (target, logp) in targets.iter().zip(logp.iter_mut()) {
        *logp = probs[target.row * v + target.token as usize];
    }
    let mut log_z = vec![R::zero(); probs.len() / v];
    vectorized(
        #[inline(always)]
        || {
            for (row, log_z) in probs.chunks_exact_mut(v).zip(&mut log_z) {
                *log_z = softmax(row);
            }
        },
    );
    for (target, logp) in targets.iter().zip(logp) {
        *logp -= log_z[target.row];
    }
}

/// From `dlogp`, one per target: turns `probs [N, V]` into the gradient of the logits.
///
/// For a row read by targets t with gradients gₜ: dlogits = Σₜ gₜ (onehot(t) − softmax).
pub fn backward<R: Real>(targets: &[Target], dlogp: &[R], v: usize, probs: &mut [R]) {
    let mut total = vec![R::zero(); probs.len() / v];
    for (target, &g) in targets.iter().zip(dlogp) {
        total[target.row] += g;
    }
    for (row, &total) in probs.chunks_exact_mut(v).zip(&total) {
        row.iter_mut().for_each(|p| *p *= -total);
    }
    for (target, &g) in targets.iter().zip(dlogp) {
        probs[target.row * v + target.token as usize] += g;
    }
}

/// Logits to probabilities in place; returns log Σ exp.
#[inline(always)]
pub fn softmax<R: Real>(row: &mut [R]) -> R {
    let max = row.iter().fold(row[0], |m, &x| if x > m { x } else { m });
    for x in row.iter_mut() {
        *x = (*x - max).exp();
    }
    let z = row.iter().fold(R::zero(), |sum, &x| sum + x);
    let scale = R::one() / z;
    for x in row.iter_mut() {
        *x *= scale;
    }
    max + z.ln()
}
