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

/// The errors of a program that did not panic.
#[track_caller]
pub fn errors(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(!text.contains("panicked"), "{text}");
    text
}

/// The output of a program that has succeeded.
#[track_caller]
pub fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// `true` if the tests were started with a signal ignored, as `nohup` and a shell's `&` do.
pub fn ignores(signal: u32) -> bool {
    let told = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = told.lines();
    let line = lines.find_map(|l| l.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap() >> (signal - 1) & 1 != 0
}
