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

/// The identity of a blocked node, by which it is woken when it may go on.
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

    /// Returns its number, unique in the process.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn every_copy_of_a_ticket_wakes_the_same_node_as_often_as_it_is_asked() {
        let woken = Arc::new(AtomicU32::new(0));
        let count = woken.clone();
        let ticket = Ticket::new(7, move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let copy = ticket.clone();
        ticket.wake();
        copy.wake();
        copy.wake();
        assert_eq!((copy.number(), woken.load(Ordering::Relaxed)), (7, 3));
        assert_eq!(format!("{copy:?}"), "Ticket(7)");
    }
}
