//! Numbers that strings represent: decimal ones, infinities, and hexadecimal floats.

use super::length_case_substr::strip;
use super::map_strings::quoted_escaped;

/// A number that a string can represent.
pub(crate) trait FromText: Sized {
    /// The number of a text that has no white space around it.
    fn from_text(text: &str) -> Option<Self>;
}

/// The number that a string represents, with white space around it.
pub(crate) fn parse<T: FromText>(s: &[u8]) -> Result<T, String> {
    let text = std::str::from_utf8(strip(s)).ok();
    let value = text.and_then(T::from_text);
    value.ok_or_else(|| format!("{} is no number of this dtype", quoted_escaped(s)))
}

impl FromText for i32 {
    fn from_text(text: &str) -> Option<i32> {
        text.parse().ok()
    }
}

impl FromText for i64 {
    fn from_text(text: &str) -> Option<i64> {
        text.parse().ok()
    }
}

impl FromText for u32 {
    fn from_text(text: &str) -> Option<u32> {
        text.parse().ok()
    }
}

impl FromText for u64 {
    fn from_text(text: &str) -> Option<u64> {
        text.parse().ok()
    }
}

impl FromText for f32 {
    fn from_text(text: &str) -> Option<f32> {
        // The value has 24 bits already: the cast is exact.
        let hexadecimal = || hexadecimal(text, 24, -149).map(|x| x as f32);
        text.parse().ok().or_else(hexadecimal)
    }
}

impl FromText for f64 {
    fn from_text(text: &str) -> Option<f64> {
        text.parse().ok().or_else(|| hexadecimal(text, 53, -1074))
    }
}

/// Bits of a significand that are kept; one below them stands for all that follow.
const KEPT_BITS: u32 = 60;

/// The value of `[sign]0x[digits][.digits][p[sign]digits]`, rounded to so many bits. The exponent of the last one is
/// `least` or more.
fn hexadecimal(text: &str, bits: u32, least: i64) -> Option<f64> {
    let bytes = text.as_bytes();
    let (sign, rest) = match bytes.first()? {
        b'-' => (-1.0, &bytes[1..]),
        b'+' => (1.0, &bytes[1..]),
        _ => (1.0, bytes),
    };
    let rest = rest
        .strip_prefix(b"0x")
        .or_else(|| rest.strip_prefix(b"0X"))?;
    let end = rest.iter().position(|b| matches!(b, b'p' | b'P'));
    let (digits, power) = rest.split_at(end.unwrap_or(rest.len()));
    let mut exponent: i64 = match power.split_first() {
        Some((_, power)) => decimal_exponent(power)?,
        None => 0,
    };
    let (mut significand, mut more, mut point, mut some) = (0u64, false, false, false);
    for &digit in digits {
        if digit == b'.' && !point {
            point = true;
            continue;
        }
        let value = u64::from((digit as char).to_digit(16)?);
        some = true;
        if significand >> (KEPT_BITS - 4) == 0 {
            significand = significand << 4 | value;
            exponent = exponent.saturating_sub(if point { 4 } else { 0 });
        } else {
            more |= value != 0;
            exponent = exponent.saturating_add(if point { 0 } else { 4 });
        }
    }
    some.then(|| sign * rounded(significand, more, exponent, bits, least))
}

/// The exponent of a power of two; a huge one is cut to a bound far behind the range of numbers.
fn decimal_exponent(text: &[u8]) -> Option<i64> {
    const BOUND: i64 = 1 << 40;
    let (negative, digits) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0i64;
    for &digit in digits {
        let digit = (digit as char).to_digit(10)?;
        value = (value * 10 + i64::from(digit)).min(BOUND);
    }
    Some(if negative { -value } else { value })
}

/// The nearest number to `significand * 2^exponent`, and a bit more than that if `more`; a tie goes to the even one.
fn rounded(significand: u64, more: bool, exponent: i64, bits: u32, least: i64) -> f64 {
    let used = u64::BITS - significand.leading_zeros();
    let dropped = i64::from(used.saturating_sub(bits));
    let dropped = dropped.max(least.saturating_sub(exponent));
    let (mut kept, mut exponent) = (significand, exponent);
    if dropped > i64::from(used) {
        return 0.0;
    }
    if dropped > 0 {
        let half = 1u64 << (dropped - 1);
        let rest = significand & (half | (half - 1));
        kept = significand.checked_shr(dropped as u32).unwrap_or(0);
        let up = rest > half || (rest == half && (more || kept & 1 == 1));
        kept += u64::from(up);
        exponent += dropped;
    }
    if kept == 0 || exponent > 1024 {
        return if kept == 0 { 0.0 } else { f64::INFINITY };
    }
    // Each factor is a normal number, and each product exact.
    let half = exponent / 2;
    kept as f64 * 2f64.powi(half as i32) * 2f64.powi((exponent - half) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_floats_are_rounded_to_the_nearest() {
        // The values are those of strtod and strtof.
        for (text, value) in [
            ("0x1A", 26.0),
            ("-0X1.8p1", -3.0),
            ("+0x.8", 0.5),
            ("0x1.fffffffffffff7", 1.9999999999999998),
            ("0x1.fffffffffffff8", 2.0),
            ("0x1.00000000000008", 1.0),
            ("0x1.000000000000080000001", 1.0000000000000002),
            ("0x1p-1074", 5e-324),
            ("0x1p-1075", 0.0),
            ("0x1.8p-1075", 5e-324),
            ("0x1p99999999999999999999", f64::INFINITY),
            ("0x0p99999999999999999999", 0.0),
            ("0x1p-99999999999999999999", 0.0),
        ] {
            assert_eq!(f64::from_text(text), Some(value), "{text}");
        }
        assert_eq!(f32::from_text("0x1.000001"), Some(1.0));
        assert_eq!(f32::from_text("0x1.0000011"), Some(1.0000001));
        assert_eq!(f32::from_text("0x1p-149"), Some(1e-45));
        assert_eq!(f32::from_text("0x1p128"), Some(f32::INFINITY));
        for text in [
            "0x", "0x.", "0x1p", "0x1p+", "0x1..", "x1", "0xg", "", "-", "0x1 p1",
        ] {
            assert_eq!(f64::from_text(text), None, "{text}");
        }
    }
}
