//! Parsing of hyperparameters: every number is checked for its domain where it is typed.

use std::ops::RangeInclusive;

use clap::builder::RangedU64ValueParser;
use clap::{ArgMatches, Args, Command, FromArgMatches};

/// Parses a number within `range`; what is not a number, NaN or outside is an error that says what
/// is allowed.
pub fn number(range: RangeInclusive<f64>) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| {
        let (low, high) = (range.start(), range.end());
        match text.trim().parse::<f64>() {
            Ok(value) if range.contains(&value) => Ok(value),
            _ if *high == f64::INFINITY => Err(format!("expected a number of at least {low}")),
            _ => Err(format!("expected a number from {low} to {high}")),
        }
    }
}

/// Parses a whole number within `range`.
pub fn count(range: RangeInclusive<u64>) -> RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(range)
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
        for bad in ["0", "-1", "nan", "inf", "-inf", "1e7", "", "x", "0.5x"] {
            assert!(beta(bad).is_err(), "{bad:?} was accepted");
        }
        assert_eq!(beta(" 0.5 "), Ok(0.5));
        assert_eq!(number(0.0..=f64::INFINITY)("inf"), Ok(f64::INFINITY));
    }
}
