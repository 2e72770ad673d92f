//! Tickets: identify a node that waits, and wake it.
//!
//! A kernel that cannot go on keeps a ticket. The code that makes it possible wakes it:
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use thalweg_device::Ticket;
//!
//! let woken = Arc::new(AtomicBool::new(false));
//! let flag = woken.clone();
//! let ticket = Ticket::new(7, move || flag.store(true, Ordering::Relaxed));
//! ticket.wake();
//! assert!(woken.load(Ordering::Relaxed));
//! ```

use std::fmt;
use std::sync::Arc;

/// A node that could not go on: told from all others, and woken when it may.
#[derive(Clone)]
pub struct Ticket {
    number: u64,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Ticket {
    /// One with this number, which calls `wake`, from any thread, perhaps more than once.
    pub fn new(number: u64, wake: impl Fn() + Send + Sync + 'static) -> Ticket {
        Ticket {
            number,
            wake: Arc::new(wake),
        }
    }

    /// What tells it from all others of the process.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Lets the node run again.
    pub fn wake(&self) {
        (self.wake)();
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.number)
    }
}
