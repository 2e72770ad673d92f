//! Output: all writes to standard output and standard error. `println!` panics if they cannot be written, as on a full disk.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::failure::Failure;

/// Writes a text to standard output.
///
/// # Errors
/// The text cannot be written. A reader that has closed its end (`head`) is no failure.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(format!("standard output: {e}").into()),
        _ => Ok(()),
    }
}

/// Writes a line to standard output.
///
/// # Errors
/// As [`text`].
pub(crate) fn line(line: impl Display) -> Result<(), Failure> {
    text(&format!("{line}\n"))
}

/// Writes a line to standard error, and ignores errors.
pub(crate) fn error(line: impl Display) {
    let _ = stderr().write_all(format!("{line}\n").as_bytes());
}

/// Writes a line as [`error`] does, and gives up after a time without a reader.
pub(crate) fn error_within(limit: Duration, line: impl Display) {
    let line = line.to_string();
    let (sender, written) = channel();
    std::thread::spawn(move || {
        error(line);
        sender.send(())
    });
    // An error is a line without a reader.
    let _ = written.recv_timeout(limit);
}
