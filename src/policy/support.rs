//! Exact analysis of a language model on the responses it is likely to give to one prompt.
//!
//! Responses cannot all be enumerated, but a small model's probability concentrates: sampling finds
//! the likely ones, and each one's probability is known exactly. On that support a policy is a finite
//! distribution, π* has its closed form, and expectations are sums instead of averages of samples.

use std::collections::HashSet;

use anyhow::{Result, ensure};

use crate::foundation::rng::Rng;
use crate::foundation::stats::{expectation, kl_divergence, logsumexp};
use crate::model::gpt::Gpt;
use crate::policy::logprob::seq_logprob;
use crate::policy::optimal::log_optimal_policy;
use crate::policy::sampling::{Request, Sampling, sample_requests};

/// When to stop collecting responses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coverage {
    /// Enough once the responses found have this probability together, in [0, 1].
    pub mass: f64,
    /// Samples drawn at most.
    pub max_samples: usize,
}

/// The distinct finished responses found, with what the reference gives to each.
#[derive(Clone, Debug)]
pub struct Support {
    /// The prompt, beginning token included.
    pub prompt: Vec<u32>,
    /// Responses in the order of their first appearance, each with its end token.
    pub responses: Vec<Vec<u32>>,
    /// log π_ref(y|x) of each, not renormalised.
    pub log_ref: Vec<f64>,
    /// Samples that it took.
    pub samples: usize,
}

/// Samples drawn between two looks at the covered mass.
const ROUND: usize = 1024;

impl Support {
    /// Draws from `reference` until `coverage` is reached. A response that does not stop by itself is
    /// no response to be scored and stays outside. Sample i draws from `rng.fork(i)`, so a larger
    /// support extends a smaller one.
    ///
    /// # Errors
    /// If the mass is not in [0, 1], or as [`sample_requests`] fails.
    pub fn collect(
        reference: &Gpt,
        prompt: &[u32],
        sampling: &Sampling,
        coverage: Coverage,
        rng: &Rng,
    ) -> Result<Self> {
        ensure!(
            (0.0..=1.0).contains(&coverage.mass),
            "the mass to cover must be from 0 to 1, got {}",
            coverage.mass
        );
        let reference = reference.no_grad();
        let mut found: HashSet<Vec<u32>> = HashSet::new();
        let mut support =
            Self { prompt: prompt.to_vec(), responses: Vec::new(), log_ref: Vec::new(), samples: 0 };
        while support.samples < coverage.max_samples && support.mass() < coverage.mass {
            let round = support.samples..coverage.max_samples.min(support.samples + ROUND);
            support.samples = round.end;
            let requests: Vec<Request> = round.map(|i| Request { prompt, rng: rng.fork(i) }).collect();
            for rollout in sample_requests(&reference, &requests, sampling)? {
                if rollout.stopped && found.insert(rollout.tokens.clone()) {
                    support.log_ref.push(rollout.logprob());
                    support.responses.push(rollout.tokens);
                }
            }
        }
        Ok(support)
    }

    /// The reference's probability of the whole support; the rest is unseen or never stops.
    pub fn mass(&self) -> f64 {
        logsumexp(&self.log_ref).exp()
    }

    /// The reference on the support.
    pub fn reference(&self) -> Restricted {
        Restricted::new(&self.log_ref)
    }

    /// π* for rewards r(y) of the responses, all of its mass on the support.
    pub fn optimal(&self, reward: &[f64], beta: f64) -> Restricted {
        Restricted::new(&log_optimal_policy(&self.log_ref, reward, beta))
    }

    /// Any policy's exact distribution over the support.
    ///
    /// # Errors
    /// As [`seq_logprob`].
    pub fn policy(&self, model: &Gpt) -> Result<Restricted> {
        let prompts = vec![self.prompt.as_slice(); self.responses.len()];
        let log_probs = seq_logprob(&model.no_grad(), &prompts, &self.responses)?.to_vec1::<f32>()?;
        let log_probs: Vec<f64> = log_probs.into_iter().map(f64::from).collect();
        Ok(Restricted::new(&log_probs))
    }
}

/// A policy seen on a support.
#[derive(Clone, Debug)]
pub struct Restricted {
    /// log of the policy renormalised to the support.
    pub log_probs: Vec<f64>,
    /// What the policy itself gives to the support.
    pub mass: f64,
}

impl Restricted {
    /// From log-probabilities that sum to at most 1.
    pub fn new(log_probs: &[f64]) -> Self {
        let log_mass = logsumexp(log_probs);
        Self { log_probs: log_probs.iter().map(|lp| lp - log_mass).collect(), mass: log_mass.exp() }
    }

    /// Renormalised probabilities.
    pub fn probabilities(&self) -> Vec<f64> {
        self.log_probs.iter().map(|lp| lp.exp()).collect()
    }

    /// E\[value(y)\] given that y is on the support: a reward, or 0 and 1 for validity.
    pub fn expectation(&self, values: &[f64]) -> f64 {
        expectation(&self.probabilities(), values)
    }

    /// KL(self ‖ other) of the renormalised policies, nats.
    pub fn kl_to(&self, other: &Self) -> f64 {
        kl_divergence(&self.log_probs, &other.log_probs)
    }

    /// Total variation distance of the policies themselves, with everything outside the support as
    /// one more outcome.
    pub fn tv_to(&self, other: &Self) -> f64 {
        let inside = self.log_probs.iter().zip(&other.log_probs);
        let inside: f64 = inside.map(|(a, b)| (self.mass * a.exp() - other.mass * b.exp()).abs()).sum();
        0.5 * (inside + (self.mass - other.mass).abs())
    }

    /// Entropy of the renormalised policy, in bits.
    pub fn entropy_bits(&self) -> f64 {
        let term = |lp: &f64| if *lp > f64::NEG_INFINITY { -lp.exp() * lp } else { 0.0 };
        self.log_probs.iter().map(term).sum::<f64>() / std::f64::consts::LN_2
    }
}
