//! The cluster of the soak: its tasks as processes on hosts of their own.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use thalweg::checkpoint::state;
use thalweg_tests::network::Network;
use thalweg_tests::processes::{self, TaskLine};

use super::keys::Keys;
use super::tasks::{FOLDER, IN_STEP, KEYS};
use super::{SERVERS, WORKERS};

/// The host of clients.
pub const CLIENT_HOST: usize = SERVERS + WORKERS;
/// The port of each task.
const PORT: u16 = 2222;

/// One task.
pub struct SoakTask {
    pub job: &'static str,
    pub index: usize,
    child: Child,
    generation: usize,
    pub started: Instant,
    /// `true` while a fault affects it.
    pub disturbed: bool,
    stepped: Option<Instant>,
    /// `true` if a fault or a request ended it.
    expected: bool,
}

impl SoakTask {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its name.
    pub fn name(&self) -> String {
        format!("{} {}", self.job, self.index)
    }
}

/// Statistics of the tasks' lines.
#[derive(Default)]
pub struct Statistics {
    pub steps: u64,
    /// The greatest global step.
    pub greatest: u64,
    pub panics: usize,
    /// Number of tasks that have ended without SIGTERM or a fault.
    pub ended: usize,
    /// Counts of the errors that tasks reported, and of the last lines of those that ended by themselves, shortened.
    told: BTreeMap<String, usize>,
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} steps, the greatest global step is {}",
            self.steps, self.greatest
        )?;
        for (what, count) in &self.told {
            writeln!(f, "{count} x {what}")?;
        }
        Ok(())
    }
}

/// All tasks, and the network between them.
pub struct Cluster {
    pub network: Network,
    pub tasks: Vec<SoakTask>,
    hosts: [String; 2],
    folder: PathBuf,
    /// Trains the workers synchronously.
    in_step: bool,
    /// Keys and certificates of the cluster.
    pub keys: Option<Keys>,
    lines: Receiver<TaskLine>,
    sender: Sender<TaskLine>,
    statistics: Statistics,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for task in &mut self.tasks {
            // It may have ended already.
            let _ = task.child.kill();
            let _ = task.child.wait();
        }
    }
}

impl Cluster {
    /// Starts all tasks; `None` where there are no network namespaces.
    pub fn start(folder: &Path, protected: bool, in_step: bool) -> Option<Cluster> {
        let network = Network::new(SERVERS + WORKERS + 1)?;
        let address = |host| format!("{}:{PORT}", network.address(host));
        let all: Vec<String> = (0..SERVERS + WORKERS).map(address).collect();
        let hosts = [all[..SERVERS].join(","), all[SERVERS..].join(",")];
        let keys = protected.then(|| Keys::new(&network));
        let (sender, lines) = channel();
        let mut cluster = Cluster {
            network,
            tasks: Vec::new(),
            hosts,
            folder: folder.join("checkpoints"),
            keys,
            in_step,
            lines,
            sender,
            statistics: Statistics::default(),
        };
        for host in 0..SERVERS + WORKERS {
            let (job, index) = match host.checked_sub(SERVERS) {
                None => ("ps", host),
                Some(index) => ("worker", index),
            };
            let child = cluster.process(host, job, index, 0);
            cluster.tasks.push(SoakTask {
                job,
                index,
                child,
                generation: 0,
                started: Instant::now(),
                disturbed: false,
                stepped: None,
                expected: false,
            });
        }
        Some(cluster)
    }

    fn process(&self, host: usize, job: &str, index: usize, generation: usize) -> Child {
        let mut command = processes::task("soak::tasks::a_task", job, index, &self.hosts);
        command
            .env(FOLDER, &self.folder)
            .envs(self.keys.iter().map(|keys| (KEYS, keys.folder())))
            .stdin(Stdio::piped())
            .stderr(Stdio::piped());
        if self.in_step {
            command.env(IN_STEP, "1");
        }
        let mut child = self.network.start(host, &mut command).unwrap();
        processes::forward_lines(&mut child, host, generation, &self.sender);
        processes::forward_panics(&mut child, host, generation, &self.sender);
        child
    }

    /// The target of clients of a parameter server.
    pub fn target(&self, server: usize) -> String {
        format!("{}:{PORT}", self.network.address(server))
    }

