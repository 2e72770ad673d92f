//! How one step is asked to work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A way to end steps from another thread. Clones cancel the same steps.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// One that has not been used.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Ends every step that was given this, now and later, before the next kernel that would start;
    /// what a GPU was handed runs to its end.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether [`Cancel::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What one step is asked for beside its fetches.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunOptions {
    /// The step ends with [`crate::SessionError::Timeout`] before the first kernel that would start
    /// later; what a GPU was handed runs to its end.
    pub timeout: Option<Duration>,
    /// The step ends with [`crate::SessionError::Cancelled`] once this is cancelled.
    pub cancel: Option<Cancel>,
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

    /// With a way to end the step from another thread.
    pub fn cancelled_by(cancel: &Cancel) -> RunOptions {
        RunOptions {
            cancel: Some(cancel.clone()),
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
