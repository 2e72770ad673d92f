//! Traces of the ranks of a job, merged into one file.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{LaunchError, Result};

/// File to which a rank writes its trace.
pub(crate) fn rank_trace(path: &Path, rank: usize) -> PathBuf {
    PathBuf::from(format!("{}.{rank}", path.display()))
}

/// Checks that the merged trace can be written, before its job runs. An existing file is left as it is.
///
/// # Errors
/// The file cannot be opened.
pub(crate) fn check_trace(path: &Path) -> Result<()> {
    let is_new = !path.exists();
    let opened = fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|e| {
        LaunchError::of_attempt(e, |e| {
            let text = format!(
                "--trace {}: {e}: give a file of a folder that is there",
                path.display()
            );
            LaunchError::Argument(text)
        })
    })?;
    if is_new {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Merges the traces of the ranks into one, and removes them. One that cannot be read is left out, and stays, with a line in
/// `messages`.
///
/// # Errors
/// No rank has written a trace, or the merged one cannot be written.
pub(crate) fn merge_traces(path: &Path, ranks: usize, messages: &mut Vec<String>) -> Result<()> {
    let failed = |path: &Path, e: &dyn Display| format!("{}: {e}", path.display());
    let mut lines = Vec::new();
    let mut parts = Vec::new();
    for part in (0..ranks).map(|rank| rank_trace(path, rank)) {
        // The rank has not come so far, runs on another host, or is no program of ours.
        let Ok(text) = fs::read(&part) else {
            continue;
        };
        match serde_json::from_slice::<Vec<serde_json::Value>>(&text) {
            Ok(events) => {
                lines.extend(events.iter().map(ToString::to_string));
                parts.push(part);
            }
            Err(e) => messages.push(format!("left out of the trace: {}", failed(&part, &e))),
        }
    }
    if parts.is_empty() {
        let text = failed(path, &"no rank of this host has written a trace");
        return Err(LaunchError::Argument(text));
    }
    fs::write(path, format!("[\n{}\n]\n", lines.join(",\n"))).map_err(|e| failed(path, &e))?;
    for part in parts {
        // Its events are in the merged trace.
        let _ = fs::remove_file(part);
    }
    Ok(())
}
