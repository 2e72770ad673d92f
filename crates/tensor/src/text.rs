//! Text for error messages.

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
