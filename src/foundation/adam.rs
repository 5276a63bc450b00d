//! Adam on a flat slice of `f64`, for the worlds whose gradients are closed form.

/// Adam (Kingma and Ba 2015, algorithm 1) with PyTorch's defaults β₁ = .9, β₂ = .999, ε = 10⁻⁸.
#[derive(Clone, Debug)]
pub struct Adam {
    lr: f64,
    step: i32,
    first: Vec<f64>,
    second: Vec<f64>,
}

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

impl Adam {
    /// An optimiser for `len` parameters, its moments zero.
    pub fn new(len: usize, lr: f64) -> Self {
        Self { lr, step: 0, first: vec![0.0; len], second: vec![0.0; len] }
    }

    /// One descent step: `params` −= lr · m̂ / (√v̂ + ε). Both slices have the length given to [`Adam::new`].
    pub fn descend(&mut self, params: &mut [f64], gradient: &[f64]) {
        assert!(
            params.len() == self.first.len() && gradient.len() == self.first.len(),
            "Adam was made for {} parameters, got {} and a gradient of {}",
            self.first.len(),
            params.len(),
            gradient.len()
        );
        self.step = self.step.saturating_add(1);
        let step_size = self.lr / (1.0 - BETA1.powi(self.step));
        let root_correction = (1.0 - BETA2.powi(self.step)).sqrt();
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((p, &g), (m, v)) in params.iter_mut().zip(gradient).zip(moments) {
            *m = BETA1 * *m + (1.0 - BETA1) * g;
            *v = BETA2 * *v + (1.0 - BETA2) * g * g;
            *p -= step_size * *m / (v.sqrt() / root_correction + EPSILON);
        }
    }
}
