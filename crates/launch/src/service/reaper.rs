//! Reaper of a service: it adopts all processes of the service, and ends them.

use std::fs;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, wait,
};

use crate::access::command_of_words;
use crate::error::{LaunchError, Result};
use crate::process::isolate;

/// Time that the service may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);
/// Interval at which processes are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs a service until it ends, or until standard input does: then the service gets SIGTERM, and is killed 5 s later. What it
/// has started is killed with it. Returns its exit code.
///
/// # Errors
/// The program cannot be started.
pub fn run_reaper(command: &[String]) -> Result<u8> {
    set_child_subreaper(Some(getpid())).map_err(std::io::Error::from)?;
    let input_ended = watch_input()?;
    let mut service = command_of_words(command);
    service.stdin(std::process::Stdio::null());
    isolate(&mut service);
    let service = service.spawn().map_err(|e| {
        LaunchError::of_attempt(e, |source| LaunchError::Start {
            program: command.first().cloned().unwrap_or_default(),
            source,
        })
    })?;
    let service = Pid::from_child(&service);
    let code = wait_for(service, &input_ended);
    kill_all();
    Ok(code)
}

/// Returns a flag that is set at the end of standard input.
fn watch_input() -> Result<Arc<AtomicBool>> {
    let ended = Arc::<AtomicBool>::default();
    let flag = ended.clone();
    std::thread::Builder::new().spawn(move || {
        let mut bytes = [0; 64];
        // An error ends the input too.
        while matches!(std::io::stdin().read(&mut bytes), Ok(1..)) {}
        flag.store(true, Ordering::Relaxed);
    })?;
    Ok(ended)
}

/// Waits until the service has ended, and reaps what it leaves. Returns its exit code.
fn wait_for(service: Pid, input_ended: &AtomicBool) -> u8 {
    let mut terminated_at: Option<Instant> = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((process, status))) if process == service => return exit_code(status),
            // Another process, which was adopted.
            Ok(Some(_)) => continue,
            Ok(None) => {}
            Err(rustix::io::Errno::INTR) => continue,
            // No child is left, so that the status is lost.
            Err(_) => return 1,
        }
        match terminated_at {
            None if input_ended.load(Ordering::Relaxed) => {
                terminated_at = Some(Instant::now());
                // An error is a process that has ended.
                let _ = kill_process(service, Signal::TERM);
            }
            Some(at) if at.elapsed() > GRACE => {
                let _ = kill_process(service, Signal::KILL);
            }
            _ => {}
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Kills all descendants of this process. Those whose parents die become its children.
fn kill_all() {
    loop {
        let children = children_of_this_process();
        for child in &children {
            // An error is a process that has ended.
            let _ = kill_process(*child, Signal::KILL);
        }
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        if children.is_empty() {
            return;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn children_of_this_process() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().get();
    let parent = |process: i32| -> Option<i32> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name in parentheses may have blanks and parentheses; the state and the parent follow.
        let rest = stat.rsplit_once(')')?.1;
        rest.split_whitespace().nth(1)?.parse().ok()
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    all.filter(|process| parent(*process) == Some(own))
        .filter_map(Pid::from_raw)
        .collect()
}

/// Exit code as of shells: 128 and the signal's number for a process that a signal has ended.
fn exit_code(status: WaitStatus) -> u8 {
    let signal = || status.terminating_signal().map(|signal| 128 + signal);
    let code = status.exit_status().or_else(signal);
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
