//! Window of the lines that are sent before the launcher has taken them.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::protocol::LINE_WINDOW;

/// Number of bytes that may be sent.
pub(super) struct Window {
    free: Mutex<usize>,
    grown: Condvar,
}

impl Default for Window {
    fn default() -> Window {
        Window {
            free: Mutex::new(LINE_WINDOW),
            grown: Condvar::new(),
        }
    }
}

impl Window {
    /// Takes so many bytes, at most the whole window, and waits until they are free.
    pub(super) fn take(&self, bytes: usize) {
        let bytes = bytes.min(LINE_WINDOW);
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.grown.wait_while(free, |free| *free < bytes);
        *waited.unwrap_or_else(PoisonError::into_inner) -= bytes;
    }

    /// Gives bytes back that the launcher has taken.
    pub(super) fn give(&self, bytes: usize) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        *free = free.saturating_add(bytes).min(LINE_WINDOW);
        self.grown.notify_all();
    }
}
