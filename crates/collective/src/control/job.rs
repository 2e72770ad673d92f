//! State of a job at the coordinator, and the messages that follow from its changes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::wire::{Writer, line};

/// Age of a gather from which on the missing ranks are reported to the waiting ones.
const OVERDUE_AFTER: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct CoordinatorState {
    /// Writers of the connected ranks.
    pub(super) ranks: HashMap<usize, Arc<Writer>>,
    /// Unfinished gathers by name.
    gathers: HashMap<String, Gather>,
    /// Ranks without more data, in the order of their joins.
    joined: Vec<usize>,
    /// Number of turns so far, by rank.
    turns: HashMap<usize, u64>,
    /// Ranks that have left and not come back.
    pub(super) left: HashSet<usize>,
    /// By missing rank: the collective in which others wait, and the seconds.
    pub(super) stalled: HashMap<usize, (String, u64)>,
    /// Reason for which the job has ended.
    pub(super) failure: Option<Value>,
    /// The rank that has caused this end.
    pub(super) cause: Option<usize>,
    /// Messages to write after the lock is released.
    pub(super) outgoing: Vec<(Arc<Writer>, Arc<str>)>,
}

struct Gather {
    /// Ranks that take part, in order.
    among: Vec<usize>,
    values: HashMap<usize, Value>,
    since: Instant,
    /// `true` for an announced collective: ranks run them in the order in which they are complete, and ranks that have joined
    /// are not waited for.
    in_turn: bool,
}

impl CoordinatorState {
    /// Sends a message to all connected ranks.
    pub(super) fn broadcast(&mut self, message: &Value) {
        let line: Arc<str> = line(message).into();
        let all = self.ranks.values();
        self.outgoing
            .extend(all.map(|writer| (writer.clone(), line.clone())));
    }

    /// Ends the job, for the first reason, which a rank has caused.
    pub(super) fn fail(&mut self, cause: usize, why: &Value) {
        if self.failure.is_none() {
            self.failure = Some(why.clone());
            self.cause = Some(cause);
            self.broadcast(why);
        }
    }

    /// Asks a missing rank for its activity.
    pub(super) fn stall(&mut self, late: u64, (name, seconds): (&str, u64)) {
        let late = usize::try_from(late).unwrap_or(usize::MAX);
        if let Some(writer) = self.ranks.get(&late) {
            self.stalled.insert(late, (name.to_owned(), seconds));
            let question = line(&json!({"where": true}));
            self.outgoing.push((writer.clone(), question.into()));
        }
    }

    /// Ends the job if others wait for a rank that has left, or has joined and announces nothing more.
    pub(super) fn check_waits(&mut self) {
        let missing = self.gathers.values();
        let gone = missing
            .flat_map(|g| g.missing(&self.joined))
            .find(|rank| self.left.contains(rank));
        // Ranks that have joined wait for all others.
        let waits = !self.joined.is_empty();
        let gone = gone.or_else(|| self.left.iter().copied().filter(|_| waits).min());
        if let Some(rank) = gone {
            return self.fail(rank, &json!({"lost": rank, "reason": "it has shut down"}));
        }
        let waits = |(name, gather): (&String, &Gather)| {
            let mut missing = gather.missing(&self.joined);
            let rank = missing.find(|rank| self.joined.contains(rank))?;
            Some((name.clone(), rank))
        };
        if let Some((name, rank)) = self.gathers.iter().find_map(waits) {
            let why = format!("it has joined, and others wait for it in {name}");
            self.fail(rank, &json!({"ended": rank, "reason": why}));
        }
    }

    /// Adds the value of a rank to a gather, and completes it with the last one.
    pub(super) fn gather(
        &mut self,
        name: &str,
        (rank, value): (usize, Value),
        among: Vec<usize>,
        in_turn: bool,
    ) {
        let gather = self.gathers.entry(name.to_owned());
        let gather = gather.or_insert_with(|| Gather {
            among,
            values: HashMap::new(),
            since: Instant::now(),
            in_turn,
        });
        gather.values.insert(rank, value);
        self.complete(name);
    }

