//! Problems and the three ways to write their solution.

use serde::{Deserialize, Serialize};

use crate::foundation::rng::Rng;
use crate::foundation::vocab::Vocab;

/// Fewest digits of a problem.
pub const K_MIN: usize = 2;
/// Most digits of a problem: every prompt has as many slots.
pub const K_MAX: usize = 8;
/// Tokens of every prompt: the start, the slots and `=`.
pub const PROMPT_LENGTH: usize = K_MAX + 2;
/// Positions of a model for this task. The longest solution ends at 22.
pub const N_POSITIONS: usize = 24;

/// The words after the special ones, in the order of their tokens.
const WORDS: [&str; 15] = ["=", "A", "S", "T", "_", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
const EQUALS: u32 = 3;
/// Says that the next digit is the answer; as the first token of a response, that there is no chain.
pub const ANSWER: u32 = 4;
const SHORT: u32 = 5;
const FULL: u32 = 6;
const BLANK: u32 = 7;
const ZERO: u32 = 8;

/// The task's vocabulary of 18 words.
pub fn vocab() -> Vocab {
    Vocab::new(&WORDS).expect("the words are different and without spaces")
}

/// The token of a digit 0 to 9.
pub fn digit_token(digit: u8) -> u32 {
    ZERO + u32::from(digit)
}

/// The digit that a token stands for, if it is one.
pub fn token_digit(token: u32) -> Option<u8> {
    token.checked_sub(ZERO).filter(|&digit| digit < 10).map(|digit| digit as u8)
}

/// How a response thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// `A 6`: the answer at once.
    Direct,
    /// `S 8 9 6 A 6`: the running sum after every second digit and after the last.
    Short,
    /// `T 3 8 7 9 6 A 6`: the running sum after every digit.
    Full,
}

impl Format {
    /// All formats, the laziest first.
    pub const ALL: [Self; 3] = [Self::Direct, Self::Short, Self::Full];

    /// The token that opens a response of this format.
    pub fn token(self) -> u32 {
        match self {
            Self::Direct => ANSWER,
            Self::Short => SHORT,
            Self::Full => FULL,
        }
    }

    /// The format that `token` opens, if any.
    pub fn from_token(token: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.token() == token)
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Short => "short",
            Self::Full => "full",
        }
    }

    /// Digits added per step of the chain; the direct format has no chain.
    fn stride(self) -> Option<usize> {
        match self {
            Self::Direct => None,
            Self::Short => Some(2),
            Self::Full => Some(1),
        }
    }
}

/// Digits to add up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    digits: Vec<u8>,
}

impl Problem {
    /// A problem of these digits.
    ///
    /// # Panics
    /// If there are none, more than [`K_MAX`], or one above 9.
    pub fn new(digits: &[u8]) -> Self {
        assert!((1..=K_MAX).contains(&digits.len()), "1 to {K_MAX} digits, got {}", digits.len());
        assert!(digits.iter().all(|&digit| digit < 10), "digits are 0 to 9, got {digits:?}");
        Self { digits: digits.to_vec() }
    }

    /// Uniformly many uniform digits, from `lengths.0` to `lengths.1` of them.
    pub fn sample(lengths: (usize, usize), rng: &mut Rng) -> Self {
        let (low, high) = lengths;
        let k = low + rng.below(high + 1 - low);
        Self::new(&(0..k).map(|_| rng.below(10) as u8).collect::<Vec<_>>())
    }

    /// The digits.
    pub fn digits(&self) -> &[u8] {
        &self.digits
    }

    /// The sum of all digits modulo 10.
    pub fn answer(&self) -> u8 {
        running_sums(&self.digits).last().copied().unwrap_or(0)
    }

    /// What the model reads: `<s> 3 5 9 2 7 _ _ _ =`. The width is fixed, so that the digit a step
    /// needs always stands at the same distance.
    pub fn prompt(&self) -> Vec<u32> {
        let digits = self.digits.iter().map(|&digit| digit_token(digit));
        let slots = digits.chain(std::iter::repeat(BLANK)).take(K_MAX);
        std::iter::once(Vocab::BOS).chain(slots).chain([EQUALS]).collect()
    }

