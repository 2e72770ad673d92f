//! One step at a time.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often somebody who waits looks whether it still should.
const LOOK: Duration = Duration::from_millis(5);

/// Lets one step at a time have a device: its memory and its variables are then that step's alone.
#[derive(Debug, Default)]
pub struct Turns {
    taken: Mutex<bool>,
    free: Condvar,
}

/// A turn, which ends when this is dropped.
#[derive(Debug)]
pub struct Turn<'a>(&'a Turns);

impl Turns {
    /// Waits for a turn until `deadline`, and while `go_on` says so; `None` where it did not come.
    pub fn take(&self, deadline: Option<Instant>, go_on: &dyn Fn() -> bool) -> Option<Turn<'_>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken {
            if !go_on() || deadline.is_some_and(|d| Instant::now() >= d) {
                return None;
            }
            let waited = self.free.wait_timeout(taken, LOOK);
            taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *taken = true;
        Some(Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut taken = self.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        *taken = false;
        self.0.free.notify_one();
    }
}
