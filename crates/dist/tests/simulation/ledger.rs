//! What a program knows of the numbered gradients that it gives, and what is wrong with what was applied.

/// What a program knows of its gradients; it outlives the program.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) next: usize,
    pub(super) applied: Vec<usize>,
    /// The first gradient that came after the variables were made.
    pub(super) since: usize,
    /// Whether a request to make them may still be on its way.
    pub(super) doubtful: bool,
    pub(super) ended: bool,
}

impl Ledger {
    /// The variables have no values: notes that they are to be made. Gives whether an earlier request may still come.
    pub(super) fn lost(&mut self) -> bool {
        self.since = self.next;
        std::mem::replace(&mut self.doubtful, true)
    }

    /// Every gradient was applied once or never; once, if its step said so.
    pub(super) fn check(&self, log: &[f32]) -> Result<(), String> {
        // What nobody gave first: it may be all that is wrong.
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
