//! The log of a server, on standard error.

use std::io::stderr;

use tracing::Level;
use tracing_subscriber::fmt;

use super::said::Said;
use crate::Failure;

/// Writes from now on what the settings ask for.
///
/// # Errors
/// A level or a format that is none.
pub fn start(said: &Said) -> Result<(), Failure> {
    let level = match said.text("log_level").unwrap_or("info") {
        "off" => return Ok(()),
        "error" => Level::ERROR,
        "warn" => Level::WARN,
        "info" => Level::INFO,
        "debug" => Level::DEBUG,
        "trace" => Level::TRACE,
        other => {
            let text = format!("'{other}' is none of off, error, warn, info, debug and trace");
            return Err(said.wrong("log_level", &text));
        }
    };
    let log = fmt().with_max_level(level).with_writer(stderr);
    // It panics where standard error cannot be written.
    let log = log.log_internal_errors(false);
    let started = match said.text("log_format").unwrap_or("text") {
        "text" => log.with_ansi(false).try_init(),
        "json" => log.json().flatten_event(true).try_init(),
        other => {
            let text = format!("'{other}' is neither text nor json");
            return Err(said.wrong("log_format", &text));
        }
    };
    started.map_err(|e| format!("no log: {e}").into())
}
