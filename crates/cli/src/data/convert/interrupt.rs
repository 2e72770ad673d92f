//! Signals that ask a conversion to stop: it removes what it has written, and ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that SIGINT and SIGTERM set. A second signal ends the process at once.
///
/// # Errors
/// The system takes no handler.
#[cfg(unix)]
pub(super) fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag;

    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Handlers run in this order: the first signal finds the flag not set.
        flag::register_conditional_shutdown(signal, 1, stop.clone())?;
        flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// A flag that stays as it is.
#[cfg(not(unix))]
pub(super) fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    Ok(Arc::default())
}
