//! Text for error messages and logs.

use std::fmt::Display;

/// A count with its noun, as in a sentence; `object` is the singular, whose plural ends in `s`.
///
/// ```
/// use thalweg_tensor::text::counted;
///
/// assert_eq!(counted(1, "input"), "1 input");
/// assert_eq!(counted(0, "input"), "0 inputs");
/// assert_eq!(counted("at least 1", "dimension"), "at least 1 dimension");
/// ```
pub fn counted(number: impl Display, object: &str) -> String {
    let number = number.to_string();
    let plural = match number.rsplit(' ').next() {
        Some("1") => "",
        _ => "s",
    };
    format!("{number} {object}{plural}")
}

/// A number with a comma between each three digits.
///
/// ```
/// use thalweg_tensor::text::grouped;
///
/// assert_eq!(grouped(1_234_567), "1,234,567");
/// assert_eq!(grouped(999), "999");
/// ```
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A text of a stranger as one line: control characters but the tab are escaped, so it cannot look like another line, or
/// command a terminal.
///
/// ```
/// use thalweg_tensor::text::one_line;
///
/// assert_eq!(one_line("a\tb \u{e9}"), "a\tb \u{e9}");
/// assert_eq!(one_line("x\n\u{1b}[2J\r"), "x\\n\\u{1b}[2J\\r");
/// ```
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() && c != '\t' {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}
