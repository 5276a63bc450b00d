//! What a base model learns from: problems with correct solutions in a mixture of formats.

use serde::{Deserialize, Serialize};

use super::problem::{Format, K_MAX, K_MIN, Problem};
use crate::foundation::demonstration::Demonstration;
use crate::foundation::rng::Rng;

/// A distribution over demonstrations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mixture {
    /// Weights of direct, short and full solutions.
    pub formats: [f64; 3],
    /// Fewest and most digits.
    pub lengths: (usize, usize),
}

impl Mixture {
    /// Problems of every length with these weights of direct, short and full.
    pub fn of(formats: [f64; 3]) -> Self {
        Self { formats, lengths: (K_MIN, K_MAX) }
    }

    /// A fresh problem and its correct solution.
    pub fn sample(&self, rng: &mut Rng) -> Demonstration {
        let problem = Problem::sample(self.lengths, rng);
        demonstrate(&problem, Format::ALL[rng.categorical(&self.formats)])
    }
}

/// A problem with its correct solution in `format`.
pub fn demonstrate(problem: &Problem, format: Format) -> Demonstration {
    Demonstration { prompt: problem.prompt(), response: problem.solution(format) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worlds::digit_sum::response::Parsed;

    #[test]
    fn formats_come_in_the_shares_asked_for() {
        let mixture = Mixture::of([0.5, 0.3, 0.2]);
        let mut rng = Rng::new(1);
        let mut counts = [0; 3];
        for _ in 0..10_000 {
            let parsed = Parsed::new(&mixture.sample(&mut rng).response);
            counts[Format::ALL.iter().position(|&f| Some(f) == parsed.format).unwrap()] += 1;
        }
        for (count, share) in counts.into_iter().zip(mixture.formats) {
            assert!((f64::from(count) / 1e4 - share).abs() < 0.02, "{counts:?}"); // Four standard errors.
        }
    }
}
