//! Roster: the workers of an elastic job, and the choice of those that take part in the next round.

use std::collections::BTreeMap;
use std::time::Duration;

/// Limits of an elastic job. Times begin with the job.
#[derive(Clone, Debug)]
pub struct ElasticLimits {
    /// Number of workers for which the first round waits.
    pub start: usize,
    /// Minimum number of ranks of a round.
    pub min: usize,
    /// Maximum number of ranks of a round.
    pub max: usize,
    /// Time that live workers may take to come to a round for which others wait.
    pub settle: Duration,
    /// Time that a round waits for `min` workers until the job ends.
    pub timeout: Duration,
    /// Maximum number of rounds after the first.
    pub resets: Option<u64>,
}

impl ElasticLimits {
    /// Limits of a job of so many ranks that goes on as long as one of them lives.
    pub fn of(ranks: usize) -> ElasticLimits {
        ElasticLimits {
            start: ranks,
            min: 1,
            max: ranks,
            settle: Duration::from_secs(60),
            timeout: Duration::from_secs(600),
            resets: None,
        }
    }
}

/// Consequence of events, for the driver and the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A round begins.
    Round {
        /// Number of the round, from 1 on.
        number: u64,
        /// Workers by rank.
        workers: Vec<u64>,
    },
    /// A worker that trains must end its round at its next commit, because others wait or one is to leave.
    EndRound(u64),
    /// A worker is dropped.
    Dropped {
        /// The worker.
        worker: u64,
        /// Reason.
        why: String,
    },
    /// The job cannot go on, for this reason.
    Ended(String),
}

/// Phase of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerPhase {
    /// Before its first request for a place.
    Starts,
    /// Waits for a place, after so many commits.
    Ready { commits: u64 },
    /// Is a rank of the round.
    Trains,
}

#[derive(Debug)]
struct Member {
    phase: WorkerPhase,
    /// Rank in its last round.
    rank: Option<usize>,
    /// Number of its first round.
    first_round: Option<u64>,
    leaves: bool,
    /// `true` if it was notified to end its round.
    notified: bool,
}

impl Member {
    /// `true` for a worker that has the job's state. One of the first round has it, or knows that nothing was committed.
    fn has_state(&self) -> bool {
        self.first_round == Some(1)
            || matches!(self.phase, WorkerPhase::Ready { commits } if commits > 0)
    }
}

/// Workers of an elastic job.
///
/// ```
/// use std::time::Duration;
/// use thalweg_collective::elastic::{Change, ElasticLimits, Roster};
///
/// let mut roster = Roster::new(ElasticLimits { max: 3, ..ElasticLimits::of(2) });
/// let now = Duration::ZERO;
/// for worker in [10, 11] {
///     roster.add(worker);
///     roster.ready(worker, 0);
/// }
/// let first = Change::Round { number: 1, workers: vec![10, 11] };
/// assert_eq!(roster.poll(now), [first]);
/// // One worker is lost: the other one goes on alone.
/// roster.remove(10);
/// roster.ready(11, 5);
/// assert_eq!(roster.poll(now), [Change::Round { number: 2, workers: vec![11] }]);
/// ```
#[derive(Debug)]
pub struct Roster {
    limits: ElasticLimits,
    members: BTreeMap<u64, Member>,
    rounds: u64,
    /// `true` if a rank of the round is lost or waits for the next round: the others follow.
    broken: bool,
    /// Since when a worker waits for a round.
    waiting_since: Option<Duration>,
    /// `true` if a worker is done: no others join any more.
    finishing: bool,
    ended: bool,
}

impl Roster {
    /// Empty roster.
    pub fn new(limits: ElasticLimits) -> Roster {
        Roster {
            limits,
            members: BTreeMap::new(),
            rounds: 0,
            broken: false,
            waiting_since: None,
            finishing: false,
            ended: false,
        }
    }

    /// Adds a worker. Later workers have larger numbers.
    pub fn add(&mut self, worker: u64) {
        let member = Member {
            phase: WorkerPhase::Starts,
            rank: None,
            first_round: None,
            leaves: false,
            notified: false,
        };
        self.members.entry(worker).or_insert(member);
    }

    /// Marks a worker as ready for the next round, after so many commits.
    pub fn ready(&mut self, worker: u64, commits: u64) {
        if let Some(member) = self.members.get_mut(&worker) {
            self.broken |= member.phase == WorkerPhase::Trains;
            member.phase = WorkerPhase::Ready { commits };
        }
    }

    /// Removes a worker that has ended. Returns its rank in the current round, if it had one.
    pub fn remove(&mut self, worker: u64) -> Option<usize> {
        let gone = self.members.remove(&worker);
        let rank = gone.filter(|m| m.phase == WorkerPhase::Trains)?.rank;
        self.broken = true;
        rank
    }

    /// Removes a worker that has done all of its work.
    pub fn done(&mut self, worker: u64) {
        self.finishing = true;
        self.members.remove(&worker);
    }

    /// Marks a worker that is to leave when its round ends.
    pub fn leave(&mut self, worker: u64) {
        if let Some(member) = self.members.get_mut(&worker) {
            member.leaves = true;
        }
    }

    /// `true` if a worker is done.
    pub fn is_finishing(&self) -> bool {
        self.finishing
    }

