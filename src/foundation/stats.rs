//! Numerically careful scalar statistics: everything the exact analyses need, in `f64`.
//!
//! Distributions are slices of probabilities or, where tails matter, of log-probabilities in nats.

use rand::{Rng, RngExt};

/// log Σ exp(xᵢ), exact for any magnitude. An empty slice gives −∞, the log of an empty sum.
pub fn logsumexp(x: &[f64]) -> f64 {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if max.is_infinite() {
        return max; // all −∞ (or some +∞): there is nothing to rescale
    }
    max + x.iter().map(|v| (v - max).exp()).sum::<f64>().ln()
}

/// log softmax(x): log-probabilities that sum to one.
pub fn log_softmax(x: &[f64]) -> Vec<f64> {
    let log_z = logsumexp(x);
    x.iter().map(|v| v - log_z).collect()
}

/// log σ(x) without overflow: finite, with a correct slope, from x = −10⁴ to 10⁴ and beyond.
pub fn log_sigmoid(x: f64) -> f64 {
    x.min(0.0) - (-x.abs()).exp().ln_1p()
}

/// σ(x) = 1 / (1 + e⁻ˣ). For large negative x the exponential is +∞ and the quotient 0, as it should be.
pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// KL(p ‖ q) in nats from log-probabilities. Outcomes of probability 0 under p contribute nothing;
/// an outcome that only q excludes makes it +∞.
pub fn kl_divergence(log_p: &[f64], log_q: &[f64]) -> f64 {
    log_p
        .iter()
        .zip(log_q)
        .map(|(&lp, &lq)| {
            let p = lp.exp();
            if p > 0.0 { p * (lp - lq) } else { 0.0 }
        })
        .sum()
}

/// Total variation distance ½ Σ |pᵢ − qᵢ|, between 0 (equal) and 1 (disjoint).
pub fn total_variation(p: &[f64], q: &[f64]) -> f64 {
    0.5 * p.iter().zip(q).map(|(a, b)| (a - b).abs()).sum::<f64>()
}

/// Probabilities from their logarithms.
pub fn probabilities(log_p: &[f64]) -> Vec<f64> {
    log_p.iter().map(|lp| lp.exp()).collect()
}

/// Σ wᵢ xᵢ: the expectation of x under the distribution w.
pub fn expectation(w: &[f64], x: &[f64]) -> f64 {
    w.iter().zip(x).map(|(w, x)| w * x).sum()
}

/// The arithmetic mean; `None` for an empty slice.
pub fn mean(x: &[f64]) -> Option<f64> {
    (!x.is_empty()).then(|| x.iter().sum::<f64>() / x.len() as f64)
}

/// Standard error of the mean, s/√n with the sample standard deviation (n − 1); `None` below two values.
pub fn standard_error(x: &[f64]) -> Option<f64> {
    Some(standard_deviation(x)? / (x.len() as f64).sqrt())
}

/// The sample standard deviation, with n − 1 below the line; `None` for fewer than two values.
pub fn standard_deviation(x: &[f64]) -> Option<f64> {
    if x.len() < 2 {
        return None;
    }
    let mean = mean(x)?;
    let squares: f64 = x.iter().map(|v| (v - mean).powi(2)).sum();
    Some((squares / (x.len() - 1) as f64).sqrt())
}

/// Pearson correlation of x and y under the distribution proportional to `w`; `None` where one of
/// them does not vary, so that no correlation exists.
pub fn weighted_correlation(x: &[f64], y: &[f64], w: &[f64]) -> Option<f64> {
    let total: f64 = w.iter().sum();
    let mean = |v: &[f64]| expectation(w, v) / total;
    let (mx, my) = (mean(x), mean(y));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for ((&x, &y), &w) in x.iter().zip(y).zip(w) {
        xx += w * (x - mx) * (x - mx);
        yy += w * (y - my) * (y - my);
        xy += w * (x - mx) * (y - my);
    }
    (xx > 0.0 && yy > 0.0).then(|| xy / (xx * yy).sqrt())
}

/// The mean of what is left when a quarter of the values, rounded down, is cut off at either end; `None`
/// for an empty slice.
pub fn interquartile_mean(x: &[f64]) -> Option<f64> {
    let mut sorted = x.to_vec();
    sorted.sort_by(f64::total_cmp);
    let cut = x.len() / 4;
    mean(&sorted[cut..x.len() - cut])
}

