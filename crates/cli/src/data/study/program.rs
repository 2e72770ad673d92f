//! One run of the measured program.

use std::path::Path;
use std::process::Command;

use thalweg_launch::program_path;

use super::page_cache::bytes_read_by_children;
use crate::failure::Failure;

/// Lines of a failed program that are shown.
const SHOWN_LINES: usize = 5;

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measurement {
    pub(super) images_per_second: f64,
    /// Share of the time in which steps waited for input, if the program tells.
    pub(super) waited: Option<f64>,
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
    let (images_per_second, waited) = parse(&String::from_utf8_lossy(&done.stdout))
        .ok_or_else(|| format!("{}: it printed no line `total images/sec: N`", shown()))?;
    let disk_bytes = bytes_read_by_children()
        .zip(before)
        .map(|(after, before)| after.saturating_sub(before));
    Ok(Measurement {
        images_per_second,
        waited,
        disk_bytes,
    })
}

/// Images per second, and the share of the time in which steps waited for input.
fn parse(output: &str) -> Option<(f64, Option<f64>)> {
    let after = |start: &str| {
        let mut values = output.lines().filter_map(|line| line.strip_prefix(start));
        values.next_back()
    };
    let speed = after("total images/sec: ")?.trim().parse::<f64>().ok()?;
    let waited = after("waited for input: ").and_then(|text| {
        let percent = text.split_once('%')?.0.parse::<f64>().ok()?;
        Some(percent / 100.0)
    });
    (speed.is_finite() && speed > 0.0).then_some((speed, waited))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn speed_and_wait_come_from_the_last_lines_of_the_output() {
        let line = "----\ntotal images/sec: 54.75\n----\n";
        assert_eq!(parse(line), Some((54.75, None)));
        let text = format!("{line}waited for input: 0.1% of the time (4 files, 1 thread)\n");
        assert_eq!(parse(&text), Some((54.75, Some(0.001))));
        for wrong in [
            "",
            "total images/sec: nan",
            "total images/sec: 0",
            "total images/sec: x",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
