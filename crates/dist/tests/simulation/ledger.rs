//! Ledger of a program's numbered gradients, and the check of the applied ones.

/// Ledger of a program's gradients. It outlives the program.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) next: usize,
    pub(super) applied: Vec<usize>,
    /// The first gradient that came after the variables were made.
    pub(super) since: usize,
    /// `true` if a request to initialize them may still be in flight.
    pub(super) doubtful: bool,
    pub(super) ended: bool,
}

impl Ledger {
    /// Notes that the variables have no values and are to be initialized. `true` if an earlier request may still
    /// arrive.
    pub(super) fn lost(&mut self) -> bool {
        self.since = self.next;
        std::mem::replace(&mut self.doubtful, true)
    }

    /// Checks that every gradient was applied at most once, and exactly once if its step succeeded.
    pub(super) fn check(&self, log: &[f32]) -> Result<(), String> {
        // Gradients that were never given come first: they may be the only mistake.
        for (id, &times) in log.iter().enumerate().rev() {
            if times != 0.0 && id >= self.next {
                return Err(format!("gradient {id}, which nobody gave, was applied"));
            }
            if times != 0.0 && times != 1.0 {
                return Err(format!("gradient {id} was applied {times} times"));
            }
            let sure = id >= self.since && !self.doubtful && self.applied.contains(&id);
            if sure && times == 0.0 {
                return Err(format!("gradient {id} was lost"));
            }
        }
        Ok(())
    }
}