    /// Completes a gather if no value is missing: sends the values to its ranks.
    fn complete(&mut self, name: &str) {
        let whole = |g: &Gather| g.missing(&self.joined).next().is_none();
        if !self.gathers.get(name).is_some_and(whole) {
            return self.check_waits();
        }
        let Some(mut gather) = self.gathers.remove(name) else {
            return;
        };
        if gather.in_turn {
            let message = gather.announced(name);
            return self.send_turn(&gather.among, &message);
        }
        let values = gather.among.iter().map(|r| gather.values.remove(r));
        let values: Vec<Value> = values.map(Option::unwrap_or_default).collect();
        let line: Arc<str> = line(&json!({"gathered": name, "values": values})).into();
        let writers = gather.among.iter().filter_map(|r| self.ranks.get(r));
        self.outgoing
            .extend(writers.map(|writer| (writer.clone(), line.clone())));
    }

    /// Sends the next turn to ranks.
    fn send_turn(&mut self, ranks: &[usize], message: &Value) {
        // All ranks get the same message, but for the number.
        let rest = line(message);
        for rank in ranks {
            let turn = self.turns.entry(*rank).or_default();
            let numbered = format!("{{\"turn\":{turn},{}", &rest[1..]);
            *turn += 1;
            if let Some(writer) = self.ranks.get(rank) {
                self.outgoing.push((writer.clone(), numbered.into()));
            }
        }
    }

    /// Marks a rank without more data: others do not wait for it, until all ranks have joined.
    pub(super) fn join(&mut self, rank: usize, size: usize) {
        if !self.joined.contains(&rank) {
            self.joined.push(rank);
        }
        let names: Vec<String> = self.gathers.keys().cloned().collect();
        for name in names {
            self.complete(&name);
        }
        if self.joined.len() == size {
            self.joined.clear();
            let all: Vec<usize> = (0..size).collect();
            return self.send_turn(&all, &json!({ "all_joined": rank }));
        }
        self.check_waits();
    }

    /// Adds a connected rank. Its turns begin with the first one.
    pub(super) fn connected(&mut self, rank: usize, writer: Arc<Writer>) {
        self.ranks.insert(rank, writer);
        self.left.remove(&rank);
        self.turns.remove(&rank);
    }

    /// Messages about missing ranks, for a rank that waits.
    pub(super) fn overdue(&self, rank: usize) -> Vec<Value> {
        let waits = |(name, gather): (&String, &Gather)| {
            let waits = gather.values.contains_key(&rank);
            let missing: Vec<usize> = gather.missing(&self.joined).take(16).collect();
            let late = waits && gather.since.elapsed() >= OVERDUE_AFTER;
            late.then(|| json!({"waits": name, "missing": missing}))
        };
        self.gathers.iter().filter_map(waits).collect()
    }
}

impl Gather {
    /// Message of an announced collective: the first announcement, the first one that differs, and the ranks that have joined
    /// without an announcement.
    fn announced(&self, name: &str) -> Value {
        let announced = || {
            let all = self.among.iter();
            all.filter_map(|rank| Some((rank, self.values.get(rank)?)))
        };
        let first = announced().next();
        let differs = announced().find(|(_, value)| first.is_none_or(|(_, of)| of != *value));
        let joined = self.among.iter();
        let joined: Vec<&usize> = joined.filter(|r| !self.values.contains_key(r)).collect();
        json!({"announced": name, "first": first, "differs": differs, "without": joined})
    }

    /// Ranks whose values are missing.
    fn missing<'a>(&'a self, joined: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
        let excused = |r: &usize| self.in_turn && joined.contains(r);
        let among = self.among.iter().copied();
        among.filter(move |r| !self.values.contains_key(r) && !excused(r))
    }
}
