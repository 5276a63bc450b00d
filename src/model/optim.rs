//! Adam and AdamW over the flat parameter vector, in one pass, with global-norm clipping folded in.

use super::fused::real::{LANES, vectorized};
use super::gpt::Gpt;
use anyhow::{Context, Result, ensure};
use candle_core::backprop::GradStore;
use candle_core::{CpuStorage, InplaceOp2, Tensor, bail};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fmt;

/// Adam (Kingma and Ba 2015) with decoupled weight decay (Loshchilov and Hutter 2019).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdamConfig {
    /// Decay of the first moment, β₁.
    pub beta1: f64,
    /// Decay of the second moment, β₂.
    pub beta2: f64,
    /// ε, added to the root of the second moment.
    pub epsilon: f64,
    /// Decoupled weight decay λ on every parameter; 0 makes AdamW Adam.
    pub weight_decay: f64,
    /// Largest L2 norm that the whole gradient keeps, if any.
    pub clip_norm: Option<f64>,
}

impl AdamConfig {
    /// PyTorch's `Adam` with the seeds' clipping at norm 1.
    pub fn adam() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0, clip_norm: Some(1.0) }
    }

    /// PyTorch's `AdamW`, whose default decay is 0.01, with the seeds' clipping at norm 1.
    pub fn adamw() -> Self {
        Self { weight_decay: 0.01, ..Self::adam() }
    }
}

/// How the learning rate goes on after its warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decay {
    /// It stays.
    Constant,
    /// Half a cosine down to zero at step `total`.
    Cosine {
        /// The last step.
        total: usize,
    },
}

/// The learning rate of each step: linear warm-up, then `decay`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// The largest learning rate.
    pub lr: f64,
    /// Steps to reach it; with 0 or 1 the first step has it.
    pub warmup: usize,
    /// What follows.
    pub decay: Decay,
}

impl Schedule {
    /// The same rate at every step.
    pub fn constant(lr: f64) -> Self {
        Self { lr, warmup: 0, decay: Decay::Constant }
    }

    /// The learning rate of `step` = 1, 2, ..
    pub fn at(&self, step: usize) -> f64 {
        if step <= self.warmup {
            return self.lr * step as f64 / self.warmup as f64;
        }
        match self.decay {
            Decay::Constant => self.lr,
            Decay::Cosine { total } => {
                let span = total.saturating_sub(self.warmup).max(1) as f64;
                let done = ((step - self.warmup) as f64 / span).min(1.0);
                self.lr * (1.0 + (std::f64::consts::PI * done).cos()) / 2.0
            }
        }
    }
}

/// A gradient with an infinity or a NaN in it: training has diverged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonFiniteGradient;

impl fmt::Display for NonFiniteGradient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the gradient is not finite: training has diverged, lower the learning rate")
    }
}

impl std::error::Error for NonFiniteGradient {}

/// The optimiser of one model.
#[derive(Clone, Debug)]
pub struct Adam {
    config: AdamConfig,
    step: i32,
    first: Vec<f32>,  // [P]
    second: Vec<f32>, // [P]
}

impl Adam {
    /// An optimiser for `len` parameters, its moments zero.
    pub fn new(config: AdamConfig, len: usize) -> Self {
        Self { config, step: 0, first: vec![0.0; len], second: vec![0.0; len] }
    }

    /// An optimiser for `model`.
    pub fn for_model(config: AdamConfig, model: &Gpt) -> Self {
        Self::new(config, model.layout().len())
    }

    /// First and second moments, in the order of the parameters.
    pub fn moments(&self) -> (&[f32], &[f32]) {
        (&self.first, &self.second)
    }

    /// Takes the gradient of `loss`, a scalar, and descends. Returns the gradient's norm before
    /// clipping.
    pub fn minimize(&mut self, model: &Gpt, loss: &Tensor, lr: f64) -> Result<f64> {
        let gradients = loss.backward()?;
        self.descend(model, &gradients, lr)
    }

    /// One step down `gradients`. Returns the gradient's norm before clipping.
    ///
    /// # Errors
    /// If there is no gradient of the model's parameters, or it is not finite ([`NonFiniteGradient`]);
    /// the parameters are then as they were.
    pub fn descend(&mut self, model: &Gpt, gradients: &GradStore, lr: f64) -> Result<f64> {
        let gradient = gradients
            .get(model.parameters())
            .context("the loss does not depend on the model: no gradient of its parameters")?;
        self.update(model.parameters(), gradient, lr)
    }

    /// One step of `parameters [P]` down `gradient [P]`, in place.
    pub fn update(&mut self, parameters: &Tensor, gradient: &Tensor, lr: f64) -> Result<f64> {
        ensure!(
            parameters.dims() == [self.first.len()] && gradient.dims() == parameters.dims(),
            "the optimiser has {} parameters, got {:?} and a gradient of {:?}",
            self.first.len(),
            parameters.dims(),
            gradient.dims()
        );
        let op = Update { adam: RefCell::new(self), lr, norm: RefCell::new(0.0) };
        parameters.inplace_op2(gradient, &op)?;
        let norm = op.norm.into_inner();
        if norm.is_finite() { Ok(norm) } else { Err(NonFiniteGradient.into()) }
    }

