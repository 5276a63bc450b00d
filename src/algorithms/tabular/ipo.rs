//! Identity Preference Optimization (Azar et al. 2023).

use crate::algorithms::tabular::bradley_terry::PairLoss;

/// (h − 1/(2τ))² as a function of the margin h = log(π/π_ref)(y_w) − log(π/π_ref)(y_l)
/// (Azar et al. 2023, equation 17).
///
/// DPO's loss on a pair that always goes one way falls forever as h grows. This one has its minimum
/// at the finite margin 1/(2τ), so τ bounds the distance from the reference even when the
/// preferences carry no noise.
pub fn ipo_loss(margin: f64, tau: f64) -> PairLoss {
    let excess = margin - 0.5 / tau;
    PairLoss { value: excess * excess, slope: 2.0 * excess }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_minimum_is_at_the_finite_margin() {
        assert_eq!(ipo_loss(1.0, 0.5), PairLoss { value: 0.0, slope: 0.0 });
        assert!(ipo_loss(5.0, 0.5).slope > 0.0 && ipo_loss(-5.0, 0.5).slope < 0.0);
    }

    proptest! {
        #[test]
        fn slope_is_the_derivative_of_the_loss(margin in -20.0..20.0_f64, tau in 0.01..3.0_f64) {
            let value = |h| ipo_loss(h, tau).value;
            let numeric = (value(margin + 1e-4) - value(margin - 1e-4)) / 2e-4;
            prop_assert!((ipo_loss(margin, tau).slope - numeric).abs() < 1e-5);
        }
    }
}