    /// The correct chain of a format; empty for [`Format::Direct`].
    pub fn chain(&self, format: Format) -> Vec<u8> {
        let Some(stride) = format.stride() else { return Vec::new() };
        let last = self.digits.len();
        let sums = (1..).zip(running_sums(&self.digits));
        sums.filter(|(i, _)| i % stride == 0 || *i == last).map(|(_, sum)| sum).collect()
    }

    /// The correct response of a format, the end token included.
    pub fn solution(&self, format: Format) -> Vec<u32> {
        let mut tokens = vec![format.token()];
        if format != Format::Direct {
            tokens.extend(self.chain(format).into_iter().map(digit_token));
            tokens.push(ANSWER);
        }
        tokens.extend([digit_token(self.answer()), Vocab::EOS]);
        tokens
    }
}

fn running_sums(digits: &[u8]) -> Vec<u8> {
    let sums = digits.iter().scan(0, |sum, &digit| {
        *sum = (*sum + digit) % 10;
        Some(*sum)
    });
    sums.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example of the task's specification.
    #[test]
    fn three_solutions_of_one_problem() {
        let (problem, vocab) = (Problem::new(&[3, 5, 9, 2, 7]), vocab());
        assert_eq!(vocab.decode(&problem.prompt()), "<s> 3 5 9 2 7 _ _ _ =");
        let written = |format| vocab.decode(&problem.solution(format));
        assert_eq!(written(Format::Direct), "A 6 </s>");
        assert_eq!(written(Format::Short), "S 8 9 6 A 6 </s>");
        assert_eq!(written(Format::Full), "T 3 8 7 9 6 A 6 </s>");
    }

    #[test]
    fn an_even_number_of_digits_has_no_odd_last_step() {
        let problem = Problem::new(&[9, 9, 1, 2]);
        assert_eq!(problem.chain(Format::Short), [8, 1]);
        assert_eq!(problem.chain(Format::Full), [9, 8, 9, 1]);
        assert_eq!(problem.answer(), 1);
    }

    #[test]
    fn tokens_are_the_words_they_name() {
        let vocab = vocab();
        for (token, word) in [(EQUALS, "="), (ANSWER, "A"), (SHORT, "S"), (FULL, "T"), (BLANK, "_")] {
            assert_eq!(vocab.word(token), Some(word));
        }
        for digit in 0..10 {
            assert_eq!(vocab.word(digit_token(digit)), Some(digit.to_string().as_str()));
            assert_eq!(token_digit(digit_token(digit)), Some(digit));
        }
        let digits = (0..100).filter(|&token| token_digit(token).is_some()).count();
        assert_eq!(digits, 10);
    }

    #[test]
    fn the_longest_solution_fits_the_model() {
        let longest = Problem::new(&[9; K_MAX]);
        let tokens = PROMPT_LENGTH + longest.solution(Format::Full).len();
        assert_eq!((longest.prompt().len(), tokens), (PROMPT_LENGTH, 22));
        assert!(tokens <= N_POSITIONS);
    }

    #[test]
    fn lengths_and_digits_are_uniform() {
        let mut rng = Rng::new(0);
        let (mut lengths, mut digits) = ([0; K_MAX + 1], [0; 10]);
        for _ in 0..7000 {
            let problem = Problem::sample((K_MIN, K_MAX), &mut rng);
            lengths[problem.digits().len()] += 1;
            digits[usize::from(problem.digits()[0])] += 1;
        }
        assert_eq!(lengths[..K_MIN], [0, 0]);
        assert!(lengths[K_MIN..].iter().all(|n| (900..1100).contains(n)), "{lengths:?}");
        assert!(digits.iter().all(|n| (600..800).contains(n)), "{digits:?}");
    }
}
