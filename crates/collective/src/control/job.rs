//! What the coordinator knows of a job, and what it tells ranks when that changes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::wire::{Writer, line};

/// How old a gathering is when those that wait are told who is missing.
const OVERDUE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct State {
    /// By rank, those that are there.
    pub(super) ranks: HashMap<usize, Arc<Writer>>,
    /// By name: what came of each rank, and since when.
    gatherings: HashMap<String, Gathering>,
    /// Ranks that have no more data, in the order in which they said so.
    joined: Vec<usize>,
    /// By rank: how many turns it was given.
    turns: HashMap<usize, u64>,
    /// Those that have said that they go, and have not come back.
    pub(super) left: HashSet<usize>,
    /// By rank that does not come: in what the others wait, and for how long.
    pub(super) stalled: HashMap<usize, (String, u64)>,
    /// What ended the job.
    pub(super) failure: Option<Value>,
    /// What is to be written, once nobody changes this.
    pub(super) told: Vec<(Arc<Writer>, Arc<str>)>,
}

struct Gathering {
    /// Whose values it is of, in their order.
    among: Vec<usize>,
    values: HashMap<usize, Value>,
    since: Instant,
    /// Whether ranks act on it in the order in which such gatherings end. Those that have joined give nothing then.
    in_turn: bool,
}

impl State {
    /// Tells all ranks that are there.
    pub(super) fn tell(&mut self, message: &Value) {
        let line: Arc<str> = line(message).into();
        let all = self.ranks.values();
        self.told
            .extend(all.map(|writer| (writer.clone(), line.clone())));
    }

    /// Ends the job, for the first reason.
    pub(super) fn fail(&mut self, why: &Value) {
        if self.failure.is_none() {
            self.failure = Some(why.clone());
            self.tell(why);
        }
    }

    /// A rank does not come: it is asked what it does.
    pub(super) fn stall(&mut self, late: u64, (name, seconds): (&str, u64)) {
        let late = usize::try_from(late).unwrap_or(usize::MAX);
        if let Some(writer) = self.ranks.get(&late) {
            self.stalled.insert(late, (name.to_owned(), seconds));
            let asked = line(&json!({"where": true}));
            self.told.push((writer.clone(), asked.into()));
        }
    }

    /// Ends the job where others wait for a rank that has left, or for one that has joined and says nothing more.
    pub(super) fn forsaken(&mut self) {
        let missing = self.gatherings.values();
        let gone = missing
            .flat_map(|g| g.missing(&self.joined))
            .find(|rank| self.left.contains(rank));
        // Those that have joined wait for all others.
        let waits = !self.joined.is_empty();
        let gone = gone.or_else(|| self.left.iter().copied().filter(|_| waits).min());
        if let Some(rank) = gone {
            return self.fail(&json!({"lost": rank, "reason": "it has shut down"}));
        }
        let waits = |(name, gathering): (&String, &Gathering)| {
            let mut missing = gathering.missing(&self.joined);
            let rank = missing.find(|rank| self.joined.contains(rank))?;
            Some((name.clone(), rank))
        };
        if let Some((name, rank)) = self.gatherings.iter().find_map(waits) {
            let why = format!("it has joined, and others wait for it in {name}");
            self.fail(&json!({"ended": rank, "reason": why}));
        }
    }

    /// Keeps what a rank gave; tells all of them when the last one came.
    pub(super) fn gather(
        &mut self,
        name: &str,
        (rank, value): (usize, Value),
        among: Vec<usize>,
        in_turn: bool,
    ) {
        let gathering = self.gatherings.entry(name.to_owned());
        let gathering = gathering.or_insert_with(|| Gathering {
            among,
            values: HashMap::new(),
            since: Instant::now(),
            in_turn,
        });
        gathering.values.insert(rank, value);
        self.gathered(name);
    }

    /// Tells the ranks of a gathering what came, if nothing is missing.
    fn gathered(&mut self, name: &str) {
        let whole = |g: &Gathering| g.missing(&self.joined).next().is_none();
        if !self.gatherings.get(name).is_some_and(whole) {
            return self.forsaken();
        }
        let Some(mut gathering) = self.gatherings.remove(name) else {
            return;
        };
        if gathering.in_turn {
            let message = gathering.announced(name);
            return self.take_turn(&gathering.among, &message);
        }
        let values = gathering.among.iter().map(|r| gathering.values.remove(r));
        let values: Vec<Value> = values.map(Option::unwrap_or_default).collect();
        let line: Arc<str> = line(&json!({"gathered": name, "values": values})).into();
        let writers = gathering.among.iter().filter_map(|r| self.ranks.get(r));
        self.told
            .extend(writers.map(|writer| (writer.clone(), line.clone())));
    }

    /// Tells ranks what they act on after all that they were told so before.
    fn take_turn(&mut self, ranks: &[usize], message: &Value) {
        // All but the number is the same for all.
        let rest = line(message);
        for rank in ranks {
            let turn = self.turns.entry(*rank).or_default();
            let numbered = format!("{{\"turn\":{turn},{}", &rest[1..]);
            *turn += 1;
            if let Some(writer) = self.ranks.get(rank) {
                self.told.push((writer.clone(), numbered.into()));
            }
        }
    }

    /// A rank has no more data: nobody waits for what it announces, until all ranks have joined.
    pub(super) fn join(&mut self, rank: usize, size: usize) {
        if !self.joined.contains(&rank) {
            self.joined.push(rank);
        }
        let names: Vec<String> = self.gatherings.keys().cloned().collect();
        for name in names {
            self.gathered(&name);
        }
        if self.joined.len() == size {
            self.joined.clear();
            let all: Vec<usize> = (0..size).collect();
            return self.take_turn(&all, &json!({ "all_joined": rank }));
        }
        self.forsaken();
    }

    /// A rank has come: it is told its turns from the first one on.
    pub(super) fn came(&mut self, rank: usize, writer: Arc<Writer>) {
        self.ranks.insert(rank, writer);
        self.left.remove(&rank);
        self.turns.remove(&rank);
    }

    /// What a rank that waits is told of who is missing.
    pub(super) fn overdue(&self, rank: usize) -> Vec<Value> {
        let waits = |(name, gathering): (&String, &Gathering)| {
            let waits = gathering.values.contains_key(&rank);
            let missing: Vec<usize> = gathering.missing(&self.joined).take(16).collect();
            let late = waits && gathering.since.elapsed() >= OVERDUE;
            late.then(|| json!({"waits": name, "missing": missing}))
        };
        self.gatherings.iter().filter_map(waits).collect()
    }
}

impl Gathering {
    /// What ranks have announced: what the first one has, the first other that differs, and who has joined and announced nothing.
    fn announced(&self, name: &str) -> Value {
        let given = || {
            let all = self.among.iter();
            all.filter_map(|rank| Some((rank, self.values.get(rank)?)))
        };
        let first = given().next();
        let differs = given().find(|(_, value)| first.is_none_or(|(_, of)| of != *value));
        let joined = self.among.iter();
        let joined: Vec<&usize> = joined.filter(|r| !self.values.contains_key(r)).collect();
        json!({"announced": name, "first": first, "differs": differs, "without": joined})
    }

    /// Who has given nothing yet, and is waited for.
    fn missing<'a>(&'a self, joined: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
        let excused = |r: &usize| self.in_turn && joined.contains(r);
        let among = self.among.iter().copied();
        among.filter(move |r| !self.values.contains_key(r) && !excused(r))
    }
}
