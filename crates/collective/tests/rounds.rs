//! Simulations of elastic jobs: workers join, are killed, stop, and are notified to leave, while the roster decides which take
//! part. No clock and no network: a seed reproduces its job.
//!
//! `SEEDS=10000 cargo test --release -p thalweg-collective --test rounds` runs more than CI does; `SEED=7` runs one.

use std::collections::BTreeMap;
use std::time::Duration;

use thalweg_collective::elastic::{Change, ElasticLimits, Roster};

/// Duration of a tick.
const TICK: Duration = Duration::from_millis(100);
/// Commits until the job is done.
const TARGET: u64 = 60;
/// Number of ticks with faults.
const FAULT_TICKS: u64 = 2_000;
/// Number of ticks until the job must have ended, with room for waits.
const MAX_TICKS: u64 = 20_000;
/// Ticks after which a silent worker counts as lost.
const SILENCE_TICKS: u64 = 30;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Activity of a worker.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Activity {
    Starts {
        until: u64,
    },
    Waits,
    Trains {
        round: u64,
    },
    /// The round is over; the worker asks for a place at this tick.
    Returns {
        at: u64,
    },
    Stopped {
        since: u64,
    },
    /// The worker lives, and never comes back.
    Hangs,
    Dead,
    Done,
}

#[derive(Clone, Debug)]
struct SimWorker {
    activity: Activity,
    /// Number of commits; 0 without state.
    commits: u64,
    notified: bool,
    /// State of the round's begin, until this worker has received it.
    initial: Option<u64>,
}

struct SimJob {
    random: Random,
    limits: ElasticLimits,
    roster: Roster,
    workers: BTreeMap<u64, SimWorker>,
    round: Vec<u64>,
    number: u64,
    /// Maximum number of commits of any round.
    committed: u64,
    ended: Option<String>,
    tick: u64,
    next_commit: u64,
}

impl SimJob {
    fn new(seed: u64) -> SimJob {
        let mut random = Random(seed);
        let start = 1 + random.below(4) as usize;
        let min = 1 + random.below(start as u64) as usize;
        let max = start + random.below(4) as usize;
        let limits = ElasticLimits {
            min,
            max,
            timeout: Duration::from_secs(60),
            settle: Duration::from_secs(20),
            ..ElasticLimits::of(start)
        };
        let mut job = SimJob {
            random,
            roster: Roster::new(limits.clone()),
            limits,
            workers: BTreeMap::new(),
            round: Vec::new(),
            number: 0,
            committed: 0,
            ended: None,
            tick: 0,
            next_commit: 0,
        };
        for _ in 0..start {
            job.start();
        }
        job
    }

    fn start(&mut self) {
        let number = self.workers.len() as u64;
        let until = self.tick + self.random.below(20);
        let activity = Activity::Starts { until };
        let worker = SimWorker {
            activity,
            commits: 0,
            notified: false,
            initial: None,
        };
        self.workers.insert(number, worker);
    }

    fn living(&self) -> Vec<u64> {
        let lives = |w: &SimWorker| !matches!(w.activity, Activity::Dead | Activity::Done);
        let all = self.workers.iter().filter(|(_, w)| lives(w));
        all.map(|(&n, _)| n).collect()
    }

    fn trainers(&self) -> usize {
        let trains = |w: &&SimWorker| matches!(w.activity, Activity::Trains { .. });
        self.workers.values().filter(trains).count()
    }

    fn worker(&mut self, number: u64) -> &mut SimWorker {
        self.workers.get_mut(&number).unwrap()
    }

    /// Injects a fault, or starts a worker.
    fn fault(&mut self) {
        let living = self.living();
        let Some(&victim) = living.get(self.random.below(living.len().max(1) as u64) as usize)
        else {
            return;
        };
        match self.random.below(7) {
            0 => {
                self.worker(victim).activity = Activity::Dead;
                self.roster.remove(victim);
            }
            1 => {
                let since = self.tick;
                self.worker(victim).activity = Activity::Stopped { since };
            }
            2 => self.roster.leave(victim),
            // A worker that hangs alone looks busy: no other one waits for it in a collective.
            3 if self.trainers() > 1
                && matches!(self.worker(victim).activity, Activity::Trains { .. }) =>
            {
                self.worker(victim).activity = Activity::Hangs;
                // The others notice the timeout.
                self.leave_round(20);
            }
            _ => self.start(),
        }
    }

