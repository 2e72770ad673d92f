//! Output that ignores write errors. `println!` panics where it cannot write, as on a full disk; a training should go
//! on.

use std::fmt::Display;
use std::io::{Write, stderr, stdout};

/// Writes a line to standard output; ignores errors.
pub fn line(line: impl Display) {
    let _ = stdout().write_all(format!("{line}\n").as_bytes());
}

/// Writes a line to standard error; ignores errors.
pub fn error(line: impl Display) {
    let _ = stderr().write_all(format!("{line}\n").as_bytes());
}
