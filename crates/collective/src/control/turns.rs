//! What ranks that negotiate do, in the order that the coordinator gives it.

use std::collections::BTreeMap;

use serde_json::Value;

/// What all ranks have come to, where they negotiate.
pub(crate) enum Turn {
    /// All members of a set are ready for a collective, or have joined. What each has announced, in their order: nothing where
    /// it has joined.
    Run {
        /// What they have announced it under.
        key: String,
        values: Vec<Value>,
    },
    /// All ranks have joined.
    Joined {
        /// The last one.
        last: usize,
    },
}

/// What is called with each turn.
pub(super) type HearTurn = Box<dyn Fn(Turn) + Send>;

/// Turns come in any order: the coordinator has a thread for each rank.
#[derive(Default)]
pub(super) struct Turns {
    pub(super) hear: Option<HearTurn>,
    /// How many were heard.
    heard: u64,
    /// By number: those that have come before others.
    early: BTreeMap<u64, Turn>,
}

impl Turns {
    pub(super) fn take(&mut self, number: u64, turn: Turn) {
        self.early.insert(number, turn);
        while let (Some(hear), Some(turn)) = (&self.hear, self.early.remove(&self.heard)) {
            self.heard += 1;
            hear(turn);
        }
    }
}
