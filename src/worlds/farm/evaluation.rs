//! How good a set of responses is.

use serde::Serialize;

use super::language::Prompt;
use super::response::{Description, Fault, INVALID};
use crate::foundation::stats::mean;
use crate::policy::sampling::{Rollout, Sampling};

/// Most tokens of a response, the end token included.
pub const MAX_TOKENS: usize = 20;

/// Sampling from the policy itself.
pub fn sampled() -> Sampling {
    Sampling::policy(MAX_TOKENS)
}

/// What people think of each response, or what is wrong with it.
pub fn verdicts(prompts: &[Prompt], responses: &[Rollout]) -> Vec<Result<f64, Fault>> {
    let pairs = prompts.iter().zip(responses);
    pairs
        .map(|(prompt, response)| {
            Description::parse(prompt.subject, &response.tokens).map(|description| description.reward())
        })
        .collect()
}

/// r* of a verdict.
pub fn reward(verdict: &Result<f64, Fault>) -> f64 {
    verdict.unwrap_or(INVALID)
}

/// Verdicts in figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Mean r*.
    #[serde(rename = "true")]
    pub true_reward: f64,
    /// Share of responses that are right.
    pub valid: f64,
    /// Share of responses that never stop.
    pub nostop: f64,
}

impl Figures {
    /// The figures of `verdicts`; there must be at least one.
    pub fn new(verdicts: &[Result<f64, Fault>]) -> Self {
        let average = |value: &dyn Fn(&Result<f64, Fault>) -> f64| {
            mean(&verdicts.iter().map(value).collect::<Vec<_>>()).expect("figures need at least one verdict")
        };
        let share = |holds: bool| f64::from(u8::from(holds));
        Self {
            true_reward: average(&reward),
            valid: average(&|verdict| share(verdict.is_ok())),
            nostop: average(&|verdict| share(*verdict == Err(Fault::NotStopped))),
        }
    }
}

/// How often each fault occurs, the most frequent first.
pub fn faults(verdicts: &[Result<f64, Fault>]) -> Vec<(Fault, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for fault in verdicts.iter().filter_map(|verdict| verdict.err()) {
        *counts.entry(fault).or_insert(0) += 1;
    }
    let mut counts: Vec<(Fault, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_by_hand() {
        let verdicts =
            [Ok(2.5), Ok(-1.9), Err(Fault::NotStopped), Err(Fault::WrongVerb), Err(Fault::WrongVerb)];
        let figures = Figures::new(&verdicts);
        assert!((figures.true_reward - (2.5 - 1.9 - 9.0) / 5.0).abs() < 1e-12);
        assert_eq!((figures.valid, figures.nostop), (0.4, 0.2));
        assert_eq!(faults(&verdicts), [(Fault::WrongVerb, 2), (Fault::NotStopped, 1)]);
    }
}
