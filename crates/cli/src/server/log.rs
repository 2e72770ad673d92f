//! Log of a server, on standard error.

use std::io::stderr;

use tracing::Level;
use tracing_subscriber::fmt;

use super::log_queue::LogQueue;
use super::server_args::ServerArgs;
use crate::failure::Failure;

/// Starts the log with the level and the format of the arguments; returns the queue of its lines.
///
/// # Errors
/// The level or the format is unknown.
pub fn start(args: &ServerArgs) -> Result<LogQueue, Failure> {
    let queue = LogQueue::writing_to(stderr())?;
    let level = match args.text("log_level").unwrap_or("info") {
        "off" => return Ok(queue),
        "error" => Level::ERROR,
        "warn" => Level::WARN,
        "info" => Level::INFO,
        "debug" => Level::DEBUG,
        "trace" => Level::TRACE,
        other => {
            let text = format!("'{other}' is none of off, error, warn, info, debug and trace");
            return Err(args.invalid("log_level", &text));
        }
    };
    let log = fmt().with_max_level(level).with_writer(queue.clone());
    // Without this it panics if standard error cannot be written.
    let log = log.log_internal_errors(false);
    let started = match args.text("log_format").unwrap_or("text") {
        "text" => log.with_ansi(false).try_init(),
        "json" => log.json().flatten_event(true).try_init(),
        other => {
            let text = format!("'{other}' is neither text nor json");
            return Err(args.invalid("log_format", &text));
        }
    };
    match started {
        Ok(()) => Ok(queue),
        Err(e) => Err(format!("no log: {e}").into()),
    }
}
