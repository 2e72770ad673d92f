//! Timeouts of a task's calls to its peers.

use std::time::Duration;

/// Timeouts of calls to other tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub(crate) connect: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) worker_rejoin: Duration,
    pub(crate) server_recovery: Duration,
}

impl Timeouts {
    /// The defaults.
    pub fn new() -> Timeouts {
        Timeouts::default()
    }

    /// Returns timeouts without numbers: the table of settings gives each its default.
    pub(super) fn zero() -> Timeouts {
        Timeouts {
            connect: Duration::ZERO,
            heartbeat: Duration::ZERO,
            worker_rejoin: Duration::ZERO,
            server_recovery: Duration::ZERO,
        }
    }

    /// Sets the time for a session to reach a task for the first time: tasks start in any order.
    pub fn connect(self, connect: Duration) -> Timeouts {
        Timeouts { connect, ..self }
    }

    /// Sets the time without a sign of life after which a task that has work is taken for lost.
    pub fn heartbeat(self, heartbeat: Duration) -> Timeouts {
        Timeouts { heartbeat, ..self }
    }

    /// Sets the time for a worker that is away to come back, before the training goes on without it.
    pub fn worker_rejoin(self, worker_rejoin: Duration) -> Timeouts {
        Timeouts {
            worker_rejoin,
            ..self
        }
    }

    /// Sets the time for lost servers to come back in synchronous training.
    pub fn server_recovery(self, server_recovery: Duration) -> Timeouts {
        Timeouts {
            server_recovery,
            ..self
        }
    }
}
