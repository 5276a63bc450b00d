//! What a response says, and what it is worth: rules alone, no learned reward.

use super::problem::{ANSWER, Format, Problem, token_digit};
use crate::foundation::vocab::Vocab;

/// A response taken apart. Every sequence of tokens can be: what is missing is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The format it opens with.
    pub format: Option<Format>,
    /// The digits between the format's token and `A`.
    pub chain: Vec<u8>,
    /// The digit after `A`.
    pub answer: Option<u8>,
    /// Whether it keeps the whole template: format, chain (none in the direct format, at least one
    /// step in the others), `A`, one digit, end.
    pub complete: bool,
    /// Tokens up to and including the end token; all of them if there is none.
    pub length: usize,
}

impl Parsed {
    /// Takes `tokens` apart. What stands after the first end token is never read.
    pub fn new(tokens: &[u32]) -> Self {
        let end = tokens.iter().position(|&token| token == Vocab::EOS);
        let tokens = &tokens[..end.map_or(tokens.len(), |end| end + 1)];
        let mut parsed = Self { length: tokens.len(), ..Self::default() };
        let Some((format, mut rest)) =
            tokens.split_first().and_then(|(&first, rest)| Some((Format::from_token(first)?, rest)))
        else {
            return parsed;
        };
        parsed.format = Some(format);
        // The direct format's own token is the `A` before the answer.
        if format != Format::Direct {
            parsed.chain = rest.iter().map_while(|&token| token_digit(token)).collect();
            rest = &rest[parsed.chain.len()..];
            match rest.split_first() {
                Some((&ANSWER, after)) => rest = after,
                _ => return parsed,
            }
        }
        parsed.answer = rest.first().and_then(|&token| token_digit(token));
        let ended = parsed.answer.is_some() && rest.get(1) == Some(&Vocab::EOS);
        parsed.complete = ended && (format == Format::Direct) == parsed.chain.is_empty();
        parsed
    }

    /// Whether the answer is the right one, however it came about.
    pub fn is_right(&self, problem: &Problem) -> bool {
        self.answer == Some(problem.answer())
    }

    /// Process verification: whether every step is right and the answer follows from the last. An
    /// incomplete response fails; a complete direct one has no step to verify, `None`.
    pub fn verify(&self, problem: &Problem) -> Option<bool> {
        match self.format {
            Some(Format::Direct) if self.complete => None,
            Some(format) if self.complete => {
                Some(self.chain == problem.chain(format) && self.is_right(problem))
            }
            _ => Some(false),
        }
    }
}

/// Steps of a complete chain that do not follow from what stands before them, the answer being the last
/// step; `None` if the response is not complete, direct, or its chain has another number of steps.
pub fn slips(problem: &Problem, response: &Parsed) -> Option<u32> {
    let (format, answer) = (response.format?, response.answer?);
    let right = problem.chain(format);
    if !response.complete || format == Format::Direct || response.chain.len() != right.len() {
        return None;
    }
    // How far each written sum is off, modulo 10: a slip is where that changes.
    let off = response.chain.iter().zip(&right).map(|(wrote, right)| (10 + wrote - right) % 10);
    let off = off.chain([(10 + answer - problem.answer()) % 10]);
    let slip = |before: &mut u8, off: u8| {
        let slipped = off != *before;
        *before = off;
        Some(u32::from(slipped))
    };
    Some(off.scan(0, slip).sum())
}

/// The probability that `slips` slips of uniform size cancel, so that the answer is right all the same:
/// 1, 0, 1/9, 8/81, .. to 1/10.
pub fn chance_of_cancelling(slips: u32) -> f64 {
    (0..slips).fold(1.0, |chance, _| (1.0 - chance) / 9.0)
}

/// What a complete response is paid besides its answer.
pub const FORMAT_BONUS: f64 = 0.1;

