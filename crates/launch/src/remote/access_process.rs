//! Process of the program that reaches a host, such as ssh or srun.

use std::process::Child;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::process;

/// Interval at which the end is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Access program and its process.
pub(super) struct AccessProcess {
    program: String,
    state: Mutex<State>,
}

struct State {
    child: Child,
    /// Exit code, once the process is reaped.
    exit: Option<i32>,
}

impl State {
    fn poll(&mut self) -> Option<i32> {
        if self.exit.is_none() {
            self.exit = match process::try_wait(&mut self.child) {
                Ok(None) => None,
                Ok(Some(status)) => Some(process::exit_code(status)),
                Err(_) => Some(1),
            };
        }
        self.exit
    }
}

impl AccessProcess {
    pub(super) fn new(program: String, child: Child) -> AccessProcess {
        let state = State { child, exit: None };
        AccessProcess {
            program,
            state: Mutex::new(state),
        }
    }

    /// Name of the program.
    pub(super) fn program(&self) -> &str {
        &self.program
    }

    /// Waits for the end, and returns the exit code; `None` if it does not come in time.
    pub(super) fn wait(&self, timeout: Duration) -> Option<i32> {
        let began = Instant::now();
        loop {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(code) = state.poll() {
                return Some(code);
            }
            drop(state);
            if began.elapsed() > timeout {
                return None;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Kills the process and its group, if it runs.
    pub(super) fn kill(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.poll().is_none() {
            process::kill(&mut state.child);
        }
    }

    /// Waits for the end, and kills a process that does not end in time.
    pub(super) fn end(&self, timeout: Duration) {
        if self.wait(timeout).is_none() {
            self.kill();
            self.wait(timeout);
        }
    }
}
