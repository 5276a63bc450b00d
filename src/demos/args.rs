//! Parsing of hyperparameters: every number is checked for its domain where it is typed.

use std::ops::RangeInclusive;

use clap::{ArgMatches, Args, Command, FromArgMatches};

/// Parses a number within `range`; what is not a number, NaN or outside is an error that says what
/// is allowed. Zero has no sign: −0 is read as 0.
pub fn number(range: RangeInclusive<f64>) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| match text.trim().parse::<f64>() {
        Ok(value) if range.contains(&value) => Ok(value + 0.0),
        _ => Err(format!("expected a number from {} to {}", range.start(), range.end())),
    }
}

/// Parses a whole number within `range`, in digits.
pub fn count(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| match text.trim().parse::<u64>() {
        Ok(value) if range.contains(&value) => Ok(value),
        _ => Err(format!("expected a whole number from {} to {}", range.start(), range.end())),
    }
}

/// The numbers of a list in increasing order, each once.
pub fn ascending(numbers: &[u64]) -> Vec<u64> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The values that `A`'s flags have when none is given.
pub fn defaults<A: Args + FromArgMatches>() -> A {
    let command = A::augment_args(Command::new("defaults").no_binary_name(true));
    let parse = |matches: ArgMatches| A::from_arg_matches(&matches);
    command
        .try_get_matches_from(std::iter::empty::<&str>())
        .and_then(parse)
        .expect("every flag has a default within its own domain, as the tests of each demo show")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_their_domain_are_errors() {
        let beta = number(1e-6..=1e6);
        for bad in ["0", "-0", "-1", "nan", "inf", "-inf", "1e7", "", "x", "0.5x"] {
            assert!(beta(bad).is_err(), "{bad:?} was accepted");
        }
        assert_eq!(beta(" 0.5 "), Ok(0.5));
        assert!(number(0.0..=1.0)("-0").is_ok_and(f64::is_sign_positive));
        let pairs = count(1..=1000);
        for bad in ["0", "-1", "1.0", "1e3", "1001", "99999999999999999999", ""] {
            assert!(pairs(bad).is_err(), "{bad:?} was accepted");
        }
        assert_eq!(pairs(" 10 "), Ok(10));
    }
}