/// The rule reward: 1 for the right answer plus [`FORMAT_BONUS`] for a complete template, as in
/// R1-Zero (DeepSeek-AI 2025, section 2.2.2).
pub fn rule_reward(problem: &Problem, response: &Parsed) -> f64 {
    let accuracy = if response.is_right(problem) { 1.0 } else { 0.0 };
    let format = if response.complete { FORMAT_BONUS } else { 0.0 };
    accuracy + format
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worlds::digit_sum::problem::vocab;
    use proptest::prelude::{any, prop, proptest};
    use proptest::{prop_assert, prop_assert_eq};

    fn parse(text: &str) -> Parsed {
        Parsed::new(&vocab().encode(text).unwrap())
    }

    fn parsed(format: Format, chain: &[u8], answer: Option<u8>, complete: bool, length: usize) -> Parsed {
        Parsed { format: Some(format), chain: chain.to_vec(), answer, complete, length }
    }

    #[test]
    fn complete_responses() {
        assert_eq!(parse("A 6 </s>"), parsed(Format::Direct, &[], Some(6), true, 3));
        assert_eq!(parse("S 8 9 6 A 6 </s>"), parsed(Format::Short, &[8, 9, 6], Some(6), true, 7));
        assert_eq!(parse("T 3 A 3 </s>"), parsed(Format::Full, &[3], Some(3), true, 5));
    }

    #[test]
    fn what_is_missing_is_not_made_up() {
        assert_eq!(parse(""), Parsed::default());
        assert_eq!(parse("6 </s>"), Parsed { length: 2, ..Parsed::default() });
        assert_eq!(parse("</s> A 6 </s>"), Parsed { length: 1, ..Parsed::default() });
        assert_eq!(parse("A </s>"), parsed(Format::Direct, &[], None, false, 2));
        assert_eq!(parse("A 6"), parsed(Format::Direct, &[], Some(6), false, 2));
        assert_eq!(parse("S 8 9 </s>"), parsed(Format::Short, &[8, 9], None, false, 4));
        assert_eq!(parse("S 8 9 = A 6 </s>"), parsed(Format::Short, &[8, 9], None, false, 7));
        assert_eq!(parse("T A 6 </s>"), parsed(Format::Full, &[], Some(6), false, 4));
    }

    /// A second answer and digits after the answer break the template; the first answer stands.
    #[test]
    fn the_first_answer_counts() {
        assert_eq!(parse("A 6 7 </s>"), parsed(Format::Direct, &[], Some(6), false, 4));
        assert_eq!(parse("S 8 A 6 A 7 </s>"), parsed(Format::Short, &[8], Some(6), false, 7));
        assert_eq!(parse("A 6 </s> A 7 </s>"), parsed(Format::Direct, &[], Some(6), true, 3));
    }

    #[test]
    fn verification_asks_for_every_step() {
        let problem = Problem::new(&[3, 5, 9, 2, 7]);
        let verify = |text: &str| parse(text).verify(&problem);
        assert_eq!(verify("T 3 8 7 9 6 A 6 </s>"), Some(true));
        assert_eq!(verify("T 3 8 7 8 6 A 6 </s>"), Some(false)); // A wrong step under a right answer.
        assert_eq!(verify("T 3 8 7 9 6 A 5 </s>"), Some(false));
        assert_eq!(verify("S 3 8 7 9 6 A 6 </s>"), Some(false)); // The chain of another format.
        assert_eq!(verify("S 8 9 6 A 6 </s>"), Some(true));
        assert_eq!(verify("S 8 9 6 A 6"), Some(false));
        assert_eq!(verify("A 6 </s>"), None);
        assert_eq!(verify("A 6"), Some(false));
        assert_eq!(verify("= 6 </s>"), Some(false));
    }

    #[test]
    fn the_rule_pays_answer_and_template() {
        let problem = Problem::new(&[3, 5, 9, 2, 7]);
        let pays = |text: &str| rule_reward(&problem, &parse(text));
        assert_eq!(pays("A 6 </s>"), 1.1);
        assert_eq!(pays("T 0 0 0 A 6 </s>"), 1.1); // Outcome alone: a wrong chain is not seen.
        assert_eq!(pays("A 5 </s>"), 0.1);
        assert_eq!(pays("A 6"), 1.0);
        assert_eq!(pays("A 6 6 </s>"), 1.0);
        assert_eq!(pays("6 </s>"), 0.0);
        assert_eq!(pays(""), 0.0);
    }

    #[test]
    fn slips_are_counted_where_they_happen() {
        let problem = Problem::new(&[3, 5, 9, 2, 7]);
        let count = |text: &str| slips(&problem, &parse(text));
        assert_eq!(count("T 3 8 7 9 6 A 6 </s>"), Some(0));
        assert_eq!(count("T 3 9 8 0 7 A 7 </s>"), Some(1)); // One slip, carried along.
        assert_eq!(count("T 3 9 7 9 6 A 6 </s>"), Some(2)); // Slipped and came back.
        assert_eq!(count("T 3 8 7 9 6 A 5 </s>"), Some(1)); // Only the answer is not copied.
        assert_eq!(count("S 9 9 7 A 8 </s>"), Some(4)); // Off by 1, 0, 1, 2.
        assert_eq!(count("T 3 8 7 9 A 9 </s>"), None); // A step is missing.
        assert_eq!(count("T 3 8 7 9 6 A 6"), None);
        assert_eq!(count("A 6 </s>"), None);
    }

    /// Against enumeration of all offsets 1 to 9.
    #[test]
    fn the_chance_of_cancelling_is_that_of_uniform_slips() {
        let mut off = [0_u64; 10];
        off[0] = 1;
        for slips in 0..6 {
            let total: u64 = off.iter().sum();
            let chance = off[0] as f64 / total as f64;
            assert!((chance_of_cancelling(slips) - chance).abs() < 1e-12, "{slips}");
            off = std::array::from_fn(|to| (1..10).map(|by| off[(to + 10 - by) % 10]).sum());
        }
    }

    proptest! {
        #[test]
        fn any_tokens_can_be_parsed(tokens in prop::collection::vec(any::<u32>(), 0..20)) {
            let parsed = Parsed::new(&tokens);
            prop_assert!(parsed.length <= tokens.len());
        }

        /// Among the task's own tokens, where most of a random sequence means something.
        #[test]
        fn nothing_after_the_end_is_read(
            tokens in prop::collection::vec(0_u32..18, 0..14),
            after in prop::collection::vec(0_u32..18, 0..6),
        ) {
            let ended: Vec<u32> = tokens.iter().copied().chain([Vocab::EOS]).collect();
            let longer: Vec<u32> = ended.iter().copied().chain(after).collect();
            prop_assert_eq!(Parsed::new(&ended), Parsed::new(&longer));
        }

        #[test]
        fn solutions_parse_to_what_they_say(digits in prop::collection::vec(0_u8..10, 1..=8)) {
            let problem = Problem::new(&digits);
            for format in Format::ALL {
                let solution = problem.solution(format);
                let parsed = Parsed::new(&solution);
                prop_assert_eq!(parsed.format, Some(format));
                prop_assert_eq!(&parsed.chain, &problem.chain(format));
                prop_assert!(parsed.complete && parsed.is_right(&problem));
                prop_assert!(parsed.verify(&problem) != Some(false));
                prop_assert_eq!(parsed.length, solution.len());
                prop_assert_eq!(rule_reward(&problem, &parsed), 1.1);
            }
        }
    }
}
