//! How sessions and steps are asked to work.

use std::time::Duration;

/// How a session works.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionOptions {
    /// Threads of the CPU device, the calling one among them; 0 stands for as many as the machine
    /// runs at once.
    pub threads: usize,
    /// The most plans that are kept; the one that was not used for longest goes first.
    pub plans: usize,
    /// Whether constants are folded and equal nodes shared. Off, a step runs the graph as built.
    pub optimise: bool,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            threads: 0,
            plans: 64,
            optimise: true,
        }
    }
}

impl SessionOptions {
    /// The defaults with this many threads.
    pub fn with_threads(threads: usize) -> SessionOptions {
        SessionOptions {
            threads,
            ..SessionOptions::default()
        }
    }
}

/// What one step is asked for beside its fetches.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunOptions {
    /// The step ends with [`crate::SessionError::Timeout`] before the first kernel that would start later.
    pub timeout: Option<Duration>,
    /// Whether to record what ran when.
    pub trace: bool,
    /// Whether to look at every value: the first that is not finite ends the step with
    /// [`crate::SessionError::NotFinite`].
    pub check_finite: bool,
}

impl RunOptions {
    /// With a limit on the step's time.
    pub fn timeout(limit: Duration) -> RunOptions {
        RunOptions {
            timeout: Some(limit),
            ..RunOptions::default()
        }
    }

    /// With a trace.
    pub fn traced() -> RunOptions {
        RunOptions {
            trace: true,
            ..RunOptions::default()
        }
    }

    /// With a look at every value.
    pub fn checked() -> RunOptions {
        RunOptions {
            check_finite: true,
            ..RunOptions::default()
        }
    }
}
