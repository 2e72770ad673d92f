//! Threads of a connection to an agent: one for each pipe, and one that shows the lines of tasks.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::access_process::AccessProcess;
use super::requests::Requests;
use super::state::{KEPT_LINES, LinkState};
use crate::protocol::{
    ALIVE_INTERVAL, Answer, LINE_WINDOW, PROTOCOL, Request, parse, read_line, window_bytes, write,
};
use crate::screen::{ScreenEvent, show};

/// Exit code of a task whose program cannot be started, as of a shell.
const NOT_STARTED: i32 = 127;
/// Number of lines that a host may write before its agent's first message, such as greetings of a shell.
const MAX_GREETING: usize = 1000;
/// Maximum length of a line of the access program, in bytes.
const MAX_LINE: u64 = 4096;
/// Time in which the access program ends after its output has.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time in which the last lines of the access program are read.
const ERRORS_TIMEOUT: Duration = Duration::from_millis(500);

/// Line of a task on its way to the screen: the task's number, `true` for standard error, and the text.
type TaskLine = (usize, bool, String);

/// Writes requests until their queue is closed, and tells the agent in between that the launcher runs.
pub(super) fn write_requests(mut input: impl Write, requests: &Receiver<Request>) {
    loop {
        let request = match requests.recv_timeout(ALIVE_INTERVAL) {
            Ok(request) => request,
            Err(RecvTimeoutError::Timeout) => Request::Alive,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // The end of an agent is seen where its answers are read.
        if write(&mut input, &request).is_err() {
            return;
        }
    }
}

/// Shows the lines of tasks, and tells the agent of those that are shown. `waiting` counts the bytes that are not.
pub(super) fn show_lines(
    lines: &Receiver<TaskLine>,
    events: &SyncSender<ScreenEvent>,
    requests: &Requests,
    waiting: &AtomicUsize,
) {
    /// Number of bytes after which the agent is told.
    const STEP: usize = LINE_WINDOW / 4;

    let mut bytes = 0;
    for (task, error, line) in lines {
        let taken = window_bytes(&line);
        let event = ScreenEvent::Line { task, line, error };
        if events.send(event).is_err() {
            return;
        }
        waiting.fetch_sub(taken, Ordering::Relaxed);
        bytes += taken;
        if bytes >= STEP {
            requests.send(Request::Taken { bytes });
            bytes = 0;
        }
    }
}

/// Reads the standard error of the access program, to its end.
pub(super) fn read_errors(
    errors: impl Read,
    host: &str,
    state: &Mutex<LinkState>,
    events: &SyncSender<ScreenEvent>,
) {
    let mut errors = BufReader::new(errors);
    loop {
        let mut bytes = Vec::new();
        match errors.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_end();
        if !line.is_empty() {
            lock(state).keep_error(line);
            show(ScreenEvent::Note(format!("{host} | {line}")), events);
        }
    }
}

fn lock(state: &Mutex<LinkState>) -> std::sync::MutexGuard<'_, LinkState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads answers to the end. Returns why the connection is given up, or `None` at the end of the output.
pub(super) fn read_answers(
    mut output: impl BufRead,
    state: &Mutex<LinkState>,
    lines: &Sender<TaskLine>,
    waiting: &AtomicUsize,
) -> Option<String> {
    let mut greeting = 0;
    let mut has_begun = false;
    loop {
        let line = match read_line(&mut output) {
            Ok(Some(line)) => line,
            Ok(None) => return None,
            Err(error) => return Some(error.to_string()),
        };
        let answer = match parse(&line) {
            Ok(answer) => answer,
            // The shell of a host may greet before it runs the agent.
            Err(_) if !has_begun && greeting < MAX_GREETING => {
                greeting += 1;
                let shown = &line[..line.len().min(MAX_LINE as usize)];
                lock(state).keep_error(&String::from_utf8_lossy(shown));
                continue;
            }
            Err(error) => return Some(error.to_string()),
        };
        has_begun = true;
        let mut state = lock(state);
        state.heard_at = Some(Instant::now());
        match answer {
            Answer::Line { task, error, line } => {
                let number = state.tasks.get(&task).map(|task| task.number);
                drop(state);
                let Some(number) = number else {
                    return Some(format!("its agent has no task {task}"));
                };
                let bytes = window_bytes(&line);
                let waits = waiting.fetch_add(bytes, Ordering::Relaxed);
                if waits > 2 * LINE_WINDOW {
                    return Some("its agent sends more lines than may wait".to_owned());
                }
                // An error is a screen that has ended.
                let _ = lines.send((number, error, line));
            }
            Answer::Ended { task, code } => state.end(task, code),
            Answer::NotStarted { task, reason } => {
                let number = state.tasks.get(&task).map(|task| task.number);
                state.end(task, NOT_STARTED);
                drop(state);
                if let Some(number) = number {
                    waiting.fetch_add(window_bytes(&reason), Ordering::Relaxed);
                    let _ = lines.send((number, true, reason));
                }
            }
            Answer::Alive => {}
            Answer::Failed { reason } => return Some(reason),
            Answer::Hello { protocol, version } => {
                let own = env!("CARGO_PKG_VERSION");
                if (protocol, &*version) != (PROTOCOL, own) {
                    return Some(format!(
                        "its agent has version {version} (protocol {protocol}), and the launcher {own} (protocol {PROTOCOL}): install \
                         one version on all hosts"
                    ));
                }
                state.answers.push_back(Answer::Hello { protocol, version });
            }
            answer => {
                if state.answers.len() > KEPT_LINES {
                    return Some("its agent answers what was not asked".to_owned());
                }
                state.answers.push_back(answer);
            }
        }
    }
}

/// Tells why a connection has ended: `reason`, or else how the access program has.
pub(super) fn tell_end(
    reason: Option<String>,
    process: &AccessProcess,
    errors: &JoinHandle<()>,
    state: &Mutex<LinkState>,
) {
    let program = process.program();
    let reason = match reason {
        Some(reason) => reason,
        None => match process.wait(EXIT_TIMEOUT) {
            Some(code) => format!("{program} ended with status {code}"),
            None => format!("{program} has closed its output"),
        },
    };
    let began = Instant::now();
    while !errors.is_finished() && began.elapsed() < ERRORS_TIMEOUT {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut state = lock(state);
    let told: Vec<&str> = state.errors.iter().map(String::as_str).collect();
    let reason = match told.is_empty() {
        true => reason,
        false => format!("{reason}: {}", told.join("; ")),
    };
    state.lose(reason);
    drop(state);
    process.kill();
}