    /// Starts a client on the host of clients.
    pub fn client(&self, what: &str, server: usize) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["soak::hostile::a_client", "--exact", "--ignored"])
            .envs(self.keys.iter().map(|keys| (KEYS, keys.folder())))
            .env(
                super::hostile::CLIENT,
                format!("{what} {}", self.target(server)),
            )
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.network.start(CLIENT_HOST, &mut command).unwrap()
    }

    /// Sends SIGTERM to all tasks, the workers first; returns the time until all have ended. Synchronous workers end
    /// when their coordinator does.
    pub fn drain(&mut self, limit: Duration) -> Duration {
        let began = Instant::now();
        self.tasks.iter_mut().for_each(|t| t.expected = true);
        if self.in_step {
            self.signal(0, "TERM");
            self.wait_for_end("worker", limit);
            self.wait_for_end("ps", limit);
            return began.elapsed();
        }
        for first in ["worker", "ps"] {
            for number in 0..self.tasks.len() {
                if self.tasks[number].job == first {
                    self.signal(number, "TERM");
                }
            }
            self.wait_for_end(first, limit);
        }
        began.elapsed()
    }

    /// Waits until all tasks of this job have ended.
    fn wait_for_end(&mut self, job: &str, limit: Duration) {
        let began = Instant::now();
        loop {
            self.read_lines(Duration::from_millis(50));
            let ended = |t: &mut SoakTask| t.child.try_wait().unwrap().is_some();
            let left: Vec<String> = (self.tasks.iter_mut())
                .filter_map(|t| (t.job == job && !ended(t)).then(|| t.name()))
                .collect();
            if left.is_empty() {
                return;
            }
            assert!(began.elapsed() < limit, "{left:?} do not end");
        }
    }

    /// Sends a signal to a task.
    pub fn signal(&self, task: usize, name: &str) {
        let id = self.tasks[task].id().to_string();
        // An error means that it has ended by itself, which is reported elsewhere.
        let _ = Command::new("kill").args(["-s", name, &id]).status();
    }

    /// Kills a task.
    pub fn kill(&mut self, task: usize) {
        let task = &mut self.tasks[task];
        task.expected = true;
        let _ = task.child.kill();
        let _ = task.child.wait();
    }

    /// The newest checkpoint.
    pub fn checkpoint(&self) -> PathBuf {
        let newest = state::latest_checkpoint(&self.folder).unwrap();
        newest.expect("a checkpoint")
    }

    /// Starts a task that was killed, or has ended.
    pub fn restart(&mut self, number: usize) {
        let (job, index) = (self.tasks[number].job, self.tasks[number].index);
        let generation = self.tasks[number].generation + 1;
        let child = self.process(number, job, index, generation);
        let task = &mut self.tasks[number];
        task.child = child;
        task.generation = generation;
        task.started = Instant::now();
        task.expected = false;
        task.stepped = None;
    }

    /// Reads the tasks' lines for a while, and restarts tasks that have ended by themselves.
    pub fn read_lines(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while let Some(rest) = end.checked_duration_since(Instant::now()) {
            let Ok(said) = self.lines.recv_timeout(rest) else {
                break;
            };
            self.note(said);
        }
        for number in 0..self.tasks.len() {
            let task = &mut self.tasks[number];
            if task.expected || task.child.try_wait().unwrap().is_none() {
                continue;
            }
            let name = task.job;
            self.statistics.ended += 1;
            let text = format!("a {name} ended by itself, and was started again");
            *self.statistics.told.entry(text).or_default() += 1;
            self.restart(number);
        }
    }

    fn note(&mut self, said: TaskLine) {
        let task = &mut self.tasks[said.from];
        if said.line.contains("panicked") {
            self.statistics.panics += 1;
            println!("{}: {}", task.name(), said.line);
        }
        if let Some(step) = said.line.strip_prefix("step ") {
            self.statistics.steps += 1;
            let step = step.parse().unwrap_or(0);
            self.statistics.greatest = self.statistics.greatest.max(step);
            if said.generation == task.generation {
                task.stepped = Some(Instant::now());
            }
        } else if let Some(why) = said.line.strip_prefix("ended ") {
            println!("        {} ended: {why}", task.name());
            let short: String = why.chars().take(60).collect();
            *self.statistics.told.entry(short).or_default() += 1;
        } else if said.line.starts_with("error") {
            let short: Vec<&str> = said.line.split(' ').take(2).collect();
            *self.statistics.told.entry(short.join(" ")).or_default() += 1;
        } else if said.line.starts_with("wrong") {
            panic!("{}: {}", task.name(), said.line);
        }
    }

    /// Waits until each worker has made a step from now on; returns the time of the wait.
    pub fn wait_for_steps_of_all(&mut self, limit: Duration) -> Duration {
        let began = Instant::now();
        loop {
            self.read_lines(Duration::from_millis(20));
            let mut workers = self.tasks.iter().filter(|t| t.job == "worker");
            if workers.all(|t| t.stepped.is_some_and(|s| s > began)) {
                return began.elapsed();
            }
            let since =
                |t: &SoakTask| format!("{}: {:?}", t.name(), t.stepped.map(|s| s.elapsed()));
            assert!(
                began.elapsed() < limit,
                "not all workers train: {:?}",
                self.tasks.iter().map(since).collect::<Vec<_>>()
            );
        }
    }

    /// The statistics so far.
    pub fn statistics(&mut self) -> Statistics {
        self.read_lines(Duration::from_millis(100));
        std::mem::take(&mut self.statistics)
    }
}
