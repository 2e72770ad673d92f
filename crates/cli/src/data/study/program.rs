//! One run of the measured program.

use std::path::Path;
use std::process::Command;

use thalweg_launch::program_path;
use thalweg_study::Speed;

use super::page_cache::bytes_read_by_children;
use crate::failure::Failure;

/// Lines of a failed program that are shown.
const SHOWN_LINES: usize = 5;

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measurement {
    pub(super) speed: Speed,
    /// Bytes that the program read from disk, if the system tells.
    pub(super) disk_bytes: Option<u64>,
}

/// Runs the program with the images of a folder, or with its own.
///
/// # Errors
/// The program cannot be started, fails, or prints no speed.
pub(super) fn measure(command: &[String], folder: Option<&Path>) -> Result<Measurement, Failure> {
    let before = bytes_read_by_children();
    let mut child = Command::new(program_path(&command[0]));
    child.args(&command[1..]);
    if let Some(folder) = folder {
        child.arg(format!("--data_dir={}", folder.display()));
    }
    let done = child.output();
    let done = done.map_err(|e| format!("{}: {e}: the program cannot be started", command[0]))?;
    let shown = || format!("{child:?}").replace('"', "");
    if !done.status.success() {
        let errors = String::from_utf8_lossy(&done.stderr);
        let lines: Vec<&str> = errors.lines().collect();
        let last = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
        return Err(format!("{}: {}\n{last}", shown(), done.status).into());
    }
    let speed = Speed::of_output(&String::from_utf8_lossy(&done.stdout))
        .ok_or_else(|| format!("{}: it printed no line `total images/sec: N`", shown()))?;
    let disk_bytes = bytes_read_by_children()
        .zip(before)
        .map(|(after, before)| after.saturating_sub(before));
    Ok(Measurement { speed, disk_bytes })
}
