//! Numbers formatted like C's `printf`.

use std::fmt::{self, Write};

/// Format of a floating-point number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `%f`.
    Fixed,
    /// `%e`.
    Scientific,
    /// `%g`.
    Shortest,
}

/// Formats a number without a width; the default `precision` is 6.
pub(super) fn float(x: f64, style: Style, precision: Option<usize>) -> String {
    let mut text = String::new();
    // A string takes any text.
    let _ = write_float(&mut text, x, style, precision);
    text
}

/// As [`float`], at the end of a text.
pub(super) fn write_float(
    to: &mut String,
    x: f64,
    style: Style,
    precision: Option<usize>,
) -> fmt::Result {
    if !x.is_finite() {
        let sign = if x < 0.0 { "-" } else { "" };
        return write!(to, "{sign}{}", if x.is_nan() { "nan" } else { "inf" });
    }
    let precision = precision.unwrap_or(6);
    match style {
        Style::Fixed => write!(to, "{x:.precision$}"),
        Style::Scientific => to.write_str(&scientific(x, precision)),
        Style::Shortest => to.write_str(&shortest(x, precision)),
    }
}

/// `%g`.
fn shortest(x: f64, precision: usize) -> String {
    let digits = precision.max(1);
    let long = scientific(x, digits - 1);
    let exponent = long.rsplit('e').next().and_then(|e| e.parse::<i64>().ok());
    match exponent {
        Some(e) if e >= -4 && e < digits as i64 => {
            let places = (digits as i64 - 1 - e).max(0) as usize;
            strip_trailing_zeros(&format!("{x:.places$}"))
        }
        _ => match long.split_once('e') {
            Some((number, e)) => format!("{}e{e}", strip_trailing_zeros(number)),
            None => long,
        },
    }
}

/// `%e`: the exponent has a sign and at least two digits.
fn scientific(x: f64, precision: usize) -> String {
    let text = format!("{x:.precision$e}");
    match text.split_once('e') {
        Some((number, exponent)) => {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent),
            };
            format!("{number}e{sign}{digits:0>2}")
        }
        None => text,
    }
}

fn strip_trailing_zeros(number: &str) -> String {
    match number.contains('.') {
        true => number
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
        false => number.to_owned(),
    }
}

/// Width and flag of a conversion: `%010d`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FieldFormat {
    pub(super) width: usize,
    pub(super) flag: Option<char>,
}

impl FieldFormat {
    /// `true` if it pads nothing.
    pub(super) fn is_plain(self) -> bool {
        self.width == 0 && self.flag.is_none()
    }

    /// Pads a formatted number.
    pub(super) fn number(self, text: String) -> String {
        if self.is_plain() {
            return text;
        }
        let signed = text.starts_with('-');
        let text = match self.flag {
            Some('+') if !signed => format!("+{text}"),
            Some(' ') if !signed => format!(" {text}"),
            _ => text,
        };
        let finite = text.bytes().any(|b| b.is_ascii_digit());
        match self.flag {
            Some('0') if finite => {
                let (sign, digits) = text.split_at(usize::from(signed));
                let width = self.width.saturating_sub(sign.len());
                format!("{sign}{digits:0>width$}")
            }
            _ => self.text(text),
        }
    }

    /// Pads text.
    pub(super) fn text(self, text: String) -> String {
        let width = self.width;
        match self.flag {
            Some('-') => format!("{text:<width$}"),
            _ => format!("{text:>width$}"),
        }
    }
}

/// Formats an `f32` with as many digits as are needed to read it back, like TensorFlow's messages: 6, or 9.
pub(super) fn round_trip_f32(x: f32) -> String {
    let short = float(f64::from(x), Style::Shortest, Some(6));
    match short.parse::<f32>() {
        Ok(read) if read == x || x.is_nan() => short,
        _ => float(f64::from(x), Style::Shortest, Some(9)),
    }
}

/// Like [`round_trip_f32`], for an `f64`: 15 digits, or 17.
pub(super) fn round_trip_f64(x: f64) -> String {
    let short = float(x, Style::Shortest, Some(15));
    match short.parse::<f64>() {
        Ok(read) if read == x || x.is_nan() => short,
        _ => float(x, Style::Shortest, Some(17)),
    }
}
