//! How close to the optimum DPO can come on a finite number of preference pairs.
//!
//! DPO's minimum is a maximum-likelihood estimate, so for many pairs its error is normal with the
//! inverse Fisher information of the Bradley-Terry model as covariance (the delta method): what is
//! left of the distance is the labels' noise, not the optimiser's doing.

use std::f64::consts::PI;

use crate::foundation::stats::{probabilities, sigmoid};

/// The expected total variation distance between π* and the maximum-likelihood policy of `pairs`
/// pairs drawn from π_ref, labelled by Bradley-Terry on `reward` (K), identical pairs included.
/// Falls as 1/√`pairs`. A prediction for many pairs: `None` where it would exceed 1, which no distance does.
pub fn expected_total_variation(
    log_ref: &[f64],
    log_star: &[f64],
    reward: &[f64],
    beta: f64,
    pairs: f64,
) -> Option<f64> {
    // The policy moves with the rewards as dπ*(y)/dr(k) = π*(y) (1[y = k] − π*(k)) / β. A constant
    // added to all rewards changes nothing, so reward 0 can be fixed and the rest estimated.
    let factor = cholesky(information(log_ref, reward));
    let star = probabilities(log_star);
    let deviations = (0..star.len()).map(|y| {
        let slope: Vec<f64> =
            (1..star.len()).map(|k| star[y] * (f64::from(u8::from(y == k)) - star[k]) / beta).collect();
        // slopeᵀ I⁻¹ slope = |L⁻¹ slope|²
        let whitened = solve_lower(&factor, &slope);
        (whitened.iter().map(|v| v * v).sum::<f64>() / pairs).sqrt()
    });
    let expected = 0.5 * (2.0 / PI).sqrt() * deviations.sum::<f64>(); // E|N(0, s²)| = s √(2/π)
    (expected <= 1.0).then_some(expected)
}

/// Fisher information per sampled pair of the rewards 1..K, reward 0 being fixed: (K − 1, K − 1).
fn information(log_ref: &[f64], reward: &[f64]) -> Vec<Vec<f64>> {
    let k = reward.len();
    let mut matrix = vec![vec![0.0; k - 1]; k - 1];
    for a in 0..k {
        for b in 0..a {
            let won = sigmoid(reward[a] - reward[b]);
            let weight = 2.0 * (log_ref[a] + log_ref[b]).exp() * won * (1.0 - won);
            matrix[a - 1][a - 1] += weight;
            if b > 0 {
                matrix[b - 1][b - 1] += weight;
                matrix[a - 1][b - 1] -= weight;
                matrix[b - 1][a - 1] -= weight;
            }
        }
    }
    matrix
}

/// The lower-triangular L with L Lᵀ = `matrix`, symmetric and positive definite, in place.
fn cholesky(mut matrix: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    for i in 0..matrix.len() {
        for j in 0..=i {
            let known: f64 = (0..j).map(|m| matrix[i][m] * matrix[j][m]).sum();
            let rest = matrix[i][j] - known;
            matrix[i][j] = if i == j { rest.sqrt() } else { rest / matrix[j][j] };
        }
    }
    matrix
}

/// x with L x = `right`.
fn solve_lower(lower: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let mut x: Vec<f64> = Vec::with_capacity(right.len());
    for (row, r) in lower.iter().zip(right) {
        let known: f64 = row.iter().zip(&x).map(|(l, x)| l * x).sum();
        x.push((r - known) / row[x.len()]);
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::optimal::log_optimal_policy;

    /// Two answers by hand: I = 2 π₀ π₁ σ(1 − σ) = ½ · ¼ per pair, dπ/dr = π*(1 − π*)/β, and the
    /// total variation of two answers is |δπ|.
    #[test]
    fn two_equal_answers_by_hand() {
        let log_ref = [0.5_f64.ln(); 2];
        let reward = [0.0, 0.0];
        let star = log_optimal_policy(&log_ref, &reward, 0.5);
        let got = expected_total_variation(&log_ref, &star, &reward, 0.5, 100.0).unwrap();
        let want = (2.0 / PI).sqrt() * (0.25 / 0.5) * (1.0 / (0.125 * 100.0_f64)).sqrt();
        assert!((got - want).abs() < 1e-12, "{got} {want}");
    }
}
