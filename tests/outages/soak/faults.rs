//! The faults of the soak: they begin one at a time, and each ends after a while.

use std::collections::BTreeMap;
use std::process::Child;
use std::time::{Duration, Instant};

use thalweg_examples::report::table;

use super::cluster::Cluster;
use super::{MAX_RECOVERY, SERVERS, SHUTDOWN_TIMEOUT, WORKERS};
use crate::small_disk::SmallDisk;

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// `kill -9` of a worker, which is started again.
    KillWorker,
    /// `kill -9` of a parameter server, which is started again: its variables come from the newest checkpoint.
    KillServer,
    /// SIGSTOP of a worker.
    StopWorker,
    /// SIGSTOP of a parameter server.
    StopServer,
    /// A cable that is pulled.
    CutLink,
    /// A cable of 2 Mbit/s, with 50 ms.
    SlowLink,
    /// No room for checkpoints.
    FullDisk,
    /// Clients that send garbage, hold idle connections, or send small messages that expand to large ones.
    HostileClient,
    /// A client that opens sessions and is killed.
    VanishedClient,
    /// A graph that asks for more memory than there is.
    LargeGraph,
    /// New certificates and a new token, in three steps.
    NewKeys,
    /// SIGTERM for all tasks, which are then started again.
    RestartAll,
}

const ALL: [Fault; 12] = [
    Fault::KillWorker,
    Fault::KillServer,
    Fault::StopWorker,
    Fault::StopServer,
    Fault::CutLink,
    Fault::SlowLink,
    Fault::FullDisk,
    Fault::HostileClient,
    Fault::VanishedClient,
    Fault::LargeGraph,
    Fault::NewKeys,
    Fault::RestartAll,
];

/// Most time until a client gets an answer or an error, whatever affects the server.
const CLIENT_DEADLINE: Duration = Duration::from_secs(90);
/// Time between the steps of a replacement of certificates.
const RENEWAL_PAUSE: Duration = Duration::from_secs(4);
/// Least time between two restarts of all tasks: samples of their memory need older processes.
const MIN_RESTART_INTERVAL: Duration = Duration::from_secs(60);

impl Fault {
    /// `true` for faults that affect neither a task nor its cable.
    fn is_from_outside(self) -> bool {
        matches!(
            self,
            Fault::HostileClient
                | Fault::VanishedClient
                | Fault::LargeGraph
                | Fault::FullDisk
                | Fault::NewKeys
                | Fault::RestartAll
        )
    }
}

/// A fault in progress, and its end.
struct ActiveFault {
    over: Instant,
    end: FaultEnd,
}

enum FaultEnd {
    Restart(usize),
    Continue(usize),
    Mend(usize),
    Free,
    /// The steps of a replacement of certificates that are left.
    Renew(&'static [&'static str]),
    /// A client, and the deadline for its successful end, if it has to succeed.
    Client(Child, Option<Instant>),
}

/// The faults in progress, and counts of past ones.
pub struct Faults {
    state: u64,
    begun: Vec<ActiveFault>,
    counts: BTreeMap<Fault, usize>,
    /// Time of the last start of all tasks.
    started: Instant,
    /// Time from which on the last server and the last worker are not restarted.
    settled: Instant,
    /// Number of clients with a wrong answer.
    pub wrong: usize,
}

impl Faults {
    pub fn new(seed: u64, settled: Instant) -> Faults {
        Faults {
            state: seed,
            settled,
            begun: Vec::new(),
            counts: BTreeMap::new(),
            started: Instant::now(),
            wrong: 0,
        }
    }

