//! Runs the `thalweg` program for tests, and returns its output or its error message.

#![allow(dead_code, reason = "each of the tests uses a part")]

#[cfg(target_os = "linux")]
pub mod fake_ssh;
#[path = "../../../../tests/support/folders.rs"]
mod folders;
pub mod server_process;

use std::process::{Command, Output};

pub use folders::Folder;

/// Runs the program.
pub fn thalweg(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(arguments).output().unwrap()
}

/// Runs the program successfully, and returns its output.
#[track_caller]
pub fn works(arguments: &[&str]) -> String {
    let output = thalweg(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the program into an error, and returns its message.
#[track_caller]
pub fn fails(arguments: &[&str]) -> String {
    let output = thalweg(arguments);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    let said = text.starts_with("error: ") && !text.contains("panicked");
    assert!(said, "{text}");
    text
}
