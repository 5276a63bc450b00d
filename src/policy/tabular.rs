//! A softmax policy over K answers, one logit each: small enough for closed-form gradients.

use crate::foundation::stats::log_softmax;

/// π(y) = softmax(logits)(y).
#[derive(Clone, Debug)]
pub struct TabularPolicy {
    /// One logit per answer, shape (K).
    pub logits: Vec<f64>,
}

impl TabularPolicy {
    /// A policy equal to the distribution of `log_probs`, so that training starts at the reference.
    pub fn from_log_probs(log_probs: &[f64]) -> Self {
        Self { logits: log_probs.to_vec() }
    }

    /// log π(y) of every answer, shape (K).
    pub fn log_probs(&self) -> Vec<f64> {
        log_softmax(&self.logits)
    }
}

/// The chain rule through log-softmax, in place: turns `upstream`, dL/dlog π(y), into the gradient
/// of L by the logits, dL/dlogit(k) = upstream(k) − π(k) Σ_y upstream(y).
pub fn pull_back(log_probs: &[f64], upstream: &mut [f64]) {
    let total: f64 = upstream.iter().sum();
    for (g, lp) in upstream.iter_mut().zip(log_probs) {
        *g -= lp.exp() * total;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pull_back_agrees_with_finite_differences(
            logits in prop::collection::vec(-3.0..3.0_f64, 2..6),
            seed in prop::collection::vec(-2.0..2.0_f64, 6),
        ) {
            let policy = TabularPolicy { logits };
            let loss = |p: &TabularPolicy| -> f64 {
                p.log_probs().iter().zip(&seed).map(|(lp, c)| c * lp * lp).sum()
            };
            let log_probs = policy.log_probs();
            let mut gradient: Vec<f64> =
                log_probs.iter().zip(&seed).map(|(lp, c)| 2.0 * c * lp).collect();
            pull_back(&log_probs, &mut gradient);
            for (k, g) in gradient.iter().enumerate() {
                let shifted = |by: f64| {
                    let mut moved = policy.clone();
                    moved.logits[k] += by;
                    loss(&moved)
                };
                let numeric = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
                prop_assert!((g - numeric).abs() < 1e-6 * (1.0 + numeric.abs()));
            }
        }
    }
}
