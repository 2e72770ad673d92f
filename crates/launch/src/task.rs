//! One task of a job: its process, its restarts and its end.

use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::screen::ScreenEvent;
use crate::task_exit::ProcessExit;
use crate::task_process::TaskProcess;
use crate::{process, signals};

pub(crate) use crate::task_process::TaskProgram;

/// Longest time until a task that has failed is started again, in seconds.
const MAX_DELAY: u64 = 30;

/// Description of a task that is to be started.
pub(crate) struct TaskSpec {
    pub(crate) name: String,
    /// `true` if the job ends when all such tasks have ended.
    pub(crate) worker: bool,
    pub(crate) program: TaskProgram,
}

/// Task that was started. It is killed when this is dropped.
pub(crate) struct LaunchedTask {
    pub(crate) spec: TaskSpec,
    process: TaskProcess,
    exit: Option<ProcessExit>,
    terminated_at: Option<Instant>,
    killed: bool,
    /// Number of times that it was started again.
    restarts: u32,
    /// Time at which it is to be started again.
    restart_at: Option<Instant>,
}

impl LaunchedTask {
    /// Starts a task, whose lines go to `events` as those of `number`. The task ends with the thread that calls this.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(crate) fn start(
        mut spec: TaskSpec,
        number: usize,
        events: &SyncSender<ScreenEvent>,
    ) -> Result<LaunchedTask> {
        if let TaskProgram::Local(command) = &mut spec.program {
            process::isolate(command);
        }
        let process = spec.program.start(number, events)?;
        Ok(LaunchedTask {
            spec,
            process,
            exit: None,
            terminated_at: None,
            killed: false,
            restarts: 0,
            restart_at: None,
        })
    }

    /// Starts the task again once its time has come.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(crate) fn restart_if_due(
        &mut self,
        number: usize,
        events: &SyncSender<ScreenEvent>,
    ) -> Result<bool> {
        if self.restart_at.is_none_or(|at| at > Instant::now()) {
            return Ok(false);
        }
        self.restart_at = None;
        self.process = self.spec.program.start(number, events)?;
        self.exit = None;
        Ok(true)
    }

    /// Plans another start of a task that has failed, after 1, 2, 4 ... seconds, up to 30. Returns `false` if it was
    /// started so often again already, or was lost with its host.
    pub(crate) fn plan_restart(&mut self, most: u32) -> bool {
        if self.restarts >= most || self.lost().is_some() {
            return false;
        }
        let delay = 1u64
            .checked_shl(self.restarts)
            .map_or(MAX_DELAY, |s| s.min(MAX_DELAY));
        self.restarts += 1;
        self.restart_at = Some(Instant::now() + Duration::from_secs(delay));
        true
    }

    /// Number of times that the task was started again.
    pub(crate) fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Cancels a planned start.
    pub(crate) fn cancel_restart(&mut self) {
        self.restart_at = None;
    }

    /// `true` while it runs, or is to be started again.
    pub(crate) fn is_active(&self) -> bool {
        self.is_running() || self.restart_at.is_some()
    }

    /// `true` until the exit of the task was seen by [`LaunchedTask::poll_exit`].
    pub(crate) fn is_running(&self) -> bool {
        self.exit.is_none()
    }

    /// Returns the exit code once, when the task has ended since the last call: 128 and the signal's number for a task that
    /// a signal has ended.
    pub(crate) fn poll_exit(&mut self) -> Option<i32> {
        if self.exit.is_some() {
            return None;
        }
        self.exit = self.process.poll();
        self.exit.as_ref().map(|exit| exit.code)
    }

    /// Time of the end that [`LaunchedTask::poll_exit`] has seen.
    pub(crate) fn ended_at(&self) -> Instant {
        self.exit.as_ref().map_or_else(Instant::now, |exit| exit.at)
    }

    /// Reason of the loss of a task that was lost with its host.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.exit.as_ref()?.lost.as_deref()
    }

    /// Sends SIGTERM, once.
    pub(crate) fn terminate(&mut self) {
        if self.is_running() && self.terminated_at.is_none() {
            self.terminated_at = Some(Instant::now());
            self.process.terminate();
        }
    }

    /// `true` if SIGTERM was sent.
    pub(crate) fn was_terminated(&self) -> bool {
        self.terminated_at.is_some()
    }

    /// `true` if SIGTERM was sent longer ago than `grace`.
    pub(crate) fn is_overdue(&self, grace: Duration) -> bool {
        self.terminated_at.is_some_and(|at| at.elapsed() > grace)
    }

    /// Kills the task. Returns its name if it was running until now.
    pub(crate) fn kill(&mut self) -> Option<&str> {
        let was_running = self.is_running() && !std::mem::replace(&mut self.killed, true);
        was_running.then(|| {
            self.process.kill();
            &*self.spec.name
        })
    }
}

impl Drop for LaunchedTask {
    fn drop(&mut self) {
        if self.is_running() {
            self.process.kill_and_wait();
        }
    }
}

/// Text of an exit code, for the user.
pub(crate) fn status_text(code: i32) -> String {
    match code {
        0 => "done".to_owned(),
        _ if ended_by_signal(code) => format!("ended by {}", signals::name(code - 128)),
        _ => format!("ended with status {code}"),
    }
}

/// `true` for the exit code of a task that a signal has ended.
pub(crate) fn ended_by_signal(code: i32) -> bool {
    (129..=192).contains(&code)
}
