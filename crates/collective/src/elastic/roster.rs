//! Who takes part in the next round of an elastic job.

use std::collections::BTreeMap;
use std::time::Duration;

/// What an elastic job needs. Times begin when the job does.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How many workers the first round waits for.
    pub start: usize,
    /// The fewest ranks of a round.
    pub min: usize,
    /// The most ranks of a round.
    pub max: usize,
    /// How long workers that live may take to come to a round that others wait for.
    pub settle: Duration,
    /// How long a round waits for `min` workers until the job ends.
    pub patience: Duration,
    /// How often a round may follow another one.
    pub resets: Option<u64>,
}

impl Limits {
    /// Those of a job of so many ranks that is to go on as long as one of them lives.
    pub fn of(ranks: usize) -> Limits {
        Limits {
            start: ranks,
            min: 1,
            max: ranks,
            settle: Duration::from_secs(60),
            patience: Duration::from_secs(600),
            resets: None,
        }
    }
}

/// What follows from what has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A round begins: its number, from 1 on, and its workers by rank.
    Round {
        /// The number.
        number: u64,
        /// The workers.
        workers: Vec<u64>,
    },
    /// A worker that trains is told that others wait, or that one is to leave: its round ends at its next commit.
    Changed(u64),
    /// A worker is not wanted any more.
    Dropped {
        /// Which one.
        worker: u64,
        /// Why.
        why: String,
    },
    /// The job cannot go on.
    Ended(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has not asked for a place yet.
    Starts,
    /// It asks for a place, having committed so often.
    Ready { commits: u64 },
    /// It is a rank of the round.
    Trains,
}

#[derive(Debug)]
struct Member {
    phase: Phase,
    /// Its rank in the last round that it was in.
    rank: Option<usize>,
    /// The first round that it was in.
    first: Option<u64>,
    leaves: bool,
    /// Whether it was told that its round is to end.
    told: bool,
}

/// The workers of an elastic job.
///
/// ```
/// use std::time::Duration;
/// use thalweg_collective::elastic::{Change, Limits, Roster};
///
/// let mut roster = Roster::new(Limits { max: 3, ..Limits::of(2) });
/// let now = Duration::ZERO;
/// for worker in [10, 11] {
///     roster.came(worker);
///     roster.ready(worker, 0);
/// }
/// let first = Change::Round { number: 1, workers: vec![10, 11] };
/// assert_eq!(roster.look(now), [first]);
/// // One is lost: the other one asks again, and goes on alone.
/// roster.gone(10);
/// roster.ready(11, 5);
/// assert_eq!(roster.look(now), [Change::Round { number: 2, workers: vec![11] }]);
/// ```
#[derive(Debug)]
pub struct Roster {
    limits: Limits,
    members: BTreeMap<u64, Member>,
    rounds: u64,
    /// Whether a rank of the round is lost or has come back: the others follow.
    broken: bool,
    /// Since when somebody waits for a round.
    waiting: Option<Duration>,
    /// Whether a worker is done: the others only finish.
    finishing: bool,
    ended: bool,
}

impl Roster {
    /// Nobody yet.
    pub fn new(limits: Limits) -> Roster {
        Roster {
            limits,
            members: BTreeMap::new(),
            rounds: 0,
            broken: false,
            waiting: None,
            finishing: false,
            ended: false,
        }
    }

    /// A worker is there. Later ones have larger numbers.
    pub fn came(&mut self, worker: u64) {
        let member = Member {
            phase: Phase::Starts,
            rank: None,
            first: None,
            leaves: false,
            told: false,
        };
        self.members.entry(worker).or_insert(member);
    }

    /// A worker asks for a place in the next round, after so many commits.
    pub fn ready(&mut self, worker: u64, commits: u64) {
        if let Some(member) = self.members.get_mut(&worker) {
            self.broken |= member.phase == Phase::Trains;
            member.phase = Phase::Ready { commits };
        }
    }

    /// A worker has ended, whatever the reason. Gives its rank, where it was one until now.
    pub fn gone(&mut self, worker: u64) -> Option<usize> {
        let gone = self.members.remove(&worker);
        let rank = gone.filter(|m| m.phase == Phase::Trains)?.rank;
        self.broken = true;
        rank
    }

    /// A worker has done all of its work.
    pub fn done(&mut self, worker: u64) {
        self.finishing = true;
        self.members.remove(&worker);
    }

    /// A worker is to leave when its round ends.
    pub fn leave(&mut self, worker: u64) {
        if let Some(member) = self.members.get_mut(&worker) {
            member.leaves = true;
        }
    }

    /// Whether a worker is done.
    pub fn is_finishing(&self) -> bool {
        self.finishing
    }

