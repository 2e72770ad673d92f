//! Units of settings: bytes, counts and times, as text and as numbers.

use thiserror::Error;

/// Unit of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, written as `512MiB` or as a number.
    Bytes,
    /// A count, written as a number.
    Count,
    /// Time, written as `4h`, `90s` or `250ms`.
    Time,
}

/// Error of a text that is no number of this unit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{text}' is no {}", match .unit {
    Unit::Bytes => "number of bytes: write 1000000, 512MiB or 4GiB",
    Unit::Count => "count: write a number",
    Unit::Time => "time: write 250ms, 90s, 5min or 4h",
})]
pub struct NoNumber {
    /// The text.
    pub text: String,
    /// The expected unit.
    pub unit: Unit,
}

/// Suffixes of numbers, with their factors in bytes or milliseconds; the largest first.
const BYTES: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
    ("", 1),
];
const TIMES: &[(&str, u64)] = &[
    ("h", 3_600_000),
    ("min", 60_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];
const COUNTS: &[(&str, u64)] = &[("", 1)];

impl Unit {
    fn suffixes(self) -> &'static [(&'static str, u64)] {
        match self {
            Unit::Bytes => BYTES,
            Unit::Count => COUNTS,
            Unit::Time => TIMES,
        }
    }

    pub(crate) fn read(self, text: &str) -> Result<u64, NoNumber> {
        let wrong = || NoNumber {
            text: text.to_owned(),
            unit: self,
        };
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '_');
        let (digits, suffix) = text.split_at(end.unwrap_or(text.len()));
        let number: u64 = digits.replace('_', "").parse().map_err(|_| wrong())?;
        let known = self.suffixes().iter().find(|(s, _)| *s == suffix.trim());
        let (_, factor) = known.ok_or_else(wrong)?;
        number.checked_mul(*factor).ok_or_else(wrong)
    }

    pub(crate) fn written(self, value: u64) -> String {
        let whole = |(_, factor): &&(&str, u64)| value.is_multiple_of(*factor) && value >= *factor;
        match self.suffixes().iter().find(whole) {
            Some((suffix, factor)) => format!("{}{suffix}", value / factor),
            None => match self {
                Unit::Time => "0s".to_owned(),
                Unit::Bytes | Unit::Count => value.to_string(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_formatted_as_it_is_parsed() {
        for (unit, text, number) in [
            (Unit::Bytes, "3MiB", 3 << 20),
            (Unit::Bytes, "1000", 1000),
            (Unit::Bytes, "0", 0),
            (Unit::Count, "12", 12),
            (Unit::Time, "90s", 90_000),
            (Unit::Time, "250ms", 250),
            (Unit::Time, "0s", 0),
        ] {
            assert_eq!(unit.read(text), Ok(number), "{text}");
            let written = unit.written(number);
            assert_eq!(unit.read(&written), Ok(number), "{written}");
        }
        for (unit, wrong) in [
            (Unit::Bytes, "-1"),
            (Unit::Bytes, "1 parsec"),
            (Unit::Count, "1KiB"),
            (Unit::Count, ""),
            (Unit::Time, "10"),
            (Unit::Bytes, "99999999999999999TiB"),
        ] {
            assert!(unit.read(wrong).is_err(), "{wrong}");
        }
    }
}
