//! What the examples say. `println!` panics where it cannot write, as on a full disk; a training is worth more than its
//! lines, and goes on.

use std::fmt::Display;
use std::io::{Write, stderr, stdout};

/// Writes a line to standard output, if that can be.
pub fn line(line: impl Display) {
    let _ = stdout().write_all(format!("{line}\n").as_bytes());
}

/// Writes a line to standard error, if that can be.
pub fn error(line: impl Display) {
    let _ = stderr().write_all(format!("{line}\n").as_bytes());
}