    /// Runs one tick of each worker.
    fn act(&mut self) {
        for number in self.living() {
            let tick = self.tick;
            match self.worker(number).activity {
                Activity::Starts { until } if tick >= until => {
                    self.roster.add(number);
                    self.roster.ready(number, 0);
                    self.worker(number).activity = Activity::Waits;
                }
                Activity::Returns { at } if tick >= at => {
                    let commits = self.worker(number).commits;
                    self.roster.ready(number, commits);
                    let worker = self.worker(number);
                    worker.initial = None;
                    worker.activity = Activity::Waits;
                    worker.initial = None;
                    worker.notified = false;
                }
                Activity::Stopped { since } if tick > since + SILENCE_TICKS => {
                    // The launcher kills it.
                    self.worker(number).activity = Activity::Dead;
                    self.roster.remove(number);
                }
                _ => {}
            }
        }
        self.train();
    }

    /// Commits a step of the round, or notices a lost rank.
    fn train(&mut self) {
        let trains = Activity::Trains { round: self.number };
        let in_it: Vec<u64> = self.round.clone();
        let all = in_it.iter().all(|n| self.workers[n].activity == trains);
        if !all || in_it.is_empty() {
            let lost = in_it.iter().any(|n| {
                !matches!(
                    self.workers[n].activity,
                    Activity::Trains { .. } | Activity::Stopped { .. }
                )
            });
            if lost {
                self.leave_round(20);
            }
            return;
        }
        if self.tick < self.next_commit {
            return;
        }
        self.next_commit = self.tick + 1 + self.random.below(10);
        let waits = in_it.iter().any(|n| self.workers[n].initial.is_some());
        if waits {
            // The round may be lost while some ranks have not received the initial state.
            let torn = self.random.one_in(10);
            for &number in &in_it {
                if !(torn && self.random.one_in(2)) {
                    let initial = self.worker(number).initial.take();
                    let worker = self.worker(number);
                    worker.commits = initial.map_or(worker.commits, |g| g.max(1));
                }
            }
            if torn {
                self.leave_round(20);
            }
            return;
        }
        // A rank may be lost between its commit and those of others.
        let torn = self.random.one_in(50);
        for (at, &number) in in_it.iter().enumerate() {
            if !(torn && at > 0 && self.random.one_in(2)) {
                self.worker(number).commits += 1;
            }
        }
        if torn {
            return self.leave_round(20);
        }
        let most = self.workers[&in_it[0]].commits;
        self.committed = self.committed.max(most);
        if most >= TARGET {
            for number in in_it {
                self.worker(number).activity = Activity::Done;
                self.roster.done(number);
            }
        } else if in_it.iter().any(|n| self.workers[n].notified) {
            self.leave_round(1);
        }
    }

    fn leave_round(&mut self, max_delay: u64) {
        for number in std::mem::take(&mut self.round) {
            let at = self.tick + self.random.below(max_delay);
            let worker = self.worker(number);
            if matches!(worker.activity, Activity::Trains { .. }) {
                worker.activity = Activity::Returns { at };
            }
        }
    }

    /// Applies a change of the roster, and checks that it is allowed.
    fn apply(&mut self, change: Change) {
        match change {
            Change::EndRound(number) => self.worker(number).notified = true,
            Change::Dropped { worker, .. } => self.worker(worker).activity = Activity::Dead,
            Change::Ended(why) => self.ended = Some(why),
            Change::Round { number, workers } => self.begin(number, workers),
        }
    }

    fn begin(&mut self, number: u64, workers: Vec<u64>) {
        assert_eq!(number, self.number + 1, "rounds are numbered");
        self.number = number;
        let size = workers.len();
        // One that is to leave gives its state to another one.
        assert!(size <= self.limits.max.max(2), "{size} ranks");
        assert!(
            size >= self.limits.min || self.roster.is_finishing(),
            "{size} ranks"
        );
        for n in &workers {
            let activity = self.workers[n].activity;
            let waits = matches!(activity, Activity::Waits | Activity::Stopped { .. });
            assert!(
                waits,
                "worker {n}, which is {activity:?}, is in round {number}"
            );
        }
        // No commit of a rank of the round is lost.
        let first = self.workers[&workers[0]].commits;
        let most = self.workers.iter().filter(|(n, _)| workers.contains(n));
        let most = most.map(|(_, w)| w.commits).max().unwrap_or(0);
        assert_eq!(first, most, "rank 0 has committed most");
        let held = self.living().iter().any(|n| self.workers[n].commits > 0);
        assert!(
            first > 0 || self.committed == 0 || held,
            "a round begins from nothing after {} commits",
            self.committed
        );
        assert!(
            first + 1 >= self.committed,
            "{first} of {} commits",
            self.committed
        );
        for n in &workers {
            let worker = self.worker(*n);
            worker.initial = Some(first);
            worker.notified = false;
            if worker.activity == Activity::Waits {
                worker.activity = Activity::Trains { round: number };
            }
        }
        self.round = workers;
        self.next_commit = self.tick + 1;
    }