    /// What follows at this time.
    pub fn look(&mut self, now: Duration) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.ended {
            return changes;
        }
        self.dismiss(&mut changes);
        let ready = self.ready_ones();
        if ready.is_empty() && !self.broken && !self.short_of_all() {
            self.waiting = None;
            self.tell(&mut changes);
            return changes;
        }
        let waited = now.saturating_sub(*self.waiting.get_or_insert(now));
        if self.trains().next().is_some() {
            self.wait_for_trainers(waited, &mut changes);
            return changes;
        }
        self.begin(ready, waited, &mut changes);
        changes
    }

    /// Whether rounds have begun and nobody is left that could ask for another.
    fn short_of_all(&self) -> bool {
        self.rounds > 0 && !self.finishing && self.trains().next().is_none()
    }

    fn trains(&self) -> impl Iterator<Item = u64> + '_ {
        let all = self.members.iter();
        all.filter(|(_, m)| m.phase == Phase::Trains)
            .map(|(&w, _)| w)
    }

    /// Who asks for a place: first who has committed most, then by the last rank, then who came first.
    fn ready_ones(&self) -> Vec<u64> {
        let ready = |(&worker, member): (&u64, &Member)| match member.phase {
            Phase::Ready { commits } => {
                let rank = member.rank.unwrap_or(usize::MAX);
                Some(((u64::MAX - commits, rank, worker), worker))
            }
            _ => None,
        };
        let mut all: Vec<_> = self.members.iter().filter_map(ready).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, worker)| worker).collect()
    }

    /// Lets those go that are to leave, or have come too late to take part.
    fn dismiss(&mut self, changes: &mut Vec<Change>) {
        let finishing = self.finishing;
        let not_wanted = |(&worker, member): (&u64, &Member)| {
            let late = finishing && member.rank.is_none();
            let leaves = member.leaves && member.phase != Phase::Trains;
            let why = match (leaves, late) {
                (true, _) => "its host is not there for the job any more",
                (_, true) => "the job is done",
                _ => return None,
            };
            Some((worker, why.to_owned()))
        };
        let all: Vec<_> = self.members.iter().filter_map(not_wanted).collect();
        for (worker, why) in all {
            self.members.remove(&worker);
            changes.push(Change::Dropped { worker, why });
        }
    }

    /// Tells those that train, where one of them is to leave.
    fn tell(&mut self, changes: &mut Vec<Change>) {
        let leaves = |m: &Member| m.leaves && m.phase == Phase::Trains;
        if self.members.values().any(leaves) {
            self.tell_all(changes);
        }
    }

    fn tell_all(&mut self, changes: &mut Vec<Change>) {
        for (&worker, member) in &mut self.members {
            if member.phase == Phase::Trains && !member.told {
                member.told = true;
                changes.push(Change::Changed(worker));
            }
        }
    }

    /// Some are ready while others train.
    fn wait_for_trainers(&mut self, waited: Duration, changes: &mut Vec<Change>) {
        if !self.broken {
            // New ones wait until the round ends by itself: that is no fault of who trains.
            self.waiting = None;
            match self.trains().count() < self.limits.max && !self.finishing {
                true => self.tell_all(changes),
                false => self.tell(changes),
            }
            return;
        }
        if waited < self.limits.settle {
            return;
        }
        let late: Vec<u64> = self.trains().collect();
        for worker in late {
            self.members.remove(&worker);
            let why = format!(
                "it did not come to the next round within {waited:?}: look where it hangs, or why a step of it takes so long"
            );
            changes.push(Change::Dropped { worker, why });
        }
    }

    /// Nobody trains: a round begins as soon as enough are there.
    fn begin(&mut self, ready: Vec<u64>, waited: Duration, changes: &mut Vec<Change>) {
        let Limits {
            start, min, max, ..
        } = self.limits;
        if let Some(resets) = self.limits.resets.filter(|&most| self.rounds > most) {
            let why = format!("the job has had its {resets} new rounds: raise --reset-limit");
            return self.end(why, changes);
        }
        // Who was in the first round knows that nothing was committed, or has it.
        let has_state = |m: &Member| {
            m.first == Some(1) || matches!(m.phase, Phase::Ready { commits } if commits > 0)
        };
        if self.rounds > 0 && !self.members.values().any(has_state) {
            let why =
                "all ranks that had its state are lost: start it again from its last checkpoint";
            return self.end(why.to_owned(), changes);
        }
        let wanted = match self.rounds {
            0 if waited < self.limits.settle => start.clamp(min, max),
            _ if self.finishing => 1,
            _ => min,
        };
        if ready.len() < wanted {
            if waited >= self.limits.patience {
                let why = format!(
                    "{} workers are there after {waited:?}, and a round needs {wanted}: lower --min-np, or find more hosts",
                    ready.len()
                );
                self.end(why, changes);
            }
            return;
        }
        let workers: Vec<u64> = ready.into_iter().take(max).collect();
        for (rank, worker) in workers.iter().enumerate() {
            if let Some(member) = self.members.get_mut(worker) {
                member.phase = Phase::Trains;
                member.rank = Some(rank);
                member.first.get_or_insert(self.rounds + 1);
                member.told = false;
            }
        }
        self.waiting = None;
        self.broken = false;
        self.rounds += 1;
        let number = self.rounds;
        changes.push(Change::Round { number, workers });
    }

    fn end(&mut self, why: String, changes: &mut Vec<Change>) {
        self.ended = true;
        changes.push(Change::Ended(why));
    }
}
