//! Order of negotiated collectives: the coordinator announces each one once all ranks of its set are ready for it.

use std::collections::BTreeMap;

use serde_json::Value;

/// Step of a negotiated job, in the order of the coordinator.
pub(crate) enum Turn {
    /// All members of a set are ready for a collective, or have joined.
    Run(Announced),
    /// All ranks have joined.
    Joined {
        /// The rank that joined last.
        last: usize,
    },
}

/// Announcements of the members of a set under a key.
pub(crate) struct Announced {
    pub(crate) key: String,
    /// First rank and its announcement.
    pub(crate) first: (usize, Value),
    /// First rank with another announcement, and that announcement.
    pub(crate) differs: Option<(usize, Value)>,
    /// Ranks that have joined and announced nothing.
    pub(crate) joined: Vec<usize>,
}

impl Announced {
    /// Parses the coordinator's message; `None` if it is malformed.
    pub(super) fn parse(message: &mut Value) -> Option<Announced> {
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

/// Callback for turns.
pub(super) type OnTurn = Box<dyn Fn(Turn) + Send>;

/// Queue that orders turns: they arrive in any order, as the coordinator has a thread for each rank.
#[derive(Default)]
pub(super) struct Turns {
    callback: Option<OnTurn>,
    /// Number of turns that were delivered.
    delivered: u64,
    /// Turns that have arrived early, by number.
    early: BTreeMap<u64, Turn>,
}

impl Turns {
    /// Sets the callback, and delivers the turns that have arrived.
    pub(super) fn on_turn(&mut self, callback: OnTurn) {
        self.callback = Some(callback);
        self.deliver();
    }

    /// Adds a turn, and delivers those whose predecessors have arrived.
    pub(super) fn add(&mut self, number: u64, turn: Turn) {
        self.early.insert(number, turn);
        self.deliver();
    }

    fn deliver(&mut self) {
        let Some(callback) = &self.callback else {
            return;
        };
        while let Some(turn) = self.early.remove(&self.delivered) {
            self.delivered += 1;
            callback(turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn turns_are_delivered_in_order_whatever_the_order_of_arrival() {
        let (sender, delivered) = channel();
        let mut turns = Turns::default();
        let turn = |last: usize| Turn::Joined { last };
        // Turns that arrive before the callback is set are kept.
        turns.add(1, turn(1));
        turns.add(0, turn(0));
        turns.on_turn(Box::new(move |turn| sender.send(turn).unwrap()));
        for number in [3, 4, 2] {
            turns.add(number, turn(number as usize));
        }
        let delivered = delivered.try_iter().map(|turn| match turn {
            Turn::Joined { last } => last,
            Turn::Run(_) => usize::MAX,
        });
        assert_eq!(delivered.collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }
}