/// Percentile-bootstrap interval of the mean (Efron 1979): the central `level` of the means of
/// `resamples` samples drawn from x with replacement. `None` below two values, which have no spread.
pub fn bootstrap_mean_interval(
    x: &[f64],
    level: f64,
    resamples: usize,
    rng: &mut impl Rng,
) -> Option<(f64, f64)> {
    if x.len() < 2 || resamples == 0 {
        return None;
    }
    let mut means: Vec<f64> = (0..resamples)
        .map(|_| (0..x.len()).map(|_| x[rng.random_range(0..x.len())]).sum::<f64>() / x.len() as f64)
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |q: f64| means[(q * (resamples - 1) as f64).round() as usize];
    Some((at((1.0 - level) / 2.0), at((1.0 + level) / 2.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foundation::rng;

    fn close(got: f64, want: f64, tolerance: f64) {
        assert!((got - want).abs() <= tolerance, "{got} is not within {tolerance} of {want}");
    }

    #[test]
    fn logsumexp_survives_any_magnitude() {
        close(logsumexp(&[1.0, 2.0, 3.0]), 3.407_605_964_444_38, 1e-12);
        close(logsumexp(&[1e4, 1e4]), 1e4 + 2_f64.ln(), 1e-9);
        close(logsumexp(&[-1e4, -1e4]), -1e4 + 2_f64.ln(), 1e-9);
        assert_eq!(logsumexp(&[]), f64::NEG_INFINITY);
        assert_eq!(logsumexp(&[f64::NEG_INFINITY; 2]), f64::NEG_INFINITY);
    }

    #[test]
    fn log_softmax_is_normalised_with_excluded_outcomes() {
        let lp = log_softmax(&[800.0, 801.0, f64::NEG_INFINITY]);
        close(lp[0].exp() + lp[1].exp(), 1.0, 1e-12);
        assert_eq!(lp[2], f64::NEG_INFINITY);
    }

    #[test]
    fn log_sigmoid_is_stable_at_both_ends() {
        close(log_sigmoid(0.0), -(2_f64.ln()), 1e-15);
        assert_eq!(log_sigmoid(-1e4), -1e4);
        assert_eq!(log_sigmoid(1e4), 0.0);
        close(log_sigmoid(-104.0), -104.0, 1e-12);
        close(sigmoid(-1e4), 0.0, 0.0);
        close(sigmoid(1e4), 1.0, 0.0);
    }

    /// (.6 .3 .1) against (.2 .3 .5): .6 ln 3 − .1 ln 5 = .498.
    #[test]
    fn kl_matches_a_hand_computed_case() {
        let log = |p: [f64; 3]| p.map(f64::ln);
        let (p, q) = (log([0.6, 0.3, 0.1]), log([0.2, 0.3, 0.5]));
        close(kl_divergence(&p, &q), 0.6 * 3_f64.ln() - 0.1 * 5_f64.ln(), 1e-12);
        assert_eq!(kl_divergence(&p, &p), 0.0);
        assert_eq!(kl_divergence(&p, &log([0.5, 0.5, 0.0])), f64::INFINITY);
        close(kl_divergence(&log([1.0, 0.0, 0.0]), &q), 5_f64.ln(), 1e-12);
    }

    #[test]
    fn total_variation_spans_zero_to_one() {
        assert_eq!(total_variation(&[1.0, 0.0], &[0.0, 1.0]), 1.0);
        close(total_variation(&[0.5, 0.5], &[0.4, 0.6]), 0.1, 1e-15);
    }

    #[test]
    fn correlation_ignores_weight_zero_and_rejects_constants() {
        close(
            weighted_correlation(&[1.0, 2.0, 9.0], &[2.0, 4.0, -7.0], &[1.0, 1.0, 0.0]).unwrap(),
            1.0,
            1e-12,
        );
        // By hand: means 2.8 and 2.1, covariance .12, variances 1.56 and .49.
        close(
            weighted_correlation(&[1.0, 2.0, 4.0], &[1.0, 3.0, 2.0], &[0.2, 0.3, 0.5]).unwrap(),
            0.12 / (1.56_f64 * 0.49).sqrt(),
            1e-12,
        );
        assert_eq!(weighted_correlation(&[1.0, 1.0], &[1.0, 2.0], &[0.5, 0.5]), None);
    }

    #[test]
    fn standard_error_is_the_sample_one() {
        close(standard_error(&[1.0, 2.0, 3.0, 4.0]).unwrap(), (5.0_f64 / 3.0 / 4.0).sqrt(), 1e-12);
        assert_eq!(standard_error(&[1.0]), None);
        assert_eq!(mean(&[]), None);
    }

    /// As scipy.stats.trim_mean(x, 0.25).
    #[test]
    fn the_interquartile_mean_cuts_a_quarter_at_either_end() {
        assert_eq!(interquartile_mean(&[9.0, 0.0, 2.0, 1.0]), Some(1.5));
        assert_eq!(interquartile_mean(&[5.0, 1.0, 2.0, 3.0, -90.0]), Some(2.0));
        assert_eq!(interquartile_mean(&[1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(interquartile_mean(&[]), None);
    }

    #[test]
    fn bootstrap_interval_covers_as_a_normal_interval_does() {
        let mut rng = rng::Rng::new(0).fork("bootstrap");
        let x: Vec<f64> = (0..400).map(|_| rng.normal()).collect();
        let (low, high) = bootstrap_mean_interval(&x, 0.95, 4000, &mut rng).unwrap();
        let (m, se) = (mean(&x).unwrap(), standard_error(&x).unwrap());
        close(low, m - 1.96 * se, 0.15 * se);
        close(high, m + 1.96 * se, 0.15 * se);
        assert_eq!(bootstrap_mean_interval(&[1.0], 0.95, 100, &mut rng), None);
    }
}
