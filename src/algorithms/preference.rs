//! The likelihood of preferences (Bradley and Terry 1952), which reward models and DPO have in common.

use anyhow::{Result, ensure};
use candle_core::Tensor;

use crate::foundation::stats::{log_sigmoid, mean};

/// −mean log σ(Δ) over P preferences, where Δ `[P]` is by how much the winner's score exceeds the
/// loser's; a scalar. log 2 where winner and loser score the same.
///
/// # Errors
/// If there is no preference.
pub fn preference_loss(margins: &Tensor) -> Result<Tensor> {
    ensure!(margins.elem_count() > 0, "a preference loss needs at least one preference");
    // −log σ(Δ) = log(e⁰ + e^−Δ), measured from the larger exponent m, so that nothing overflows. With m
    // held constant the gradient is −σ(−Δ) everywhere; expressions with |Δ| or max(Δ, 0) leave it to
    // conventions at Δ = 0, which is where DPO begins.
    let m = margins.neg()?.relu()?.detach();
    let sum = (m.neg()?.exp()? + (margins.neg()? - &m)?.exp()?)?;
    Ok((sum.log()? + m)?.mean_all()?)
}

/// How P preferences are ordered by scores: plain numbers for curves and tables.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Ordering {
    /// −mean log σ(Δ), nats.
    pub loss: f64,
    /// Share of preferences whose winner scores higher, among those that are no tie; none if all are.
    pub accuracy: Option<f64>,
    /// Mean Δ.
    pub margin: f64,
}

impl Ordering {
    /// From the margins Δ `[P]`; none of no preferences.
    pub fn of(margins: &[f64]) -> Option<Self> {
        let wins = margins.iter().filter(|&&margin| margin > 0.0).count();
        let losses = margins.iter().filter(|&&margin| margin < 0.0).count();
        Some(Self {
            loss: -mean(&margins.iter().map(|&margin| log_sigmoid(margin)).collect::<Vec<_>>())?,
            accuracy: (wins + losses > 0).then(|| wins as f64 / (wins + losses) as f64),
            margin: mean(margins)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};
    use std::f64::consts::LN_2;

    fn value_and_gradient(margins: &[f64]) -> (f64, Vec<f64>) {
        let margins = Var::new(margins, &Device::Cpu).unwrap();
        let loss = preference_loss(&margins).unwrap();
        let gradients = loss.backward().unwrap();
        (loss.to_scalar().unwrap(), gradients.get(&margins).unwrap().to_vec1().unwrap())
    }

    #[test]
    fn a_tie_costs_log_two_and_pulls_with_half_its_weight() {
        let (value, gradient) = value_and_gradient(&[0.0]);
        assert!((value - LN_2).abs() < 1e-15);
        assert_eq!(gradient, [-0.5]);
    }

    #[test]
    fn it_is_stable_at_any_margin() {
        for (margin, value, slope) in [(1e4, 0.0, 0.0), (-1e4, 1e4, -1.0), (-104.0, 104.0, -1.0)] {
            assert_eq!(value_and_gradient(&[margin]), (value, vec![slope]));
        }
        let single = Var::new(&[-1e4_f32, 1e4], &Device::Cpu).unwrap();
        let loss = preference_loss(&single).unwrap();
        assert_eq!(loss.to_scalar::<f32>().unwrap(), 5e3);
        let gradients = loss.backward().unwrap();
        assert_eq!(gradients.get(&single).unwrap().to_vec1::<f32>().unwrap(), [-0.5, 0.0]);
    }

    #[test]
    fn its_gradient_agrees_with_finite_differences() {
        let margins = [-3.0, -0.4, 0.0, 0.2, 5.0];
        let (_, gradient) = value_and_gradient(&margins);
        for (i, g) in gradient.iter().enumerate() {
            let moved = |by: f64| {
                let mut margins = margins;
                margins[i] += by;
                Ordering::of(&margins).unwrap().loss // Another formula for the same number.
            };
            let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            assert!((g - difference).abs() < 1e-9, "{i}: {g} is not {difference}");
        }
    }

    /// One batch of eight is the mean of eight batches of one, value and gradient.
    #[test]
    fn batches_accumulate() {
        let margins = [-2.0, -1.0, -0.5, 0.0, 0.1, 0.5, 1.0, 2.0];
        let (value, gradient) = value_and_gradient(&margins);
        let parts: Vec<_> = margins.iter().map(|&margin| value_and_gradient(&[margin])).collect();
        assert!((value - parts.iter().map(|(value, _)| value / 8.0).sum::<f64>()).abs() < 1e-15);
        for (whole, (_, part)) in gradient.iter().zip(&parts) {
            assert!((whole - part[0] / 8.0).abs() < 1e-15);
        }
    }

    #[test]
    fn a_tie_is_neither_won_nor_lost() {
        let ordering = Ordering::of(&[1.0, 0.0, -1.0, 2.0]).unwrap();
        assert_eq!((ordering.accuracy, ordering.margin), (Some(2.0 / 3.0), 0.5));
        let ties = Ordering::of(&[0.0, 0.0]).unwrap();
        assert_eq!((ties.accuracy, ties.margin, ties.loss), (None, 0.0, LN_2));
        assert_eq!(Ordering::of(&[]), None);
        let none = candle_core::Tensor::zeros(0, candle_core::DType::F64, &Device::Cpu).unwrap();
        assert!(preference_loss(&none).unwrap_err().to_string().contains("at least one"));
    }
}
