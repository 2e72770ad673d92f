//! Faults of a cluster's processes: tasks are killed, stopped and restarted while a small model trains. No task hangs,
//! every task gets an error, and the training goes on.
//!
//! `FAULTS=300 SEED=1 cargo test -p thalweg-tests --test outages faults::hundreds -- --ignored --nocapture` is the long
//! form; it prints the faults, and the time until the other tasks noticed.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use thalweg::dist::Timeouts;
use thalweg_tests::endless_training;
use thalweg_tests::processes::{self, TaskLine};
use thalweg_tests::servers::free_addresses;

/// Heartbeat timeout, after which the others take a silent task for lost.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(1);
/// Most time without a line of a living task, whatever happens to the others.
const MAX_SILENCE: Duration = Duration::from_secs(5);
/// Most time until the training goes on once all tasks are up.
const MAX_RECOVERY: Duration = Duration::from_secs(20);

#[test]
#[ignore = "the body of a task's process, which the other tests start"]
fn a_task() {
    let timeouts = Timeouts::new()
        .heartbeat(HEARTBEAT_TIMEOUT)
        .connect(MAX_SILENCE / 2);
    let server = processes::server(timeouts);
    if server.task().0 == "ps" {
        server.join().unwrap();
    }
    endless_training::train(&server, timeouts);
}

struct TaskProcess {
    job: &'static str,
    index: usize,
    child: Child,
    generation: usize,
    heard: Instant,
    stepped: Option<Instant>,
    stopped: bool,
}

struct FaultyCluster {
    tasks: Vec<TaskProcess>,
    hosts: [String; 2],
    lines: Receiver<TaskLine>,
    sender: Sender<TaskLine>,
    /// Numbers of errors by kind.
    errors: BTreeMap<String, usize>,
}

impl Drop for FaultyCluster {
    fn drop(&mut self) {
        for task in &mut self.tasks {
            // It may have ended already.
            let _ = task.child.kill();
            let _ = task.child.wait();
        }
    }
}

fn start(
    hosts: &[String; 2],
    job: &str,
    index: usize,
    number: usize,
    generation: usize,
    to: &Sender<TaskLine>,
) -> Child {
    let mut child = processes::task("faults::a_task", job, index, hosts)
        .spawn()
        .unwrap();
    processes::forward_lines(&mut child, number, generation, to);
    child
}

impl FaultyCluster {
    fn new(ps: usize, workers: usize) -> FaultyCluster {
        let all = free_addresses(ps + workers);
        let hosts = [all[..ps].join(","), all[ps..].join(",")];
        let (sender, lines) = channel();
        let mut cluster = FaultyCluster {
            tasks: Vec::new(),
            hosts,
            lines,
            sender,
            errors: BTreeMap::new(),
        };
        for (job, count) in [("ps", ps), ("worker", workers)] {
            for index in 0..count {
                let number = cluster.tasks.len();
                let child = start(&cluster.hosts, job, index, number, 0, &cluster.sender);
                cluster.tasks.push(TaskProcess {
                    job,
                    index,
                    child,
                    generation: 0,
                    heard: Instant::now(),
                    stepped: None,
                    stopped: false,
                });
            }
        }
        cluster
    }

