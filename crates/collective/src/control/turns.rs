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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn turns_are_heard_in_their_order_in_whatever_order_they_come() {
        let (sender, heard) = channel();
        let mut turns = Turns::default();
        let turn = |last: usize| Turn::Joined { last };
        // One that comes before anybody hears is kept.
        turns.take(1, turn(1));
        turns.hear = Some(Box::new(move |turn| sender.send(turn).unwrap()));
        for number in [2, 4, 0, 3] {
            turns.take(number, turn(number as usize));
        }
        let heard = heard.try_iter().map(|turn| match turn {
            Turn::Joined { last } => last,
            Turn::Run { .. } => usize::MAX,
        });
        assert_eq!(heard.collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }
}
