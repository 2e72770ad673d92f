//! StopSignal: Ctrl-C and SIGTERM as a flag that training loops check between steps.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to end the training, which Ctrl-C (SIGINT) and SIGTERM set. [`StopOnSignalHook`] ends a monitored loop then,
/// which saves a last checkpoint when it is closed; other loops check [`StopSignal::is_set`].
///
/// [`StopOnSignalHook`]: crate::hooks::StopOnSignalHook
///
/// ```
/// use thalweg_train::StopSignal;
///
/// # fn main() -> std::io::Result<()> {
/// let stop = StopSignal::catch()?;
/// for _step in 0..1000 {
///     // session.run(train, feeds)?;
/// #   stop.set();
///     if stop.is_set() {
///         break;
///     }
/// }
/// assert!(stop.is_set());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// Catches SIGINT and SIGTERM. The first one is noted. After it, a second one ends the process at once, with 128 and
    /// the signal's number as its status.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn catch() -> io::Result<StopSignal> {
        let stop = StopSignal::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // Handlers run in the order of their registration: this one sees the flag of an earlier signal.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.0.clone())?;
            signal_hook::flag::register(signal, stop.0.clone())?;
        }
        Ok(stop)
    }

    /// `true` once a signal came, or [`StopSignal::set`] was called.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Requests the end as a signal does.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
