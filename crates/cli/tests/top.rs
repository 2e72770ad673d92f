//! `thalweg top` on real servers and hostile endpoints: one table, JSON, and the screen of a pseudo-terminal.

#![cfg(unix)]

#[path = "../../../tests/support/addresses.rs"]
mod addresses;
mod support;
#[path = "support/terminal.rs"]
mod terminal;
#[path = "../../../tests/support/wait.rs"]
mod wait;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use support::server_process::ServerProcess;
use support::{Folder, fails, thalweg};
use terminal::Terminal;
use thalweg_dist::{ClusterOptions, Server, ServerOptions, Session};
use thalweg_graph::{DeviceSpec, Graph};
use thalweg_ops::{NewGraph, StateOps};
use wait::until;

/// Starts a server alone, with metrics at the returned address.
fn server() -> (ServerProcess, String) {
    let metrics = addresses::free_addresses(1).remove(0);
    (ServerProcess::start(&["--metrics", &metrics]), metrics)
}

fn parsed(output: &std::process::Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_cluster_that_trains_has_rates_links_and_names() {
    let hosts = addresses::free_addresses(4);
    let start = |job: &str, metrics: &str| {
        let hosts = ["--ps-hosts", &hosts[0], "--worker-hosts", &hosts[1]];
        ServerProcess::start(&[&hosts[..], &["--job", job, "--metrics", metrics]].concat())
    };
    let (_ps, worker) = (start("ps", &hosts[2]), start("worker", &hosts[3]));
    let g = Graph::new();
    let on = |job| -> DeviceSpec { format!("/job:{job}/task:0").parse().unwrap() };
    let w = g.device(on("ps"), || g.variable("w", vec![1.0f32; 1 << 8]));
    let next = g.device(on("worker"), || w.read() * 0.5);
    let update = w.assign_add(next);
    let session = Session::connect(&worker.target, &g, ClusterOptions::default()).unwrap();
    session.step(w.initializer(), []).unwrap();

    let folder = Folder::new("top-cluster");
    let file = folder.at("addresses");
    std::fs::write(&file, format!("# metrics\n{}\n{}\n", hosts[3], hosts[2])).unwrap();
    let ended = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                session.step(update, []).unwrap();
            }
        });
        let argument = format!("@{file}");
        let output = thalweg(&["top", &argument, "--once", "--json", "--interval", "0.5"]);
        ended.store(true, Ordering::Relaxed);
        output
    });
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = parsed(&output);
    let [ps, worker] = told["tasks"].as_array().unwrap().as_slice() else {
        panic!("{told}");
    };
    assert_eq!(
        (&ps["name"], &ps["address"]),
        (&"/job:ps/task:0".into(), &(*hosts[2]).into())
    );
    assert_eq!(worker["name"], "/job:worker/task:0");
    let number = |task: &Value, name: &str| task[name].as_f64().unwrap();
    for task in [ps, worker] {
        assert_eq!(
            (&task["state"], &task["error"]),
            (&"up".into(), &Value::Null)
        );
        assert!(number(task, "sent_bytes_per_second") > 1000.0, "{task}");
        assert!(number(task, "received_bytes_per_second") > 1000.0, "{task}");
        assert!(number(task, "contact_seconds") < 60.0, "{task}");
    }
    for task in [ps, worker] {
        assert!(number(task, "steps_per_second") > 0.0, "{task}");
        assert_eq!(
            number(task, "steps_per_second"),
            number(task, "parts_per_second")
        );
        assert_eq!(number(task, "client_steps_per_second"), 0.0, "{task}");
    }
    assert!(number(ps, "memory_bytes") >= 1024.0);
    assert_eq!(ps["peers"][0]["name"], "/job:worker/task:0");
}

