//! What policy-gradient methods are made of: penalised rewards, advantages, KL estimators, importance ratios and means.
//!
//! Token values stand ragged, responses one after the other, `[Σ lengths]`. All of it is computed in
//! f64: there are few numbers, and an exponential of a log-ratio of 100 does not fit an f32.

use anyhow::{Result, ensure};
use candle_core::{DType, Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::foundation::stats::{mean, standard_deviation};

/// Added to the standard deviation of a group's rewards.
const EPSILON: f64 = 1e-4;

/// Group-relative advantages: (r − mean)/(std + 1e-4) within each group of `group` consecutive
/// responses, with the sample standard deviation (Shao et al. 2024, section 4.1.2). A group of equal
/// rewards teaches nothing: exactly 0.
///
/// # Panics
/// If `group` is below 2 or does not divide the number of rewards.
pub fn group_advantages(rewards: &[f64], group: usize) -> Vec<f64> {
    assert!(group >= 2 && rewards.len().is_multiple_of(group), "groups of {group}, got {}", rewards.len());
    let standardise = |rewards: &[f64]| -> Vec<f64> {
        if !has_contrast(rewards) {
            return vec![0.0; rewards.len()];
        }
        let mean = mean(rewards).unwrap_or_default();
        let deviation = standard_deviation(rewards).unwrap_or_default() + EPSILON;
        rewards.iter().map(|r| (r - mean) / deviation).collect()
    };
    rewards.chunks_exact(group).flat_map(standardise).collect()
}

/// Share of groups whose rewards are all equal, so that their advantages are 0.
pub fn share_without_contrast(rewards: &[f64], group: usize) -> f64 {
    let flat = rewards.chunks(group).filter(|rewards| !has_contrast(rewards)).count();
    flat as f64 / rewards.len().div_ceil(group).max(1) as f64
}

fn has_contrast(rewards: &[f64]) -> bool {
    rewards.iter().any(|r| *r != rewards[0])
}

/// Advantages over the batch's mean reward: r − mean(r).
pub fn batch_advantages(rewards: &[f64]) -> Vec<f64> {
    let mean = mean(rewards).unwrap_or_default();
    rewards.iter().map(|r| r - mean).collect()
}

/// r − β (log π_old − log π_ref) of each response: the expected value is E\[r\] − β KL(π_old ‖ π_ref), what
/// RLHF maximises (Ziegler et al. 2019, equation 2). `log_ratios` are of whole responses.
///
/// # Panics
/// If the two differ in number.
pub fn penalised_rewards(rewards: &[f64], log_ratios: &[f64], beta: f64) -> Vec<f64> {
    assert_eq!(rewards.len(), log_ratios.len(), "one log-ratio per reward");
    rewards.iter().zip(log_ratios).map(|(reward, log_ratio)| reward - beta * log_ratio).collect()
}

/// An estimator of KL(π ‖ π_ref) from samples of π (Schulman 2020, "Approximating KL divergence").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KlEstimator {
    /// log π − log π_ref: unbiased, of high variance. As a loss its expected gradient is 0.
    K1,
    /// (log π − log π_ref)²/2: biased. As a loss its expected gradient is that of KL(π ‖ π_ref).
    K2,
    /// π_ref/π − 1 − log(π_ref/π): unbiased, never negative. As a loss its expected gradient is that of
    /// KL(π_ref ‖ π).
    K3,
}

impl KlEstimator {
    /// The estimate at each token, `[Σ lengths]`.
    pub fn estimate(self, logp: &Tensor, reference: &Tensor) -> Result<Tensor> {
        let log_ratio = (logp - reference)?;
        Ok(match self {
            Self::K1 => log_ratio,
            Self::K2 => (log_ratio.sqr()? * 0.5)?,
            // Rounding could leave −1e-16 where the two policies agree.
            Self::K3 => ((log_ratio.neg()?.exp()? - 1.0)? + log_ratio)?.relu()?,
        })
    }
}

/// k3 of one token from log(π_ref/π), as a plain number.
pub fn k3(log_ratio: f64) -> f64 {
    (log_ratio.exp_m1() - log_ratio).max(0.0)
}

/// ρ = π/π_old, from log-probabilities.
pub fn importance_ratio(logp: &Tensor, old: &Tensor) -> Result<Tensor> {
    Ok((logp - old)?.exp()?)
}

