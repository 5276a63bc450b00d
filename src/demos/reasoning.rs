//! What the demos on digit sums share: the environment of reinforcement learning, and the examination
//! that a policy sits before and after.

use anyhow::Result;
use serde::Serialize;

use crate::algorithms::policy_gradient::Environment;
use crate::foundation::rng::Rng;
use crate::model::gpt::Gpt;
use crate::policy::sampling::Rollout;
use crate::worlds::digit_sum::evaluation::{Evaluation, evaluate, forced, greedy, sampled};
use crate::worlds::digit_sum::problem::{Format, K_MAX, K_MIN, Problem};
use crate::worlds::digit_sum::response::{Parsed, rule_reward};

/// Digit sums with the rule reward.
#[derive(Clone, Copy, Debug)]
pub struct DigitSums {
    /// Fewest and most digits.
    pub lengths: (usize, usize),
}

/// Problems of every length.
pub const ALL_LENGTHS: DigitSums = DigitSums { lengths: (K_MIN, K_MAX) };

impl DigitSums {
    /// `n` fresh problems.
    pub fn problems(&self, n: u64, rng: &mut Rng) -> Vec<Problem> {
        (0..n).map(|_| self.draw(rng)).collect()
    }
}

impl Environment for DigitSums {
    type Problem = Problem;

    fn draw(&self, rng: &mut Rng) -> Problem {
        Problem::sample(self.lengths, rng)
    }

    fn prompt(&self, problem: &Problem) -> Vec<u32> {
        problem.prompt()
    }

    fn rewards(&self, problems: &[Problem], responses: &[Rollout]) -> Result<Vec<f64>> {
        let pairs = problems.iter().zip(responses);
        Ok(pairs.map(|(problem, response)| rule_reward(problem, &Parsed::new(&response.tokens))).collect())
    }
}

/// A policy on one set of problems, in every way to ask it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Examination {
    /// The most probable token each time.
    pub greedy: Evaluation,
    /// Sampled at temperature 1, in a format of the policy's own choice.
    pub sampled: Evaluation,
    /// The most probable token each time after a format that is given.
    pub forced: ForcedFormats,
}

/// One evaluation per format.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ForcedFormats {
    /// [`Format::Direct`].
    pub direct: Evaluation,
    /// [`Format::Short`].
    pub short: Evaluation,
    /// [`Format::Full`].
    pub full: Evaluation,
}

impl Examination {
    /// Examines `model` on `problems`.
    ///
    /// # Errors
    /// If a problem does not fit the model.
    pub fn of(model: &Gpt, problems: &[Problem], rng: &Rng) -> Result<Self> {
        let model = model.no_grad();
        let forced = |format| evaluate(&model, problems, &forced(format, greedy()), rng);
        Ok(Self {
            greedy: evaluate(&model, problems, &greedy(), rng)?,
            sampled: evaluate(&model, problems, &sampled(), rng)?,
            forced: ForcedFormats {
                direct: forced(Format::Direct)?,
                short: forced(Format::Short)?,
                full: forced(Format::Full)?,
            },
        })
    }
}
