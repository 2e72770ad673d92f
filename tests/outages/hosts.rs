//! A cluster on several emulated hosts, whose cables are slow, lossy or pulled: the training goes on with the right
//! values, or reports an error; no task hangs.
//!
//! The hosts are network namespaces of this machine (`support/network.rs`); where there are none, the tests are skipped
//! with a message. With `REQUIRE_NETNS=1` they fail.
#![cfg(target_os = "linux")]

use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use thalweg::dist::{ClusterOptions, Session, Timeouts};
use thalweg::prelude::*;
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tests::endless_training;
use thalweg_tests::network::Network;
use thalweg_tests::processes::{self, TaskLine, send_error, send_line};

/// Heartbeat timeout, after which the others take a silent task for lost.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of every wait.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);
/// Most time beyond [`HEARTBEAT_TIMEOUT`] until a task reports a loss.
const REPORT_MARGIN: Duration = Duration::from_secs(5);
/// The elements of a parameter of 4 MiB.
const LARGE: usize = 1 << 20;

fn timeouts() -> Timeouts {
    Timeouts::new()
        .heartbeat(HEARTBEAT_TIMEOUT)
        .connect(WAIT_TIMEOUT)
}

#[test]
#[ignore = "the body of a task's process, which the other tests start"]
fn a_parameter_server() {
    let server = processes::server(timeouts());
    let mut before = None;
    loop {
        let present = server.present("worker");
        if before.as_ref() != Some(&present) {
            send_line(&format!("present {present:?}"));
            before = Some(present);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "the body of a task's process, which the other tests start"]
fn a_trainer() {
    endless_training::train(&processes::server(timeouts()), timeouts());
}

#[test]
#[ignore = "the body of a task's process, which the other tests start"]
fn a_reader_of_a_large_parameter() {
    let server = processes::server(timeouts());
    let g = Graph::new();
    let values: Vec<f32> = (0..LARGE).map(|i| i as f32).collect();
    let w = g.device("/job:ps/task:0", || g.variable("w", values.clone()));
    let options = ClusterOptions::new().timeouts(timeouts());
    let session = Session::on(&server, &g, options).unwrap();
    let began = Instant::now();
    if let Err(e) = session.step(w.initializer(), []) {
        return send_error(&e);
    }
    send_line(&format!("written {}", began.elapsed().as_micros()));
    loop {
        let began = Instant::now();
        match session.step(w, []) {
            Ok(found) if found.slice::<f32>(0).unwrap() == values => {
                send_line(&format!("read {}", began.elapsed().as_micros()));
            }
            Ok(_) => send_line("wrong"),
            Err(e) => return send_error(&e),
        }
    }
}

/// Reads a variable of 512 KiB over a slow cable; a second worker runs small steps meanwhile.
#[test]
#[ignore = "the body of a task's process, which the other tests start"]
fn a_reader_and_a_worker_on_the_same_cable() {
    const ELEMENTS: usize = 128 << 10;
    let server = processes::server(timeouts());
    let g = Graph::new();
    let (large, small) = g.device("/job:ps/task:0", || {
        let values: Vec<f32> = (0..ELEMENTS).map(|i| i as f32).collect();
        (g.variable("large", values), g.variable("small", 1.0f32))
    });
    let options = ClusterOptions::new().timeouts(timeouts());
    let session = Session::on(&server, &g, options).unwrap();
    let (init, read, what) = match server.task().1 {
        0 => (large.initializer(), large.value(), "read"),
        _ => (small.initializer(), small.value(), "step"),
    };
    let mut found = session.step(init, []);
    while found.is_ok() {
        send_line(what);
        let began = Instant::now();
        found = session.step(read, []);
        send_line(&format!("took {}", began.elapsed().as_micros()));
        std::thread::sleep(Duration::from_millis(50));
    }
    send_error(&found.unwrap_err());
}

/// A parameter server and workers, each on a host of its own.
struct HostCluster {
    network: Network,
    tasks: Vec<Child>,
    lines: Receiver<TaskLine>,
    /// Lines so far, with the hosts that printed them.
    said: Vec<(usize, String)>,
    /// Serializes the tests, which would wait for each other's processors.
    _alone: MutexGuard<'static, ()>,
}

/// Host of the parameter server; the workers are on the next ones.
const PS: usize = 0;

impl Drop for HostCluster {
    fn drop(&mut self) {
        for task in &mut self.tasks {
            // One that has ended is no error.
            let _ = task.kill();
            let _ = task.wait();
        }
    }
}

impl HostCluster {
    /// `None` where this machine has no namespaces.
    fn new(workers: usize, body: &str, prepare: impl FnOnce(&Network)) -> Option<HostCluster> {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unpoisoned();
        let network = Network::new(1 + workers)?;
        prepare(&network);
        let (sender, lines) = channel();
        let address = |host| format!("{}:2222", network.address(host));
        let others: Vec<String> = (1..=workers).map(address).collect();
        let hosts = [address(PS), others.join(",")];
        let mut tasks = Vec::new();
        for host in 0..=workers {
            let mut command = match host {
                PS => processes::task("hosts::a_parameter_server", "ps", 0, &hosts),
                _ => processes::task(&format!("hosts::{body}"), "worker", host - 1, &hosts),
            };
            let mut child = network.start(host, &mut command).unwrap();
            processes::forward_lines(&mut child, host, 0, &sender);
            tasks.push(child);
        }
        Some(HostCluster {
            network,
            tasks,
            lines,
            said: Vec::new(),
            _alone: alone,
        })
    }

    /// Waits until `host` prints a line that begins with `begins`; returns the line, and the time of the wait.
    fn wait(&mut self, host: usize, begins: &str, limit: Duration) -> (String, Duration) {
        let began = Instant::now();
        while let Some(rest) = limit.checked_sub(began.elapsed()) {
            let Ok(said) = self.lines.recv_timeout(rest) else {
                break;
            };
            let found = said.from == host && said.line.starts_with(begins);
            self.said.push((said.from, said.line.clone()));
            if found {
                return (said.line, began.elapsed());
            }
        }
        let last = &self.said[self.said.len().saturating_sub(20)..];
        panic!("'{begins}' is not heard from {host} within {limit:?}: {last:#?}");
    }

    /// Reads the tasks' lines for a while.
    fn read_lines(&mut self, time: Duration) {
        let end = Instant::now() + time;
        let rest = || end.saturating_duration_since(Instant::now());
        while let Ok(said) = self.lines.recv_timeout(rest()) {
            self.said.push((said.from, said.line));
        }
    }

    /// The steps that a host has printed: updates before each, loss, time.
    fn steps(&self, host: usize) -> Vec<(i64, f32, Duration)> {
        let of_host = self.said.iter().filter(|(from, _)| *from == host);
        let steps = of_host.filter_map(|(_, line)| line.strip_prefix("step "));
        let step = |line: &str| {
            let [count, loss, time] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("'{line}' is no step");
            };
            let time = Duration::from_micros(time.parse().unwrap());
            (count.parse().unwrap(), loss.parse().unwrap(), time)
        };
        steps.map(step).collect()
    }

    /// Errors so far, without those of steps before the initialization of the variables.
    fn errors(&self) -> Vec<&(usize, String)> {
        let failed = |said: &&(usize, String)| {
            said.1.starts_with("error") && !said.1.starts_with("error Uninitialized")
        };
        self.said.iter().filter(failed).collect()
    }

    /// Kills a task, and reads its remaining lines.
    fn kill(&mut self, task: usize) {
        self.tasks[task].kill().unwrap();
        self.tasks[task].wait().unwrap();
        self.read_lines(Duration::from_millis(200));
    }
}

/// Asserts that a worker's steps are those of a training without faults.
fn assert_fault_free(steps: &[(i64, f32, Duration)]) {
    let g = Graph::new();
    let model = endless_training::model(&g);
    let session = thalweg::session::Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    for (number, (before, found, _)) in steps.iter().enumerate() {
        let feed = model.x.feed(endless_training::batch());
        let done = session.step((model.train, model.loss), [feed]).unwrap();
        let expected = done.scalar::<f32>(1).unwrap();
        assert_eq!(*before, number as i64, "an update was lost, or made twice");
        assert!(
            (found - expected).abs() <= 1e-6 * expected,
            "step {number} has the loss {found}, not {expected}"
        );
    }
}

#[test]
fn packet_loss_changes_no_value() {
    let bad = |n: &Network| n.change_all(|c| (c.loss, c.delay) = (0.01, Duration::from_millis(5)));
    let Some(mut cluster) = HostCluster::new(1, "a_trainer", bad) else {
        return;
    };
    cluster.wait(1, "step", WAIT_TIMEOUT);
    cluster.read_lines(Duration::from_secs(5));
    cluster.wait(1, "step", WAIT_TIMEOUT);
    let steps = cluster.steps(1);
    let lost = cluster.network.lost();
    println!("{} steps with 1% loss, {lost} packets", steps.len());
    assert!(lost > 0);
    assert!(cluster.errors().is_empty(), "{:?}", cluster.errors());
    assert_fault_free(&steps);
}

#[test]
fn latency_slows_steps_and_fails_none() {
    const DELAY: Duration = Duration::from_millis(50);
    let long = |n: &Network| n.change_all(|c| c.delay = DELAY);
    let Some(mut cluster) = HostCluster::new(1, "a_trainer", long) else {
        return;
    };
    cluster.wait(1, "step", WAIT_TIMEOUT);
    cluster.read_lines(Duration::from_secs(3));
    cluster.wait(1, "step", WAIT_TIMEOUT);
    let steps = cluster.steps(1);
    let least = steps.iter().map(|s| s.2).min().unwrap();
    println!(
        "{} steps with a round trip of 0.1 s, the shortest {least:?}",
        steps.len()
    );
    assert!(cluster.errors().is_empty(), "{:?}", cluster.errors());
    assert!(least >= 2 * DELAY, "{least:?}");
    assert_fault_free(&steps);
}

#[test]
fn a_transfer_longer_than_the_heartbeat_timeout_is_no_lost_task() {
    let slow = |n: &Network| n.change_all(|c| c.rate = 10_000_000);
    let Some(mut cluster) = HostCluster::new(1, "a_reader_of_a_large_parameter", slow) else {
        return;
    };
    let long = |line: &str| {
        let micros = line.split(' ').nth(1).unwrap().parse().unwrap();
        let time = Duration::from_micros(micros);
        println!("{line} us");
        assert!(time > HEARTBEAT_TIMEOUT, "{time:?}: the cable is not slow");
    };
    long(&cluster.wait(1, "written", WAIT_TIMEOUT).0);
    long(&cluster.wait(1, "read", WAIT_TIMEOUT).0);
    long(&cluster.wait(1, "read", WAIT_TIMEOUT).0);
    assert!(cluster.errors().is_empty(), "{:?}", cluster.errors());
}

#[test]
fn seconds_of_buffered_data_are_no_lost_task() {
    let slow = |n: &Network| n.change_all(|c| (c.rate, c.queue) = (1_000_000, 2 << 20));
    let Some(mut cluster) = HostCluster::new(2, "a_reader_and_a_worker_on_the_same_cable", slow)
    else {
        return;
    };
    let took = |cluster: &HostCluster| {
        let mut of_reader = cluster.said.iter().filter(|(from, _)| *from == 1);
        let micros = of_reader.find_map(|(_, line)| line.strip_prefix("took ")?.parse().ok());
        micros.map(Duration::from_micros)
    };
    let until = Instant::now() + 2 * WAIT_TIMEOUT;
    while took(&cluster).is_none() && cluster.errors().is_empty() && Instant::now() < until {
        cluster.read_lines(Duration::from_millis(100));
    }
    assert!(cluster.errors().is_empty(), "{:?}", cluster.errors());
    let took = took(&cluster).expect("the reader has read");
    println!("the reader waits {took:?}");
    assert!(
        took > 2 * HEARTBEAT_TIMEOUT,
        "{took:?}: the cable is not slow"
    );
    let longest = (cluster.said.iter())
        .filter(|(from, _)| *from == 2)
        .filter_map(|(_, line)| line.strip_prefix("took ")?.parse::<u64>().ok());
    println!(
        "the longest small step took {} us",
        longest.max().unwrap_or(0)
    );
}

#[test]
fn a_reconnected_cable_does_not_end_the_training() {
    let Some(mut cluster) = HostCluster::new(2, "a_trainer", |_| {}) else {
        return;
    };
    for worker in [1, 2] {
        cluster.wait(worker, "step", WAIT_TIMEOUT);
    }
    cluster.read_lines(Duration::from_secs(1));
    let present = |cluster: &HostCluster| {
        let mut said = cluster.said.iter().rev();
        said.find(|(from, _)| *from == PS).unwrap().1.clone()
    };
    assert_eq!(present(&cluster), "present {0, 1}");

    // For a moment: no task gets an error, and nothing is lost.
    cluster.network.change(1, |c| c.pulled = true);
    cluster.read_lines(Duration::from_millis(300));
    cluster.network.change(1, |c| c.pulled = false);
    cluster.read_lines(Duration::from_millis(50));
    cluster.wait(1, "step", WAIT_TIMEOUT);
    assert!(cluster.errors().is_empty(), "{:?}", cluster.errors());

    // For longer than the heartbeat timeout.
    cluster.network.change(1, |c| c.pulled = true);
    let (error, after) = cluster.wait(1, "error", HEARTBEAT_TIMEOUT + REPORT_MARGIN);
    println!("after {after:?}: {error}");
    let lost = ["error Unreachable", "error Silent"];
    assert!(lost.iter().any(|l| error.starts_with(l)), "{error}");
    let named = "/job:ps/task:0 at 10.77.0.1:2222 is not reached (last heard of";
    assert!(error.contains(named), "{error}");
    if present(&cluster) != "present {1}" {
        let (_, after) = cluster.wait(PS, "present {1}", HEARTBEAT_TIMEOUT + REPORT_MARGIN);
        println!("the parameter server forgets the worker {after:?} later");
    }
    // The other worker trains on, and the one with the pulled cable reports errors repeatedly.
    let (error, _) = cluster.wait(1, "error", HEARTBEAT_TIMEOUT + REPORT_MARGIN);
    assert!(lost.iter().any(|l| error.starts_with(l)), "{error}");
    cluster.wait(2, "step", WAIT_TIMEOUT);
    cluster.network.change(1, |c| c.pulled = false);
    let (_, after) = cluster.wait(1, "step", WAIT_TIMEOUT);
    println!("the training goes on {after:?} after the cable was put back");
    cluster.wait(1, "step", WAIT_TIMEOUT);
    assert_eq!(present(&cluster), "present {0, 1}");

    // Every update that was reported as done was done, and none twice.
    cluster.kill(2);
    let failed = cluster.errors().len() + 1;
    let others = cluster.steps(2).len();
    cluster.wait(1, "step", WAIT_TIMEOUT);
    cluster.wait(1, "step", WAIT_TIMEOUT);
    let steps = cluster.steps(1);
    assert!(steps.is_sorted_by(|a, b| a.0 < b.0), "{steps:?}");
    let updates = steps.last().unwrap().0 as usize + 1;
    let done = others + steps.len();
    println!("{updates} updates, {done} steps, {failed} that failed");
    assert!((done..=done + failed).contains(&updates));
}
