//! The program, as a test calls it.

#![allow(dead_code, reason = "each of the tests uses a part")]

#[path = "../../../../tests/support/folders.rs"]
mod folders;
pub mod served;

use std::process::{Command, Output};

pub use folders::Folder;

/// Runs the program.
pub fn thalweg(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(arguments).output().unwrap()
}

/// What it says where nothing is wrong.
#[track_caller]
pub fn works(arguments: &[&str]) -> String {
    let output = thalweg(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// What it says where something is.
#[track_caller]
pub fn fails(arguments: &[&str]) -> String {
    let output = thalweg(arguments);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    let said = text.starts_with("error: ") && !text.contains("panicked");
    assert!(said, "{text}");
    text
}
