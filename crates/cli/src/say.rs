//! What the program says: the one place that writes to standard output and standard error. `println!` panics where they
//! cannot be written, as on a full disk.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::Failure;

/// Writes a text to standard output.
///
/// # Errors
/// It cannot be written. A reader that has seen enough (`head`) is no failure.
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

/// Writes a line to standard error. Where it cannot be written, nobody is left to tell.
pub(crate) fn error(line: impl Display) {
    let _ = stderr().write_all(format!("{line}\n").as_bytes());
}

/// As [`error`], and gives up where nobody reads it for so long.
pub(crate) fn error_within(limit: Duration, line: impl Display) {
    let line = line.to_string();
    let (sender, said) = channel();
    std::thread::spawn(move || {
        error(line);
        sender.send(())
    });
    // An error is a line that nobody has read.
    let _ = said.recv_timeout(limit);
}
