//! Gates: a non-blocking lock of each variable, which steps that must not wait try to share, and which long updates
//! hold exclusively.
//!
//! A step on a thread of the network enters the gates of all its variables before it begins. It is turned away where an
//! update is under way. While it is inside, updates wait: it is short.

use std::sync::{Condvar, Mutex, MutexGuard};

use thalweg_tensor::sync::Unpoisoned;

/// The gate of a variable.
///
/// ```
/// use thalweg_device::Gate;
///
/// let gate = Gate::default();
/// assert!(gate.try_enter() && gate.try_enter());
/// gate.leave();
/// gate.leave();
/// let update = gate.hold();
/// assert!(!gate.try_enter());
/// drop(update);
/// assert!(gate.try_enter());
/// ```
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<GateState>,
    empty: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    /// Steps that must not wait.
    inside: u32,
    /// Updates that are under way, or wait to begin.
    updates: u32,
}

impl Gate {
    /// Held for a few instructions only, so that a thread of the network may take it.
    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unpoisoned()
    }

    /// Enters a step that must not wait; returns `false` where an update is under way. Each step that has entered
    /// leaves.
    #[must_use]
    pub fn try_enter(&self) -> bool {
        let mut state = self.state();
        let may = state.updates == 0;
        state.inside += u32::from(may);
        may
    }

    /// Leaves the gate.
    pub fn leave(&self) {
        let mut state = self.state();
        state.inside -= 1;
        if state.inside == 0 && state.updates > 0 {
            drop(state);
            self.empty.notify_all();
        }
    }

    /// Waits until no step is inside; from now on none gets in until this is dropped. Updates do not wait for each
    /// other here.
    pub fn hold(&self) -> GateGuard<'_> {
        let mut state = self.state();
        state.updates += 1;
        while state.inside > 0 {
            state = self.empty.wait(state).unpoisoned();
        }
        drop(state);
        GateGuard(self)
    }
}

/// An update that is under way.
#[derive(Debug)]
pub struct GateGuard<'a>(&'a Gate);

impl Drop for GateGuard<'_> {
    fn drop(&mut self) {
        self.0.state().updates -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn an_update_waits_for_those_inside_and_keeps_others_out() {
        let gate = Gate::default();
        assert!(gate.try_enter());
        let updated = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let update = threads.spawn(|| {
                let _held = gate.hold();
                updated.store(true, Ordering::Relaxed);
            });
            // The update waits to begin: no step enters any more.
            while gate.try_enter() {
                gate.leave();
                std::thread::yield_now();
            }
            assert!(!updated.load(Ordering::Relaxed));
            gate.leave();
            update.join().unwrap();
        });
        assert!(updated.load(Ordering::Relaxed) && gate.try_enter());
    }

    #[test]
    fn updates_do_not_wait_for_each_other_and_all_of_them_keep_steps_out() {
        let gate = Gate::default();
        let (first, second) = (gate.hold(), gate.hold());
        drop(first);
        assert!(!gate.try_enter());
        drop(second);
        assert!(gate.try_enter());
    }

    #[test]
    fn a_step_that_is_turned_away_is_not_counted_as_inside() {
        let gate = Gate::default();
        let update = gate.hold();
        assert!(!gate.try_enter());
        drop(update);
        // It would wait for one that is inside.
        drop(gate.hold());
        assert!(gate.try_enter());
        gate.leave();
        drop(gate.hold());
    }
}