    fn signal(&self, task: usize, name: &str) {
        let id = self.tasks[task].child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success(), "kill -s {name} {id}");
    }

    /// Reads the tasks' lines for a while; panics if a living task is silent for too long.
    fn read_lines(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            while let Ok(said) = self.lines.recv_timeout(Duration::from_millis(10)) {
                let task = &mut self.tasks[said.from];
                if task.generation != said.generation {
                    continue;
                }
                task.heard = Instant::now();
                if said.line.starts_with("step") {
                    task.stepped = Some(task.heard);
                } else if let Some(code) = said.line.split(' ').nth(1) {
                    *self.errors.entry(code.to_owned()).or_default() += 1;
                }
                if Instant::now() >= end {
                    break;
                }
            }
            for task in &mut self.tasks {
                if task.job == "ps" || task.stopped {
                    continue;
                }
                let silent = task.heard.elapsed();
                assert!(
                    silent < MAX_SILENCE,
                    "worker {} hangs: silent for {silent:?}",
                    task.index
                );
                let ended = task.child.try_wait().unwrap();
                assert!(
                    ended.is_none(),
                    "worker {} has ended: {ended:?}",
                    task.index
                );
            }
            if Instant::now() >= end {
                return;
            }
        }
    }

    /// Waits until every worker has done a step that began now or later; returns the time of the wait.
    fn resume(&mut self) -> Duration {
        let began = Instant::now();
        loop {
            self.read_lines(Duration::from_millis(20));
            let workers = self.tasks.iter().filter(|t| t.job == "worker");
            if workers
                .clone()
                .all(|t| t.stepped.is_some_and(|s| s > began))
            {
                return began.elapsed();
            }
            assert!(
                began.elapsed() < MAX_RECOVERY,
                "the training does not go on"
            );
        }
    }

    fn kill(&mut self, task: usize) {
        let task = &mut self.tasks[task];
        task.child.kill().unwrap();
        task.child.wait().unwrap();
        task.stopped = true;
    }

    fn restart(&mut self, number: usize) {
        let generation = self.tasks[number].generation + 1;
        let (job, index) = (self.tasks[number].job, self.tasks[number].index);
        let child = start(&self.hosts, job, index, number, generation, &self.sender);
        let task = &mut self.tasks[number];
        task.child = child;
        task.generation = generation;
        task.heard = Instant::now();
        task.stopped = false;
    }
}

/// Open files of a process, and its memory in KiB.
fn resources(child: &Child) -> Option<(usize, usize)> {
    let files = std::fs::read_dir(format!("/proc/{}/fd", child.id())).ok()?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let memory = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let memory = memory.split_whitespace().next()?.parse().ok()?;
    Some((files.count(), memory))
}

fn faults(count: usize, seed: u64, loud: bool) {
    // SplitMix64.
    let mut state = seed;
    let mut below = |n: u64| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    };
    let mut cluster = FaultyCluster::new(2, 2);
    cluster.resume();
    let mut resumed = Vec::new();
    for number in 0..count {
        let task = below(cluster.tasks.len() as u64) as usize;
        let pause = Duration::from_millis(below(1500));
        let name = format!("{} {}", cluster.tasks[task].job, cluster.tasks[task].index);
        let what = match below(3) {
            0 => {
                cluster.kill(task);
                cluster.read_lines(pause);
                cluster.restart(task);
                "killed, and started again"
            }
            1 => {
                // Two faults at once.
                let other = (task + 1) % cluster.tasks.len();
                cluster.kill(task);
                cluster.kill(other);
                cluster.read_lines(pause);
                cluster.restart(other);
                cluster.restart(task);
                "killed with another one, and started again"
            }
            _ => {
                cluster.tasks[task].stopped = true;
                cluster.signal(task, "STOP");
                cluster.read_lines(HEARTBEAT_TIMEOUT + pause);
                cluster.signal(task, "CONT");
                cluster.tasks[task].stopped = false;
                cluster.tasks[task].heard = Instant::now();
                "stopped, and let go on"
            }
        };
        let after = cluster.resume();
        resumed.push(after);
        if loud {
            println!(
                "{number:4} {name} was {what}, after {pause:?}; all train again after {after:?}"
            );
        }
    }
    for task in &cluster.tasks {
        if let Some((files, memory)) = resources(&task.child) {
            assert!(
                files < 100,
                "{} {} has {files} open files",
                task.job,
                task.index
            );
            assert!(
                memory < 400 << 10,
                "{} {} has {memory} KiB",
                task.job,
                task.index
            );
        }
    }
    resumed.sort();
    println!(
        "{count} faults, seed {seed}: training went on after {:?} (median), {:?} (longest); errors told: {:?}",
        resumed[resumed.len() / 2],
        resumed[resumed.len() - 1],
        cluster.errors
    );
}

#[test]
fn killed_and_stopped_tasks_hang_no_other_and_the_training_goes_on() {
    faults(6, 7, false);
}

#[test]
#[ignore = "takes a quarter of an hour: see the top of this file"]
fn hundreds_of_faults() {
    let number = |name: &str, other: u64| {
        let given = std::env::var(name).ok();
        given.map_or(other, |v| v.parse().unwrap())
    };
    faults(number("FAULTS", 300) as usize, number("SEED", 1), true);
}
