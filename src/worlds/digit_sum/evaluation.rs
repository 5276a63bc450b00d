//! How well a policy solves problems, and how much it thinks.

use anyhow::Result;
use serde::Serialize;

use super::problem::{Format, Problem};
use super::response::Parsed;
use crate::foundation::rng::Rng;
use crate::foundation::stats::mean;
use crate::model::gpt::Gpt;
use crate::policy::sampling::{Rollout, Sampling, sample};

/// Most tokens of a response, the end token included.
pub const MAX_TOKENS: usize = 16;

/// A policy's responses to a set of problems, in figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Share of right answers.
    pub acc: f64,
    /// Mean tokens of a response, the end token included.
    pub length: f64,
    /// Share of verified chains among responses that open with a thinking format; none if there is none.
    pub chain_ok: Option<f64>,
    /// Share of each format; what opens with none of them is in no share.
    pub share: Shares,
}

/// Shares of the three formats among all responses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Shares {
    /// [`Format::Direct`].
    pub direct: f64,
    /// [`Format::Short`].
    pub short: f64,
    /// [`Format::Full`].
    pub full: f64,
}

impl Evaluation {
    /// The figures of `responses[i]` to `problems[i]`; there must be at least one.
    pub fn new(problems: &[Problem], responses: &[Parsed]) -> Self {
        let average = |values: Vec<f64>| mean(&values).expect("an evaluation needs at least one problem");
        let share = |holds: &dyn Fn(&Parsed, &Problem) -> bool| {
            let holds = responses.iter().zip(problems).map(|(r, p)| f64::from(u8::from(holds(r, p))));
            average(holds.collect())
        };
        let of_format = |format| share(&|response, _| response.format == Some(format));
        let thinks = |format| format != Format::Direct;
        let chains: Vec<f64> = responses
            .iter()
            .zip(problems)
            .filter(|(response, _)| response.format.is_some_and(thinks))
            .map(|(response, problem)| f64::from(u8::from(response.verify(problem) == Some(true))))
            .collect();
        Self {
            acc: share(&|response, problem| response.is_right(problem)),
            length: average(responses.iter().map(|response| response.length as f64).collect()),
            chain_ok: mean(&chains),
            share: Shares {
                direct: of_format(Format::Direct),
                short: of_format(Format::Short),
                full: of_format(Format::Full),
            },
        }
    }
}

/// One response to each problem; response i draws from `rng.fork(i)`.
///
/// # Errors
/// As [`sample`].
pub fn respond(model: &Gpt, problems: &[Problem], how: &Sampling, rng: &Rng) -> Result<Vec<Rollout>> {
    let prompts: Vec<Vec<u32>> = problems.iter().map(Problem::prompt).collect();
    sample(model, &prompts, 1, how, rng)
}

/// The figures of one response to each problem.
///
/// # Errors
/// As [`sample`].
pub fn evaluate(model: &Gpt, problems: &[Problem], how: &Sampling, rng: &Rng) -> Result<Evaluation> {
    let responses = respond(model, problems, how, rng)?;
    let parsed: Vec<Parsed> = responses.iter().map(|rollout| Parsed::new(&rollout.tokens)).collect();
    Ok(Evaluation::new(problems, &parsed))
}

/// Sampling from the policy itself, which chooses its format.
pub fn sampled() -> Sampling {
    Sampling::policy(MAX_TOKENS)
}

/// The most probable token each time.
pub fn greedy() -> Sampling {
    Sampling::greedy(MAX_TOKENS)
}

/// `how`, with the format given.
pub fn forced(format: Format, how: Sampling) -> Sampling {
    Sampling { forced: vec![format.token()], ..how }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worlds::digit_sum::problem::vocab;

    #[test]
    fn figures_by_hand() {
        let problem = Problem::new(&[3, 5, 9, 2, 7]);
        let responses = ["A 6 </s>", "S 8 9 6 A 6 </s>", "T 3 8 7 8 6 A 6 </s>", "= 6", "T 1 A 1 </s>"];
        let parsed = responses.map(|text| Parsed::new(&vocab().encode(text).unwrap()));
        let evaluation = Evaluation::new(&vec![problem; 5], &parsed);
        assert_eq!(
            evaluation,
            Evaluation {
                acc: 0.6,
                length: (3 + 7 + 9 + 2 + 5) as f64 / 5.0,
                chain_ok: Some(1.0 / 3.0),
                share: Shares { direct: 0.2, short: 0.2, full: 0.4 },
            }
        );
    }

    #[test]
    fn without_chains_there_is_no_share_of_good_ones() {
        let parsed = Parsed::new(&vocab().encode("A 6 </s>").unwrap());
        assert_eq!(Evaluation::new(&[Problem::new(&[6])], &[parsed]).chain_ok, None);
    }
}
