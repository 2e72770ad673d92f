//! A flag that Ctrl-C sets, for training loops to check between steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set once the user has asked the program to end.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Listens for Ctrl-C. The first one is noted; a second one ends the process at
    /// once, with the status 130 that shells use for it.
    ///
    /// # Errors
    /// When the system refuses a handler, or when there is one: call it once a process.
    pub fn on_ctrl_c() -> Result<Self, ctrlc::Error> {
        let stop = Stop::default();
        let noted = stop.clone();
        ctrlc::set_handler(move || {
            if noted.0.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        })?;
        Ok(stop)
    }

    /// `true` once Ctrl-C was pressed.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