/// The pessimistic surrogate min(ρA, clip(ρ, 1−ε, 1+ε)A) of PPO (Schulman et al. 2017, equation 7).
pub fn clipped_surrogate(ratio: &Tensor, advantages: &Tensor, clip: f64) -> Result<Tensor> {
    let plain = (ratio * advantages)?;
    let clipped = (ratio.clamp(1.0 - clip, 1.0 + clip)? * advantages)?;
    Ok(plain.minimum(&clipped)?)
}

/// Share of ratios at which [`clipped_surrogate`] has no gradient: beyond the clip on the side that the
/// advantage pushes to. Exactly 0 at the first update of a batch.
pub fn clip_fraction(ratio: &Tensor, advantages: &[f64], clip: f64) -> Result<f64> {
    let ratio = ratio.to_vec1::<f64>()?;
    let beyond = |(&r, &a): (&f64, &f64)| (a > 0.0 && r > 1.0 + clip) || (a < 0.0 && r < 1.0 - clip);
    let clipped = ratio.iter().zip(advantages).filter(|&pair| beyond(pair)).count();
    Ok(clipped as f64 / ratio.len().max(1) as f64)
}

/// The mean over each response's tokens, then over responses (Shao et al. 2024, equation 3). Empty
/// responses are left out.
///
/// # Errors
/// If no response has a token.
pub fn mean_of_response_means(values: &Tensor, lengths: &[usize]) -> Result<Tensor> {
    let responses = lengths.iter().filter(|&&length| length > 0).count();
    ensure!(responses > 0, "no response has a token to average over");
    let weight = |length: usize| 1.0 / (responses * length) as f64;
    let weights: Vec<f64> =
        lengths.iter().flat_map(|&length| std::iter::repeat_n(length, length)).map(weight).collect();
    Ok((values * constant(&weights)?)?.sum_all()?)
}

/// The sum over each response's tokens, the mean over responses. Empty responses count: they are as
/// many samples of the policy as others.
///
/// # Errors
/// If there is no response.
pub fn mean_of_response_sums(values: &Tensor, lengths: &[usize]) -> Result<Tensor> {
    ensure!(!lengths.is_empty(), "there is no response to average over");
    Ok((values.sum_all()? / lengths.len() as f64)?)
}

/// One value per response, repeated for each of its tokens: `[B]` to `[Σ lengths]`.
pub fn per_token(values: &[f64], lengths: &[usize]) -> Vec<f64> {
    values.iter().zip(lengths).flat_map(|(&value, &length)| std::iter::repeat_n(value, length)).collect()
}

/// A tensor in f64 without gradient.
pub fn constant(values: &[f64]) -> Result<Tensor> {
    Ok(Tensor::from_slice(values, values.len(), &Device::Cpu)?)
}

