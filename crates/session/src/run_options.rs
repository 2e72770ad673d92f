//! Options of one step: timeout, cancellation, trace, checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Cancels steps from another thread. Clones cancel the same steps.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_session::{Cancel, RunOptions, Session, SessionError};
///
/// # fn main() -> Result<(), SessionError> {
/// let g = Graph::new();
/// let n = g.constant(0i64);
/// // A loop that never ends.
/// let endless = g.while_loop(&[n], |b, _| b.constant(true), |b, v| vec![v[0] + b.constant(1i64)]);
/// let session = Session::new(&g)?;
///
/// let cancel = Cancel::new();
/// let options = RunOptions::new().cancelled_by(&cancel);
/// let ended = std::thread::scope(|threads| {
///     threads.spawn(|| cancel.cancel());
///     session.step_with(endless[0], [], &options)
/// });
/// assert!(matches!(ended, Err(SessionError::Cancelled { .. })));
/// # Ok(())
/// # }
/// # use thalweg_ops::FlowOps;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A new flag, not cancelled.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Ends every step that has this in its options, now and later, before the next kernel that would start; commands
    /// already submitted to a GPU run to their end.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// `true` once [`Cancel::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Options of one step.
///
/// ```
/// use std::time::Duration;
///
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, SourceOps};
/// use thalweg_session::{Feeding, RunOptions, Session, SessionError};
/// use thalweg_tensor::DType;
///
/// # fn main() -> Result<(), SessionError> {
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, []);
/// let y = x.log().named("y");
/// let session = Session::new(&g)?;
///
/// let options = RunOptions::new().timeout(Duration::from_secs(60)).checked();
/// assert!(session.step_with(y, [x.feed(1.0f32)], &options).is_ok());
/// // The logarithm of zero is minus infinity.
/// let error = session.step_with(y, [x.feed(0.0f32)], &options).unwrap_err();
/// assert!(matches!(error, SessionError::NotFinite { op, .. } if op == "Log"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    timeout: Option<Duration>,
    cancel: Option<Cancel>,
    trace: bool,
    pub(crate) check_finite: bool,
    /// `true` if the step has entered the gates of its variables: see [`crate::PartPlan::try_enter`].
    pub(crate) entered_gates: bool,
}

impl RunOptions {
    /// The defaults: no limit, no trace.
    pub fn new() -> RunOptions {
        RunOptions::default()
    }

    /// With a limit on the step's time, or without one. The step ends with [`crate::SessionError::Timeout`] before the
    /// first kernel that would start later; commands already submitted to a GPU run to their end.
    pub fn timeout(self, limit: impl Into<Option<Duration>>) -> RunOptions {
        RunOptions {
            timeout: limit.into(),
            ..self
        }
    }

    /// With a flag that ends the step from another thread, with [`crate::SessionError::Cancelled`].
    pub fn cancelled_by(self, cancel: &Cancel) -> RunOptions {
        RunOptions {
            cancel: Some(cancel.clone()),
            ..self
        }
    }

    /// With a trace.
    pub fn traced(self) -> RunOptions {
        RunOptions {
            trace: true,
            ..self
        }
    }

    /// With a check of every value: the first that is not finite ends the step with [`crate::SessionError::NotFinite`].
    pub fn checked(self) -> RunOptions {
        RunOptions {
            check_finite: true,
            ..self
        }
    }

    /// The limit on the step's time.
    pub fn time_limit(&self) -> Option<Duration> {
        self.timeout
    }

    /// The flag that ends the step from another thread.
    pub fn cancel(&self) -> Option<&Cancel> {
        self.cancel.as_ref()
    }

    /// `true` if the step has a trace.
    pub fn is_traced(&self) -> bool {
        self.trace
    }
}