    /// Returns the consequences at this time.
    pub fn poll(&mut self, now: Duration) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.ended {
            return changes;
        }
        self.drop_unwanted(&mut changes);
        let ready = self.ready_workers();
        if ready.is_empty() && !self.broken && !self.has_no_trainers() {
            self.waiting_since = None;
            self.notify_leavers(&mut changes);
            return changes;
        }
        let waited = now.saturating_sub(*self.waiting_since.get_or_insert(now));
        if self.trainers().next().is_some() {
            self.wait_for_trainers(waited, &mut changes);
            return changes;
        }
        self.begin(ready, waited, &mut changes);
        changes
    }

    /// `true` if rounds have begun and no worker trains.
    fn has_no_trainers(&self) -> bool {
        self.rounds > 0 && !self.finishing && self.trainers().next().is_none()
    }

    /// Workers that train.
    fn trainers(&self) -> impl Iterator<Item = u64> + '_ {
        let all = self.members.iter();
        all.filter(|(_, m)| m.phase == WorkerPhase::Trains)
            .map(|(&w, _)| w)
    }

    /// Workers that wait for a place: by commits (most first), then by their last rank, then by age.
    fn ready_workers(&self) -> Vec<u64> {
        let ready = |(&worker, member): (&u64, &Member)| match member.phase {
            WorkerPhase::Ready { commits } => {
                let rank = member.rank.unwrap_or(usize::MAX);
                Some(((u64::MAX - commits, rank, worker), worker))
            }
            _ => None,
        };
        let mut all: Vec<_> = self.members.iter().filter_map(ready).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, worker)| worker).collect()
    }

    /// The worker that is to leave and has to stay for one more round, as no other one has the state.
    fn keeper(&self) -> Option<u64> {
        let stays = |m: &Member| !m.leaves && m.has_state();
        if self.finishing || self.members.values().any(stays) {
            return None;
        }
        let ready = self.ready_workers().into_iter();
        let mut leaving = ready.filter(|w| self.members.get(w).is_some_and(Member::has_state));
        leaving.next()
    }

    /// Drops workers that are to leave, or have come too late to take part. One with the state is kept until another has it.
    fn drop_unwanted(&mut self, changes: &mut Vec<Change>) {
        let finishing = self.finishing;
        let keeper = self.keeper();
        let not_wanted = |(&worker, member): (&u64, &Member)| {
            let late = finishing && member.rank.is_none();
            let leaves = member.leaves && member.phase != WorkerPhase::Trains;
            let leaves = leaves && keeper != Some(worker);
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

    /// Notifies the trainers if one of them is to leave.
    fn notify_leavers(&mut self, changes: &mut Vec<Change>) {
        let leaves = |m: &Member| m.leaves && m.phase == WorkerPhase::Trains;
        if self.members.values().any(leaves) {
            self.notify_all(changes);
        }
    }

    /// Tells all trainers to end their round.
    fn notify_all(&mut self, changes: &mut Vec<Change>) {
        for (&worker, member) in &mut self.members {
            if member.phase == WorkerPhase::Trains && !member.notified {
                member.notified = true;
                changes.push(Change::EndRound(worker));
            }
        }
    }

    /// Handles ready workers while others train.
    fn wait_for_trainers(&mut self, waited: Duration, changes: &mut Vec<Change>) {
        if !self.broken {
            // New workers wait until the round ends by itself; the trainers have no timeout.
            self.waiting_since = None;
            match self.trainers().count() < self.limits.max && !self.finishing {
                true => self.notify_all(changes),
                false => self.notify_leavers(changes),
            }
            return;
        }
        if waited < self.limits.settle {
            return;
        }
        let late: Vec<u64> = self.trainers().collect();
        for worker in late {
            self.members.remove(&worker);
            let why = format!(
                "it did not come to the next round within {waited:?}: look where it hangs, or why a step of it takes so long"
            );
            changes.push(Change::Dropped { worker, why });
        }
    }

    /// Begins a round if enough workers are ready. No worker trains.
    fn begin(&mut self, ready: Vec<u64>, waited: Duration, changes: &mut Vec<Change>) {
        let ElasticLimits {
            start, min, max, ..
        } = self.limits;
        if let Some(resets) = self.limits.resets.filter(|&max| self.rounds > max) {
            let why = format!("the job has had its {resets} new rounds: raise --reset-limit");
            return self.end(why, changes);
        }
        if self.rounds > 0 && !self.members.values().any(Member::has_state) {
            let why =
                "all ranks that had its state are lost: start it again from its last checkpoint";
            return self.end(why.to_owned(), changes);
        }
        let wanted = match self.rounds {
            0 if waited < self.limits.settle => start.clamp(min, max),
            _ if self.finishing => 1,
            _ => min,
        };
        let leaves = |worker: &&u64| self.members.get(worker).is_some_and(|m| m.leaves);
        let leaving = ready.iter().filter(leaves).count();
        let staying = ready.len() - leaving;
        if staying < wanted {
            if waited >= self.limits.timeout {
                let why = format!(
                    "{staying} workers are there after {waited:?}, and a round needs {wanted}: lower --min-np, or find more hosts"
                );
                self.end(why, changes);
            }
            return;
        }
        // One that is kept for its state gives it to another one.
        let most = max.max(leaving + 1);
        let workers: Vec<u64> = ready.into_iter().take(most).collect();
        for (rank, worker) in workers.iter().enumerate() {
            if let Some(member) = self.members.get_mut(worker) {
                member.phase = WorkerPhase::Trains;
                member.rank = Some(rank);
                member.first_round.get_or_insert(self.rounds + 1);
                member.notified = false;
            }
        }
        self.waiting_since = None;
        self.broken = false;
        self.rounds += 1;
        let number = self.rounds;
        changes.push(Change::Round { number, workers });
    }

    /// Ends the job.
    fn end(&mut self, why: String, changes: &mut Vec<Change>) {
        self.ended = true;
        changes.push(Change::Ended(why));
    }
}
