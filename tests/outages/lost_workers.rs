//! Servers that wait for workers: lost workers, workers that come back, and a server that is stopped when a worker
//! finishes.
#![cfg(unix)]

use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use thalweg::dist::{ClusterOptions, Server, Session, Timeouts};
use thalweg::prelude::*;
use thalweg_tests::endless_training;
use thalweg_tests::processes::{self, TaskLine, send_line};
use thalweg_tests::servers::free_addresses;

/// Timeout of every wait.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);
/// Time after which an absent worker counts as lost.
const MAX_ABSENCE: Duration = Duration::from_secs(2);

fn timeouts() -> Timeouts {
    Timeouts::new()
        .heartbeat(Duration::from_secs(1))
        .connect(WAIT_TIMEOUT)
        .worker_rejoin(MAX_ABSENCE)
}

#[test]
#[ignore = "the body of a task's process, which the other tests start"]
fn a_parameter_server() {
    match processes::server(timeouts()).join_workers("worker") {
        Ok(()) => send_line("joined"),
        Err(e) => send_line(&format!("failed {e}")),
    }
}

/// The first worker trains until its input ends; the other one without end.
#[test]
#[ignore = "the body of a task's process, which the other tests start"]
fn a_worker() {
    let server = processes::server(timeouts());
    match server.task().1 {
        0 => train_until_input_ends(&server),
        _ => endless_training::train(&server, timeouts()),
    }
}

fn train_until_input_ends(server: &Server) {
    let g = Graph::new();
    let w = g.device("/job:ps/task:0", || g.variable("first", 0.0f32));
    let session = Session::on(server, &g, ClusterOptions::new()).unwrap();
    session.run(w.initializer(), []).unwrap();
    send_line("step 0");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    drop(session);
    send_line("finishes");
    server.finish("ps");
    send_line("finished");
}

struct LossyCluster {
    hosts: [String; 2],
    /// The parameter server, and two workers.
    tasks: [Child; 3],
    lines: Receiver<TaskLine>,
    sender: Sender<TaskLine>,
}

impl Drop for LossyCluster {
    fn drop(&mut self) {
        for task in &mut self.tasks {
            // It may have ended already.
            let _ = task.kill();
            let _ = task.wait();
        }
    }
}

impl LossyCluster {
    fn new() -> LossyCluster {
        let all = free_addresses(3);
        let hosts = [all[0].clone(), all[1..].join(",")];
        let (sender, lines) = channel();
        let tasks = [0, 1, 2].map(|task| start(task, &hosts, &sender));
        LossyCluster {
            hosts,
            tasks,
            lines,
            sender,
        }
    }

    fn signal(&self, task: usize, name: &str) {
        let id = self.tasks[task].id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success(), "kill -s {name} {id}");
    }

    fn tell_the_first_worker(&mut self) {
        drop(self.tasks[1].stdin.take());
    }

    /// Waits until this task prints a line that begins with `begins`.
    #[track_caller]
    fn wait(&self, task: usize, begins: &str) -> String {
        let began = Instant::now();
        while let Some(rest) = WAIT_TIMEOUT.checked_sub(began.elapsed()) {
            match self.lines.recv_timeout(rest) {
                Ok(said) if said.from == task && said.line.starts_with(begins) => {
                    return said.line;
                }
                _ => {}
            }
        }
        panic!("task {task} does not say '{begins}'");
    }
}

fn start(task: usize, hosts: &[String; 2], to: &Sender<TaskLine>) -> Child {
    let mut command = match task {
        0 => processes::task("lost_workers::a_parameter_server", "ps", 0, hosts),
        _ => processes::task("lost_workers::a_worker", "worker", task - 1, hosts),
    };
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    processes::forward_lines(&mut child, task, 0, to);
    child
}

#[test]
fn a_server_names_a_killed_worker_and_ends() {
    let mut cluster = LossyCluster::new();
    cluster.wait(1, "step");
    cluster.wait(2, "error Uninitialized");
    cluster.tasks[2].kill().unwrap();
    cluster.tell_the_first_worker();
    cluster.wait(1, "finished");
    let error = cluster.wait(0, "failed");
    let named = "failed /job:worker/task:1 ended, or left, without being done";
    assert!(error.starts_with(named), "{error}");
}

#[test]
fn a_worker_that_returns_in_time_is_not_lost() {
    let mut cluster = LossyCluster::new();
    cluster.wait(2, "error Uninitialized");
    cluster.tasks[2].kill().unwrap();
    cluster.tasks[2].wait().unwrap();
    cluster.tell_the_first_worker();
    cluster.wait(1, "finished");
    cluster.tasks[2] = start(2, &cluster.hosts, &cluster.sender);
    cluster.wait(2, "error Uninitialized");
    std::thread::sleep(MAX_ABSENCE + MAX_ABSENCE / 2);
    assert!(cluster.tasks[0].try_wait().unwrap().is_none());
    cluster.tasks[2].kill().unwrap();
    cluster.wait(0, "failed");
}

#[test]
fn a_stopped_server_learns_of_the_last_workers_end_later() {
    let mut cluster = LossyCluster::new();
    cluster.wait(1, "step");
    cluster.wait(2, "error Uninitialized");
    cluster.signal(0, "STOP");
    cluster.tell_the_first_worker();
    cluster.wait(1, "finishes");
    std::thread::sleep(MAX_ABSENCE * 3 / 4);
    cluster.signal(0, "CONT");
    cluster.wait(1, "finished");
    cluster.tasks[2].kill().unwrap();
    let error = cluster.wait(0, "failed");
    assert!(!error.contains("task:0"), "{error}");
}
