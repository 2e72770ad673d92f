//! Exit of a task's process.

use std::time::Instant;

/// Exit of a process.
#[derive(Clone, Debug)]
pub(crate) struct ProcessExit {
    /// Exit code: 128 and the signal's number for a process that a signal has ended.
    pub(crate) code: i32,
    pub(crate) at: Instant,
    /// Why nothing more is known, if the process was lost with its host.
    pub(crate) lost: Option<String>,
}