    fn update_slices(&mut self, parameters: &mut [f32], gradient: &[f32], lr: f64, scale: f32) {
        self.step = self.step.saturating_add(1);
        let AdamConfig { beta1, beta2, epsilon, weight_decay, .. } = self.config;
        let step_size = (lr / (1.0 - beta1.powi(self.step))) as f32;
        let root_correction = (1.0 - beta2.powi(self.step)).sqrt() as f32;
        let (keep, epsilon) = ((1.0 - lr * weight_decay) as f32, epsilon as f32);
        let (rest1, beta2, rest2) = ((1.0 - beta1) as f32, beta2 as f32, (1.0 - beta2) as f32);
        let moments = self.first.iter_mut().zip(&mut self.second);
        vectorized(
            #[inline(always)]
            || {
                for ((p, &g), (m, v)) in parameters.iter_mut().zip(gradient).zip(moments) {
                    let g = g * scale;
                    *m += rest1 * (g - *m);
                    *v = beta2 * *v + rest2 * g * g;
                    *p = *p * keep - step_size * (*m / (v.sqrt() / root_correction + epsilon));
                }
            },
        );
    }
}

/// The step as Candle lets it reach the numbers of a variable: in place.
struct Update<'a> {
    adam: RefCell<&'a mut Adam>,
    lr: f64,
    norm: RefCell<f64>,
}

impl InplaceOp2 for Update<'_> {
    fn name(&self) -> &'static str {
        "adam"
    }

    fn cpu_fwd(
        &self,
        parameters: &mut CpuStorage,
        parameters_layout: &candle_core::Layout,
        gradient: &CpuStorage,
        gradient_layout: &candle_core::Layout,
    ) -> candle_core::Result<()> {
        let (CpuStorage::F32(parameters), CpuStorage::F32(gradient)) = (parameters, gradient) else {
            bail!("the optimiser works on F32");
        };
        let (Some((p0, p1)), Some((g0, g1))) =
            (parameters_layout.contiguous_offsets(), gradient_layout.contiguous_offsets())
        else {
            bail!("parameters and gradient must be contiguous");
        };
        let (parameters, gradient) = (&mut parameters[p0..p1], &gradient[g0..g1]);
        let norm = norm(gradient);
        *self.norm.borrow_mut() = norm;
        if !norm.is_finite() {
            return Ok(());
        }
        let mut adam = self.adam.borrow_mut();
        // 1e-6 as in `torch.nn.utils.clip_grad_norm_`.
        let scale = adam.config.clip_norm.map_or(1.0, |most| (most / (norm + 1e-6)).min(1.0));
        adam.update_slices(parameters, gradient, self.lr, scale as f32);
        Ok(())
    }
}

/// The L2 norm, summed in f64: first in lanes, so that the loop vectorises, then over the lanes.
fn norm(x: &[f32]) -> f64 {
    let mut lanes = [0.0; LANES];
    vectorized(
        #[inline(always)]
        || {
            let (chunks, rest) = x.as_chunks::<LANES>();
            for chunk in chunks {
                for (lane, &x) in lanes.iter_mut().zip(chunk) {
                    *lane += f64::from(x) * f64::from(x);
                }
            }
            for (lane, &x) in lanes.iter_mut().zip(rest) {
                *lane += f64::from(x) * f64::from(x);
            }
        },
    );
    lanes.iter().sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    #[test]
    fn warm_up_rises_to_the_rate_and_the_cosine_falls_to_zero() {
        let schedule = Schedule { lr: 2.0, warmup: 4, decay: Decay::Cosine { total: 12 } };
        let close = |step, want: f64| assert!((schedule.at(step) - want).abs() < 1e-12, "{step}");
        close(1, 0.5);
        close(4, 2.0);
        close(8, 1.0);
        close(12, 0.0);
        close(99, 0.0);
        assert_eq!(Schedule::constant(0.1).at(1), 0.1);
    }

    #[test]
    fn a_gradient_that_is_not_finite_is_an_error_and_changes_nothing() {
        let parameters = Var::new(&[1.0_f32, 2.0], &Device::Cpu).unwrap();
        let mut adam = Adam::new(AdamConfig::adam(), 2);
        let bad = Tensor::new(&[f32::NAN, 0.0], &Device::Cpu).unwrap();
        let error = adam.update(&parameters, &bad, 0.1).unwrap_err();
        assert!(error.is::<NonFiniteGradient>(), "{error}");
        assert_eq!(parameters.to_vec1::<f32>().unwrap(), [1.0, 2.0]);
        let short = Tensor::new(&[0.0_f32], &Device::Cpu).unwrap();
        assert!(adam.update(&parameters, &short, 0.1).is_err());
    }
}
