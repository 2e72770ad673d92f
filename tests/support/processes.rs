//! Tasks as processes: the test's own program, started again with an ignored test as its body.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;

use thalweg::dist::{ClusterError, ClusterSpec, Protection, Server, ServerOptions, Timeouts};
use thalweg::prelude::SessionOptions;

/// Environment variable that selects a process's task: `JOB INDEX PS_HOSTS WORKER_HOSTS`.
const TASK: &str = "THALWEG_TEST_TASK";

/// A line of a task's output.
pub struct TaskLine {
    pub from: usize,
    /// Number of earlier starts of the task.
    pub generation: usize,
    pub line: String,
}

/// A command that starts this program as a task whose body is the ignored test of this name.
pub fn task(body: &str, job: &str, index: usize, hosts: &[String; 2]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([body, "--exact", "--nocapture", "--ignored"])
        .env(TASK, format!("{job} {index} {} {}", hosts[0], hosts[1]))
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// Forwards a task's lines.
pub fn forward_lines(child: &mut Child, from: usize, generation: usize, to: &Sender<TaskLine>) {
    let output = BufReader::new(child.stdout.take().unwrap());
    let to = to.clone();
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if let Some(line) = line.strip_prefix('@') {
                let line = line.to_owned();
                let said = TaskLine {
                    from,
                    generation,
                    line,
                };
                if to.send(said).is_err() {
                    return;
                }
            }
        }
    });
}

/// Forwards the panics on a task's standard error.
pub fn forward_panics(child: &mut Child, from: usize, generation: usize, to: &Sender<TaskLine>) {
    let output = BufReader::new(child.stderr.take().unwrap());
    let to = to.clone();
    std::thread::spawn(move || {
        let mut lines = output.lines().map_while(Result::ok);
        while let Some(line) = lines.next() {
            if !line.contains("panicked at") {
                continue;
            }
            let why = lines.next().unwrap_or_default();
            let line = format!("{line} {why}");
            // An error means that the test has stopped listening.
            let _ = to.send(TaskLine {
                from,
                generation,
                line,
            });
        }
    });
}

/// In a task's process: its server.
pub fn server(timeouts: Timeouts) -> Server {
    server_protected(timeouts, None)
}

/// The same, with the cluster's protection.
pub fn server_protected(timeouts: Timeouts, protection: Option<Protection>) -> Server {
    let task = std::env::var(TASK).unwrap_or_else(|_| panic!("{TASK} is not set"));
    let [job, index, ps, workers] = task.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{TASK} is '{task}'");
    };
    let cluster = ClusterSpec::from_flags(&[("ps", ps), ("worker", workers)]).unwrap();
    let options = ServerOptions::listening("")
        .session(SessionOptions::new().threads(1))
        .timeouts(timeouts)
        // It listens on the test's address: on loopback, or on an emulated network.
        .unprotected_network(true)
        .protection(protection);
    Server::new(cluster, job, index.parse().unwrap(), options).unwrap()
}

/// In a task's process: sends a line to the test.
pub fn send_line(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n@{line}").unwrap();
    out.flush().unwrap();
}

/// In a task's process: sends an error to the test, in one line.
pub fn send_error(e: &ClusterError) {
    let text = e.to_string().replace('\n', " ");
    send_line(&format!("error {:?} {text}", e.cause));
}