#[test]
fn the_loss_of_a_training_is_shown() {
    let start = || Server::start(ServerOptions::listening("127.0.0.1:0")).unwrap();
    let (server, other) = (start(), start());
    let address = |server: &Server| server.serve_metrics("127.0.0.1:0").unwrap().to_string();
    let addresses = [address(&server), address(&other)];
    let told = |arguments: &[&str], address: &str| {
        let arguments = [&["top", address, "--interval", "0.1", "--once"], arguments].concat();
        let output = thalweg(&arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        output
    };
    for (loss, number, text) in [
        (0.25, Value::from(0.25), "0.2500"),
        (f64::NAN, "NaN".into(), "NaN"),
        (f64::NEG_INFINITY, "-inf".into(), "-inf"),
    ] {
        server.training().record(loss, 7);
        let json = parsed(&told(&["--json"], &addresses[0]));
        let task = &json["tasks"][0];
        assert_eq!(
            (&task["loss"], &task["global_step"]),
            (&number, &Value::from(7))
        );
        let table = String::from_utf8(told(&[], &addresses[0]).stdout).unwrap();
        assert!(table.contains(" loss "), "{table}");
        assert!(table.contains(&format!(" {text} ")), "{table}");
    }
    let json = parsed(&told(&["--json"], &addresses[1]));
    let task = &json["tasks"][0];
    assert_eq!(
        (&task["loss"], &task["global_step"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn a_task_that_is_not_reached_is_a_failure_status() {
    let (_server, metrics) = server();
    let gone = addresses::free_addresses(1).remove(0);
    let output = thalweg(&["top", &gone, &metrics, "--once", "--interval", "0.1"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let table = String::from_utf8(output.stdout).unwrap();
    let line = |text: &str| table.lines().find(|l| l.contains(text)).unwrap().to_owned();
    assert!(line("/job:localhost/task:0").contains(" up "), "{table}");
    let gone = line(&gone);
    assert!(
        gone.contains("not reached") && gone.contains("nothing listens there"),
        "{table}"
    );
}

#[test]
fn mistakes_in_arguments_are_told() {
    assert!(fails(&["top", "host"]).contains("'host' is no HOST:PORT"));
    let text = fails(&["top", "127.0.0.1:1"]);
    assert!(text.contains("standard output is no terminal"), "{text}");
    for arguments in [
        &["top"][..],
        &["top", "a:1", "--json"],
        &["top", "a:1", "--interval", "0"],
    ] {
        assert_eq!(thalweg(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

/// Serves this answer to every request until the process ends. Returns the address.
fn hostile(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(answer);
        }
    });
    address
}

/// Metrics whose labels would clear the screen, set the title, and write from right to left.
const ESCAPES: &[u8] = "HTTP/1.1 200 OK\r\n\r\n\
    thalweg_memory_bytes{device=\"/job:\u{1b}[2Jred/task:\u{1b}]0;title\u{7}/device:CPU:0\"} 1\n\
    thalweg_receives_waiting{peer=\"\u{202e}\u{9b}31m\\nred\"} 1\n\
    # EOF\n"
    .as_bytes();

#[test]
fn control_characters_of_an_endpoint_are_replaced() {
    let address = hostile(ESCAPES);
    for format in [&["--once"][..], &["--once", "--json"]] {
        let arguments = [&["top", &address, "--interval", "0.1"], format].concat();
        let output = thalweg(&arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("red"), "{text}");
        let wrong = text.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}');
        assert!(!wrong, "{text:?}");
    }
}

/// Program on a terminal, which is killed on drop.
struct Running(Child);

impl Running {
    /// Sends SIGTERM.
    fn signal(&self) {
        let id = self.0.id().to_string();
        let sent = Command::new("kill").args(["-s", "TERM", &id]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for the end; returns the exit code.
    #[track_caller]
    fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        until("it does not end", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error is a process that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn top(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(["top", "--interval", "0.1"]).args(arguments);
    command
}

#[test]
fn the_screen_is_live_and_ends_on_a_key() {
    let (_server, metrics) = server();
    for end in ["q", "\u{3}"] {
        let mut terminal = Terminal::open();
        let before = terminal.modes();
        let mut program = Running(terminal.start(&mut top(&[&metrics, &hostile(ESCAPES)])));
        until("no task is shown", || {
            terminal.screen().contains("/job:localhost/task:0")
        });
        until("no text of the other one is shown", || {
            terminal.screen().contains("red")
        });
        terminal.press("?");
        until("no help is shown", || {
            terminal.screen().contains("this help")
        });
        terminal.press("s");
        terminal.press("\u{1b}[C");
        terminal.press(end);
        assert_eq!(program.ended(), Some(0));
        until("the terminal is not restored", || {
            terminal.is_restored(&before)
        });
        let shown = terminal.shown();
        for sequence in ["\u{1b}[2Jred", "\u{1b}]0;", "\u{7}", "\u{202e}", "\u{9b}"] {
            assert!(!shown.contains(sequence), "{shown:?}");
        }
    }
}

#[test]
fn a_signal_restores_the_terminal() {
    let (_server, metrics) = server();
    let terminal = Terminal::open();
    let before = terminal.modes();
    let mut program = Running(terminal.start(&mut top(&[&metrics])));
    until("no task is shown", || {
        terminal.screen().contains("/job:localhost/task:0")
    });
    program.signal();
    assert_eq!(program.ended(), Some(143));
    until("the terminal is not restored", || {
        terminal.is_restored(&before)
    });
}

#[test]
fn a_signal_ends_the_program_where_nobody_reads_the_terminal() {
    let (_server, metrics) = server();
    let mut terminal = Terminal::open();
    let before = terminal.modes();
    let mut program = Running(terminal.start(&mut top(&[&metrics])));
    until("no task is shown", || {
        terminal.screen().contains("/job:localhost/task:0")
    });
    terminal.stall();
    // Each draws the help, or the table over it, until the terminal takes no more.
    terminal.press(&"?".repeat(1000));
    std::thread::sleep(Duration::from_secs(1));
    program.signal();
    assert_eq!(program.ended(), Some(143));
    assert!(terminal.has_modes(&before));
}

#[test]
fn a_lost_terminal_ends_the_program() {
    let (_server, metrics) = server();
    let terminal = Terminal::open();
    let mut program = Running(terminal.start(&mut top(&[&metrics])));
    until("no task is shown", || {
        terminal.screen().contains("/job:localhost/task:0")
    });
    terminal.hang_up();
    assert_eq!(program.ended(), Some(1));
}