/// The same tensor in f64; gradients flow through.
pub fn in_f64(values: &Tensor) -> Result<Tensor> {
    Ok(values.to_dtype(DType::F64)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Var;
    use proptest::prelude::{prop, proptest};
    use proptest::prop_assert;

    fn close(x: &[f64], want: &[f64], tolerance: f64) {
        assert_eq!(x.len(), want.len());
        assert!(x.iter().zip(want).all(|(x, w)| (x - w).abs() <= tolerance), "{x:?} is not {want:?}");
    }

    fn tensor(values: &[f64]) -> Tensor {
        constant(values).unwrap()
    }

    fn values(tensor: &Tensor) -> Vec<f64> {
        tensor.to_vec1().unwrap()
    }

    #[test]
    fn group_advantages_use_the_sample_deviation() {
        // Means 2 and 0; deviations √((1 + 0 + 1)/2) = 1 and √((1 + 1 + 4)/2) = √3.
        let advantages = group_advantages(&[1.0, 2.0, 3.0, 1.0, 1.0, -2.0], 3);
        let (a, b) = (1.0 / (1.0 + 1e-4), 1.0 / (3.0_f64.sqrt() + 1e-4));
        close(&advantages, &[-a, 0.0, a, b, b, -2.0 * b], 1e-12);
    }

    /// 1.1 is no binary fraction: the mean of eight of them may be off by a rounding error, which the
    /// deviation of 0 would blow up.
    #[test]
    fn a_constant_group_has_exactly_no_advantage() {
        let advantages = group_advantages(&[[1.1; 8], [0.1; 8]].concat(), 8);
        assert_eq!(advantages, [0.0; 16]);
    }

    #[test]
    fn the_penalty_costs_what_the_reference_would_not_have_said() {
        close(&penalised_rewards(&[1.0, 1.0, 0.0], &[0.0, 2.0, -1.0], 0.5), &[1.0, 0.0, 0.5], 0.0);
        assert_eq!(penalised_rewards(&[0.1, -3.0], &[7.0, -9.0], 0.0), [0.1, -3.0]);
    }

    #[test]
    fn batch_advantages_sum_to_zero() {
        close(&batch_advantages(&[1.0, 0.0, 0.5]), &[0.5, -0.5, 0.0], 1e-15);
        assert_eq!(batch_advantages(&[]), [0.0; 0]);
    }

    /// Rewards of 0 and 1 with p = 0.8: a group of G has no contrast with probability pᴳ + (1−p)ᴳ.
    #[test]
    fn groups_without_contrast_are_as_frequent_as_chance_has_it() {
        let mut rng = crate::foundation::rng::Rng::new(3);
        let rewards: Vec<f64> = (0..80_000).map(|_| f64::from(u8::from(rng.uniform() < 0.8))).collect();
        let expected = 0.8_f64.powi(4) + 0.2_f64.powi(4);
        close(&[share_without_contrast(&rewards, 4)], &[expected], 0.014); // Four standard errors.
        assert_eq!(share_without_contrast(&[1.0, 1.0, 0.0, 1.0], 2), 0.5);
        assert_eq!(share_without_contrast(&[], 2), 0.0);
    }

    const PI: [f64; 3] = [0.6, 0.3, 0.1];
    const REFERENCE: [f64; 3] = [0.2, 0.5, 0.3];

    fn kl(p: &[f64], q: &[f64]) -> f64 {
        p.iter().zip(q).map(|(p, q)| p * (p / q).ln()).sum()
    }

    /// Enumerated: k1 and k3 average to KL(π ‖ π_ref), k2 does not.
    #[test]
    fn estimators_have_the_expectations_that_theory_gives_them() {
        let (logp, reference) = (tensor(&PI.map(f64::ln)), tensor(&REFERENCE.map(f64::ln)));
        let mean = |estimator: KlEstimator| -> f64 {
            let estimates = values(&estimator.estimate(&logp, &reference).unwrap());
            PI.iter().zip(estimates).map(|(p, k)| p * k).sum()
        };
        let exact = kl(&PI, &REFERENCE);
        close(&[mean(KlEstimator::K1), mean(KlEstimator::K3)], &[exact; 2], 1e-12);
        let k2: f64 = (0..3).map(|i| PI[i] * (PI[i] / REFERENCE[i]).ln().powi(2) / 2.0).sum();
        close(&[mean(KlEstimator::K2)], &[k2], 1e-12);
        assert!((k2 - exact).abs() > 0.01);
    }

    /// Samples of π enter the loss as constants, so its expected gradient is Σ π(y) ∂k(y). With respect
    /// to the logits: 0 for k1, ∇KL(π ‖ π_ref) for k2 and ∇KL(π_ref ‖ π) = π − π_ref for k3.
    #[test]
    fn estimators_have_the_gradients_that_theory_gives_them() {
        let exact = kl(&PI, &REFERENCE);
        let reverse: Vec<f64> = (0..3).map(|i| PI[i] * ((PI[i] / REFERENCE[i]).ln() - exact)).collect();
        let forward: Vec<f64> = (0..3).map(|i| PI[i] - REFERENCE[i]).collect();
        let wants = [(KlEstimator::K1, vec![0.0; 3]), (KlEstimator::K2, reverse), (KlEstimator::K3, forward)];
        for (estimator, want) in wants {
            let logits = Var::new(&PI.map(f64::ln), &Device::Cpu).unwrap();
            let logp = candle_nn::ops::log_softmax(logits.as_tensor(), 0).unwrap();
            let loss = estimator.estimate(&logp, &tensor(&REFERENCE.map(f64::ln))).unwrap();
            let gradients = (loss * tensor(&PI)).unwrap().sum_all().unwrap().backward().unwrap();
            close(&values(gradients.get(&logits).unwrap()), &want, 1e-12);
        }
    }

    #[test]
    fn k3_is_never_negative_and_its_gradient_is_finite() {
        let differences = [-100.0, -1.0, -1e-6, -1e-9, 0.0, 1e-9, 1e-6, 1.0, 100.0];
        let logp = Var::new(&differences, &Device::Cpu).unwrap();
        let zeros = tensor(&[0.0; 9]);
        let k3 = KlEstimator::K3.estimate(&logp, &zeros).unwrap();
        assert!(values(&k3).iter().all(|&k| k >= 0.0 && k.is_finite()));
        assert!((values(&k3)[6] - 0.5e-12).abs() < 1e-15); // To second order d²/2.
        close(&values(&k3)[1..8], &differences.map(|d| super::k3(-d))[1..8], 1e-15);
        let gradients = k3.sum_all().unwrap().backward().unwrap();
        let gradient = values(gradients.get(&logp).unwrap());
        let want: Vec<f64> = differences.iter().map(|d: &f64| 1.0 - (-d).exp()).collect();
        assert!(
            gradient.iter().zip(&want).all(|(g, w)| (g - w).abs() <= 1e-8 * w.abs().max(1.0)),
            "{gradient:?}"
        );
    }

    /// ρ of .5, 1, 1.1 and 1.5 under A = 1 and A = −1, ε = .2: value and gradient by hand.
    #[test]
    fn the_clip_takes_the_gradient_away_on_the_side_that_gains() {
        let ratios = [0.5, 1.0, 1.1, 1.5, 0.5, 1.0, 1.1, 1.5];
        let advantages = [1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0];
        let ratio = Var::new(&ratios, &Device::Cpu).unwrap();
        let surrogate = clipped_surrogate(&ratio, &tensor(&advantages), 0.2).unwrap();
        close(&values(&surrogate), &[0.5, 1.0, 1.1, 1.2, -0.8, -1.0, -1.1, -1.5], 1e-12);
        let gradients = surrogate.sum_all().unwrap().backward().unwrap();
        let want = [1.0, 1.0, 1.0, 0.0, 0.0, -1.0, -1.0, -1.0];
        close(&values(gradients.get(&ratio).unwrap()), &want, 1e-12);
        assert_eq!(clip_fraction(&ratio, &advantages, 0.2).unwrap(), 2.0 / 8.0);
        assert_eq!(clip_fraction(&tensor(&[1.0; 4]), &advantages[2..6], 0.0).unwrap(), 0.0);
    }

    /// Lengths 2 and 8: each response weighs the same, each token of the short one four times as much.
    #[test]
    fn responses_weigh_the_same_whatever_their_length() {
        let ragged = tensor(&[[1.0; 2].as_slice(), &[2.0; 8]].concat());
        let mean = |values: &Tensor, lengths: &[usize]| {
            mean_of_response_means(values, lengths).unwrap().to_scalar::<f64>().unwrap()
        };
        assert!((mean(&ragged, &[2, 8]) - 1.5).abs() < 1e-12);
        assert!((mean(&ragged, &[2, 0, 8]) - 1.5).abs() < 1e-12); // Nobody's mean is not a zero.
        let sums = mean_of_response_sums(&ragged, &[2, 0, 8]).unwrap().to_scalar::<f64>().unwrap();
        assert!((sums - 18.0 / 3.0).abs() < 1e-12);
        assert!(mean_of_response_sums(&tensor(&[]), &[]).is_err());
        let none = mean_of_response_means(&tensor(&[]), &[0, 0]).unwrap_err();
        assert!(none.to_string().contains("no response"), "{none}");
        assert_eq!(per_token(&[3.0, 4.0, 5.0], &[2, 0, 1]), [3.0, 3.0, 5.0]);
    }

    proptest! {
        #[test]
        fn group_advantages_are_centred(rewards in prop::collection::vec(-5.0..5.0_f64, 8..=8)) {
            let advantages = group_advantages(&rewards, 8);
            prop_assert!(advantages.iter().sum::<f64>().abs() < 1e-9);
        }
    }
}
