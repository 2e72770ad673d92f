//! What ranks that negotiate do, in the order that the coordinator gives it.

use std::collections::BTreeMap;

use serde_json::Value;

/// What all ranks have come to, where they negotiate.
pub(crate) enum Turn {
    /// All members of a set are ready for a collective, or have joined.
    Run(Announced),
    /// All ranks have joined.
    Joined {
        /// The last one.
        last: usize,
    },
}

/// What the members of a set have announced under a key.
pub(crate) struct Announced {
    pub(crate) key: String,
    /// A rank, and what it has announced.
    pub(crate) first: (usize, Value),
    /// The first rank that has announced something else, and what.
    pub(crate) differs: Option<(usize, Value)>,
    /// Those that have joined, and announced nothing.
    pub(crate) joined: Vec<usize>,
}

impl Announced {
    /// What the coordinator says of a turn; nothing where it makes no sense.
    pub(super) fn of(message: &mut Value) -> Option<Announced> {
        let rank = |of: &Value| usize::try_from(of.as_u64()?).ok();
        let pair = |of: &mut Value| Some((rank(of.get(0)?)?, of.get_mut(1)?.take()));
        let joined = message["without"].as_array()?.iter().map(rank);
        Some(Announced {
            key: message["announced"].as_str()?.to_owned(),
            joined: joined.collect::<Option<Vec<usize>>>()?,
            first: pair(message.get_mut("first")?)?,
            differs: pair(message.get_mut("differs")?),
        })
    }
}

/// What is called with each turn.
pub(super) type HearTurn = Box<dyn Fn(Turn) + Send>;

/// Turns come in any order: the coordinator has a thread for each rank.
#[derive(Default)]
pub(super) struct Turns {
    hear: Option<HearTurn>,
    /// How many were heard.
    heard: u64,
    /// By number: those that have come before others.
    early: BTreeMap<u64, Turn>,
}

impl Turns {
    /// Calls this with each turn, also with those that have come.
    pub(super) fn hear(&mut self, hear: HearTurn) {
        self.hear = Some(hear);
        self.go_on();
    }

    pub(super) fn take(&mut self, number: u64, turn: Turn) {
        self.early.insert(number, turn);
        self.go_on();
    }

    fn go_on(&mut self) {
        let Some(hear) = &self.hear else {
            return;
        };
        while let Some(turn) = self.early.remove(&self.heard) {
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
        // Those that come before anybody hears are kept.
        turns.take(1, turn(1));
        turns.take(0, turn(0));
        turns.hear(Box::new(move |turn| sender.send(turn).unwrap()));
        for number in [3, 4, 2] {
            turns.take(number, turn(number as usize));
        }
        let heard = heard.try_iter().map(|turn| match turn {
            Turn::Joined { last } => last,
            Turn::Run(_) => usize::MAX,
        });
        assert_eq!(heard.collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }
}
