//! Training whose numbers leave the finite stops there and says so.

use std::fmt;

use anyhow::Result;
use candle_core::{DType, Tensor};

use crate::model::gpt::Gpt;
use crate::model::optim::{Adam, NonFiniteGradient};

/// Where training stopped because its numbers had left the finite.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Divergence {
    /// The step that could not be completed.
    pub step: usize,
    /// What was not finite.
    pub what: &'static str,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} not finite at step {}", self.what, self.step)
    }
}

/// One update of `model` down the gradient of `loss`, a scalar. `Ok(Ok(norm))` is the gradient's norm
/// before clipping; `Ok(Err(what))` says what was not finite, and the model is then as it was.
///
/// # Errors
/// If the loss does not depend on the model.
pub fn descend(
    adam: &mut Adam,
    model: &Gpt,
    loss: &Tensor,
    lr: f64,
) -> Result<std::result::Result<f64, &'static str>> {
    if !loss.to_dtype(DType::F64)?.to_scalar::<f64>()?.is_finite() {
        return Ok(Err("the loss is"));
    }
    match adam.minimize(model, loss, lr) {
        Ok(norm) => Ok(Ok(norm)),
        Err(error) if error.is::<NonFiniteGradient>() => Ok(Err("the gradient is")),
        Err(error) => Err(error),
    }
}