    /// SplitMix64 (Steele, Lea and Flood, 2014).
    fn below(&mut self, most: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % most as u64) as usize
    }

    /// Draws a fault and an undisturbed task for it.
    fn draw(&mut self, cluster: &Cluster) -> (Fault, usize) {
        loop {
            let fault = ALL[self.below(ALL.len())];
            let task = match fault {
                Fault::KillWorker | Fault::StopWorker => SERVERS + self.below(WORKERS),
                Fault::CutLink | Fault::SlowLink => self.below(SERVERS + WORKERS),
                _ => self.below(SERVERS),
            };
            let renews = |b: &ActiveFault| matches!(b.end, FaultEnd::Renew(_));
            let settled = Instant::now() > self.settled;
            let stays = task + 1 == SERVERS || task + 1 == SERVERS + WORKERS;
            let may = match fault {
                Fault::KillServer | Fault::KillWorker => !(settled && stays),
                Fault::NewKeys => cluster.keys.is_some() && !self.begun.iter().any(renews),
                Fault::RestartAll => !settled && self.started.elapsed() > MIN_RESTART_INTERVAL,
                _ => true,
            };
            if !may {
                continue;
            }
            if fault.is_from_outside() || !cluster.tasks[task].disturbed {
                return (fault, task);
            }
        }
    }

    /// Begins a fault; returns its description.
    pub fn begin(&mut self, cluster: &mut Cluster, disk: &SmallDisk) -> String {
        let (fault, task) = self.draw(cluster);
        if fault == Fault::RestartAll {
            return self.restart_all(cluster, disk);
        }
        let time = Duration::from_millis(1000 + self.below(5000) as u64);
        let mut what = format!("{fault:?} {} for {time:?}", cluster.tasks[task].name());
        let end = match fault {
            Fault::KillWorker | Fault::KillServer => {
                cluster.kill(task);
                FaultEnd::Restart(task)
            }
            Fault::StopWorker | Fault::StopServer => {
                cluster.signal(task, "STOP");
                FaultEnd::Continue(task)
            }
            Fault::CutLink => {
                cluster.network.change(task, |c| c.pulled = true);
                FaultEnd::Mend(task)
            }
            Fault::SlowLink => {
                cluster.network.change(task, |c| {
                    c.rate = 2_000_000;
                    c.delay = Duration::from_millis(50);
                });
                FaultEnd::Mend(task)
            }
            Fault::FullDisk => {
                disk.fill();
                what = format!("{fault:?} for {time:?}");
                FaultEnd::Free
            }
            Fault::NewKeys => {
                what = format!("{fault:?}");
                cluster.keys.iter().for_each(|k| k.renew("add"));
                FaultEnd::Renew(&["switch", "drop"])
            }
            // See above.
            Fault::RestartAll => FaultEnd::Free,
            Fault::HostileClient => {
                let kind = ["garbage", "idle", "bomb"][self.below(3)];
                what = format!("{fault:?} {kind} at {}", cluster.tasks[task].name());
                FaultEnd::Client(cluster.client(kind, task), None)
            }
            Fault::VanishedClient => FaultEnd::Client(cluster.client("vanish", task), None),
            Fault::LargeGraph => {
                let limit = Some(Instant::now() + CLIENT_DEADLINE);
                FaultEnd::Client(cluster.client("large", task), limit)
            }
        };
        cluster.tasks[task].disturbed |= !fault.is_from_outside();
        *self.counts.entry(fault).or_default() += 1;
        let time = if fault == Fault::NewKeys {
            RENEWAL_PAUSE
        } else {
            time
        };
        let over = Instant::now() + time;
        self.begun.push(ActiveFault { over, end });
        what
    }

    fn restart_all(&mut self, cluster: &mut Cluster, disk: &SmallDisk) -> String {
        self.end_all(cluster, disk);
        // A process that has just been started has no handler of SIGTERM yet.
        cluster.wait_for_steps_of_all(MAX_RECOVERY);
        let took = cluster.drain(SHUTDOWN_TIMEOUT);
        for task in 0..cluster.tasks.len() {
            cluster.restart(task);
        }
        self.started = Instant::now();
        *self.counts.entry(Fault::RestartAll).or_default() += 1;
        format!("RestartAll: all tasks ended {took:?} after SIGTERM")
    }

    /// Ends the faults whose time is over.
    pub fn end_due(&mut self, cluster: &mut Cluster, disk: &SmallDisk) {
        let now = Instant::now();
        let over = self.begun.extract_if(.., |b| b.over <= now);
        for begun in over.collect::<Vec<_>>() {
            self.end(begun, cluster, disk);
        }
    }

    /// Ends all faults.
    pub fn end_all(&mut self, cluster: &mut Cluster, disk: &SmallDisk) {
        while let Some(begun) = self.begun.pop() {
            if matches!(begun.end, FaultEnd::Renew(_)) {
                // Between two steps the tasks have time to read the new files.
                std::thread::sleep(RENEWAL_PAUSE.saturating_sub(begun.over.elapsed()));
            }
            self.end(begun, cluster, disk);
        }
    }

    fn end(&mut self, begun: ActiveFault, cluster: &mut Cluster, disk: &SmallDisk) {
        match begun.end {
            FaultEnd::Restart(task) => {
                cluster.restart(task);
                cluster.tasks[task].disturbed = false;
            }
            FaultEnd::Continue(task) => {
                cluster.signal(task, "CONT");
                cluster.tasks[task].disturbed = false;
            }
            FaultEnd::Mend(host) => {
                cluster.network.change(host, |c| *c = Default::default());
                cluster.tasks[host].disturbed = false;
            }
            FaultEnd::Free => disk.free(),
            FaultEnd::Renew(steps) => {
                let Some((step, left)) = steps.split_first() else {
                    return;
                };
                cluster.keys.iter().for_each(|k| k.renew(step));
                self.begun.push(ActiveFault {
                    over: Instant::now() + RENEWAL_PAUSE,
                    end: FaultEnd::Renew(left),
                });
            }
            FaultEnd::Client(mut child, answered) => {
                let ended = child.try_wait().unwrap();
                if ended.is_none() && answered.is_some_and(|limit| Instant::now() < limit) {
                    self.begun.push(ActiveFault {
                        over: Instant::now() + Duration::from_millis(200),
                        end: FaultEnd::Client(child, answered),
                    });
                    return;
                }
                let _ = child.kill();
                let _ = child.wait();
                if answered.is_some() && !ended.is_some_and(|s| s.success()) {
                    self.wrong += 1;
                    println!("        a client was not answered as it should be");
                }
            }
        }
    }

    /// Counts of faults, as a table.
    pub fn table(&self) -> String {
        let row = |(fault, count): (&Fault, &usize)| [format!("{fault:?}"), count.to_string()];
        table(["fault", "times"], self.counts.iter().map(row))
    }
}