    /// Runs the job to its end. Returns the number of rounds, and the reason if it could not go on.
    fn run(mut self) -> (u64, Option<String>) {
        while self.tick < MAX_TICKS {
            if self.tick < FAULT_TICKS && self.random.one_in(60) {
                self.fault();
            }
            // As a launcher does if there are too few workers.
            let few = self.living().len() < self.limits.start;
            if few && !self.roster.is_finishing() && self.random.one_in(100) {
                self.start();
            }
            self.act();
            let now = TICK * u32::try_from(self.tick).unwrap();
            for change in self.roster.poll(now) {
                self.apply(change);
            }
            let running = self.living();
            let done = self.workers.values().any(|w| w.activity == Activity::Done);
            if self.ended.is_some() || done && running.is_empty() {
                return (self.number, self.ended);
            }
            self.tick += 1;
        }
        panic!("it hangs: {:?}, {:?}", self.roster, self.workers);
    }
}

#[test]
fn a_worker_that_is_to_leave_stays_until_another_one_has_the_state() {
    let mut roster = Roster::new(ElasticLimits {
        timeout: Duration::from_secs(30),
        ..ElasticLimits::of(2)
    });
    let round = |number, workers: &[u64]| Change::Round {
        number,
        workers: workers.to_vec(),
    };
    let dropped = |changes: &[Change]| -> Vec<u64> {
        let worker = |c: &Change| match c {
            Change::Dropped { worker, .. } => Some(*worker),
            _ => None,
        };
        changes.iter().filter_map(worker).collect()
    };
    let at = Duration::from_secs;
    for worker in [0, 1] {
        roster.add(worker);
        roster.ready(worker, 0);
    }
    assert_eq!(roster.poll(at(0)), [round(1, &[0, 1])]);
    // All hosts are replaced in one answer.
    roster.leave(0);
    roster.leave(1);
    assert_eq!(roster.poll(at(1)), [0, 1].map(Change::EndRound));
    roster.ready(0, 7);
    roster.ready(1, 7);
    assert_eq!(dropped(&roster.poll(at(2))), [1]);
    roster.add(2);
    roster.ready(2, 0);
    // Worker 0 gives it the state, and is told to leave at the next commit.
    assert_eq!(roster.poll(at(10)), [round(2, &[0, 2])]);
    assert_eq!(roster.poll(at(11)), [0, 2].map(Change::EndRound));
    roster.ready(0, 8);
    assert_eq!(roster.poll(at(12)), []);
    roster.ready(2, 8);
    let changes = roster.poll(at(12));
    assert_eq!(dropped(&changes), [0]);
    assert_eq!(changes[1..], [round(3, &[2])]);

    // No other one comes: the job ends at its timeout.
    roster.leave(2);
    assert_eq!(roster.poll(at(20)), [Change::EndRound(2)]);
    roster.ready(2, 9);
    assert_eq!(roster.poll(at(21)), []);
    let changes = roster.poll(at(60));
    let [Change::Ended(why)] = &changes[..] else {
        panic!("{changes:?}")
    };
    assert!(why.starts_with("0 workers are there after"), "{why}");
}

#[test]
fn an_elastic_job_ends_and_loses_no_commit_of_a_live_rank() {
    let seeds = |name: &str| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let all = match seeds("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..seeds("SEEDS").unwrap_or(300),
    };
    let (mut done, mut rounds) = (0, 0);
    let count = all.end - all.start;
    for seed in all {
        let ran = std::panic::catch_unwind(|| SimJob::new(seed).run());
        let (of_job, ended) = ran.unwrap_or_else(|_| panic!("SEED={seed}"));
        rounds += of_job;
        match ended {
            None => done += 1,
            Some(why) => assert!(
                why.contains("are lost") || why.contains("a round needs"),
                "SEED={seed}: {why}"
            ),
        }
    }
    println!("{count} jobs, {rounds} rounds, {done} jobs done");
    assert!(done * 2 > count, "{done} of {count} jobs did their work");
}
