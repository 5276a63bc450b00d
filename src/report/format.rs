//! Numbers as text, the same in every medium.

/// `x` with `digits` decimals; a value that rounds to zero has no sign.
pub fn fixed(x: f64, digits: usize) -> String {
    let text = format!("{x:.digits$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| c == '0' || c == '.') => rest.to_string(),
        _ => text,
    }
}

/// `x` with `digits` decimals, or a dash where the value does not exist.
pub fn optional(x: Option<f64>, digits: usize) -> String {
    x.map_or_else(|| "–".to_string(), |x| fixed(x, digits))
}

/// A share in whole percent.
pub fn percent(share: f64) -> String {
    format!("{} %", fixed(100.0 * share, 0))
}

/// A small share in percent, to a tenth.
pub fn fine_percent(share: f64) -> String {
    format!("{} %", fixed(100.0 * share, 1))
}

/// `x` with three significant digits where that takes at most six decimals.
pub fn short(x: f64) -> String {
    let magnitude = if x == 0.0 { 0 } else { x.abs().log10().floor() as i32 };
    fixed(x, (2 - magnitude).clamp(0, 6) as usize)
}

/// Both ends of an interval, or a dash where there is none.
pub fn interval(ends: Option<(f64, f64)>) -> String {
    ends.map_or_else(|| "–".to_string(), |(low, high)| format!("{} … {}", short(low), short(high)))
}

/// The shortest text that reads back as `x`, for hyperparameters and axis values.
pub fn plain(x: f64) -> String {
    if x != 0.0 && !(1e-5..1e9).contains(&x.abs()) { format!("{x:e}") } else { format!("{x}") }
}

/// `n` of something, in the plural where there is not one: `count(2, "pair")` is "2 pairs".
pub fn count(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Names in a row: `a`, `a and b`, `a, b and c`.
pub fn enumerate(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).to_string(),
        [names @ .., last] => format!("{} and {last}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_has_no_sign_and_absence_is_a_dash() {
        assert_eq!(fixed(-0.0004, 3), "0.000");
        assert_eq!(fixed(-0.0006, 3), "-0.001");
        assert_eq!(optional(None, 2), "–");
        assert_eq!((percent(0.934), percent(-0.001)), ("93 %".into(), "0 %".into()));
        assert_eq!(enumerate(&["a", "b", "c"]), "a, b and c");
        assert_eq!(
            (enumerate(&["a", "b"]), enumerate(&["a"]), enumerate(&[])),
            ("a and b".into(), "a".into(), String::new())
        );
        assert_eq!(
            [1234.5, 12.34, -0.98765, 0.001234, 1e-9, 0.0].map(short).join(" "),
            "1234 12.3 -0.988 0.00123 0.000000 0.00"
        );
        assert_eq!((interval(Some((0.5, 1.0))), interval(None)), ("0.500 … 1.00".into(), "–".into()));
        assert_eq!(fine_percent(0.0046), "0.5 %");
        assert_eq!((plain(0.05), plain(1e-300), plain(0.0)), ("0.05".into(), "1e-300".into(), "0".into()));
        assert_eq!((count(1, "pair"), count(0, "pair")), ("1 pair".into(), "0 pairs".into()));
    }
}
