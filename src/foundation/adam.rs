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

/// Whether a full-batch gradient is 0 for all purposes (every entry below 10⁻¹⁰), so that descent
/// should stop. Adam divides by its memory of past gradients: once those have shrunk to rounding
/// noise it turns the noise into steps as large as 10⁻², at moments that differ between machines.
pub fn converged(gradient: &[f64]) -> bool {
    gradient.iter().all(|g| g.abs() < 1e-10)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// On f = x² + 3y² from (1, −2), against algorithm 1 as printed, with both bias corrections.
    #[test]
    fn first_steps_are_those_of_the_paper() {
        let mut params = [1.0, -2.0];
        let mut adam = Adam::new(2, 0.1);
        let mut moments = [(0.0, 0.0); 2];
        for step in 1..=3 {
            let gradient = [2.0 * params[0], 6.0 * params[1]];
            let mut want = params;
            for ((p, (m, v)), g) in want.iter_mut().zip(&mut moments).zip(gradient) {
                *m = 0.9 * *m + 0.1 * g;
                *v = 0.999 * *v + 0.001 * g * g;
                let (m_hat, v_hat) = (*m / (1.0 - 0.9_f64.powi(step)), *v / (1.0 - 0.999_f64.powi(step)));
                *p -= 0.1 * m_hat / (v_hat.sqrt() + 1e-8);
            }
            adam.descend(&mut params, &gradient);
            for (got, want) in params.iter().zip(want) {
                assert!((got - want).abs() < 1e-12);
            }
            if step == 1 {
                assert!((params[0] - 0.9).abs() < 1e-8 && (params[1] + 1.9).abs() < 1e-8);
            }
        }
    }

    #[test]
    fn a_converged_gradient_is_tiny_in_every_entry() {
        assert!(converged(&[0.0, -9e-11]) && !converged(&[0.0, -2e-10]));
        assert!(!converged(&[f64::NAN]));
    }
}
