//! A fair (FIFO) lock of a GPU: it admits one step at a time, with a deadline.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use thalweg_tensor::sync::Unpoisoned;

/// Time between two checks whether a waiting step should still wait.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Lets one step at a time have a device, in the order in which they ask: its memory and its
/// variables are then that step's alone.
#[derive(Debug, Default)]
pub struct Turns {
    line: Mutex<TurnQueue>,
    next: Condvar,
}

#[derive(Debug, Default)]
struct TurnQueue {
    /// The number of the next step that asks.
    last: u64,
    /// The number of the step whose turn it is.
    now: u64,
    /// Steps that have left before their turn.
    gone: BTreeSet<u64>,
}

impl TurnQueue {
    fn advance(&mut self) {
        self.now += 1;
        while self.gone.remove(&self.now) {
            self.now += 1;
        }
    }
}

/// A turn, which ends when this is dropped.
#[derive(Debug)]
pub struct Turn<'a>(&'a Turns);

impl Turns {
    fn line(&self) -> MutexGuard<'_, TurnQueue> {
        self.line.lock().unpoisoned()
    }

    /// Waits for a turn until `deadline`, and while `go_on` returns true; `None` where it did not come.
    pub fn take(&self, deadline: Option<Instant>, go_on: &dyn Fn() -> bool) -> Option<Turn<'_>> {
        let mut line = self.line();
        let own = line.last;
        line.last += 1;
        while line.now != own {
            if !go_on() || deadline.is_some_and(|d| Instant::now() >= d) {
                line.gone.insert(own);
                return None;
            }
            line = self.next.wait_timeout(line, POLL_INTERVAL).unpoisoned().0;
        }
        Some(Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.line().advance();
        self.0.next.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_in_the_order_of_requests_and_skip_those_that_have_left() {
        let turns = Turns::default();
        let order = Mutex::new(Vec::new());
        let first = turns.take(None, &|| true);
        let gone = turns.take(None, &|| false);
        assert!(first.is_some() && gone.is_none());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let turn = turns.take(None, &|| true);
                order.lock().unwrap().push("waited");
                drop(turn);
            });
            while turns.line().last < 3 {
                std::thread::yield_now();
            }
            drop(first);
            let again = turns.take(None, &|| true);
            order.lock().unwrap().push("again");
            drop(again);
        });
        assert_eq!(*order.lock().unwrap(), ["waited", "again"]);
    }
}
