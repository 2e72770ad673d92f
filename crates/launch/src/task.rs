//! One process of a job: its output, line by line, and its end.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::error::{LaunchError, Result};
use crate::screen::ScreenEvent;
use crate::{process, signals};

/// Maximum length of a line that is kept whole, in bytes.
const MAX_LINE: u64 = 64 << 10;

/// Longest time until a task that has failed is started again, in seconds.
const MAX_DELAY: u64 = 30;

/// Description of a task that is to be started.
pub(crate) struct TaskSpec {
    pub(crate) name: String,
    /// `true` if the job ends when all such tasks have ended.
    pub(crate) worker: bool,
    pub(crate) command: Command,
    /// Standard input; empty if `None`.
    pub(crate) input: Option<String>,
}

impl TaskSpec {
    fn program(&self) -> String {
        self.command.get_program().to_string_lossy().into_owned()
    }

    fn spawn(&mut self) -> Result<Child> {
        let program = self.program();
        self.command.spawn().map_err(|e| {
            LaunchError::of_attempt(e, |source| LaunchError::Start { program, source })
        })
    }
}

/// Task that was started. It is killed when this is dropped.
pub(crate) struct LaunchedTask {
    pub(crate) spec: TaskSpec,
    child: Child,
    exit_code: Option<i32>,
    ended_at: Arc<OnceLock<Instant>>,
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
        spec.command
            .stdin(match spec.input {
                Some(_) => Stdio::piped(),
                None => Stdio::null(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        process::isolate(&mut spec.command);
        let child = spec.spawn()?;
        let mut task = LaunchedTask {
            spec,
            child,
            exit_code: None,
            ended_at: Arc::default(),
            terminated_at: None,
            killed: false,
            restarts: 0,
            restart_at: None,
        };
        task.watch(number, events)?;
        Ok(task)
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
        self.child = self.spec.spawn()?;
        self.exit_code = None;
        self.ended_at = Arc::default();
        self.watch(number, events)?;
        Ok(true)
    }

    /// Plans another start of a task that has failed, after 1, 2, 4 ... seconds, up to 30. Returns `false` if it was
    /// started so often again already.
    pub(crate) fn plan_restart(&mut self, most: u32) -> bool {
        if self.restarts >= most {
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

    /// Waits for the end of the process, and reads its outputs, in threads.
    fn watch(&mut self, number: usize, events: &SyncSender<ScreenEvent>) -> Result<()> {
        let program = self.spec.program();
        let watched = self.start_threads(number, events);
        watched.map_err(|e| {
            LaunchError::of_attempt(e, |source| LaunchError::Start { program, source })
        })
    }

    fn start_threads(
        &mut self,
        number: usize,
        events: &SyncSender<ScreenEvent>,
    ) -> std::io::Result<()> {
        let task = self;
        // Polling alone does not tell which of two tasks has ended first.
        let (ended, end) = (task.ended_at.clone(), process::end_of(&task.child));
        std::thread::Builder::new().spawn(move || {
            if end() {
                ended.get_or_init(Instant::now);
            }
        })?;
        if let (Some(mut stdin), Some(input)) = (task.child.stdin.take(), &task.spec.input) {
            // The input is short. A task that does not read it has ended, which is seen.
            let _ = stdin.write_all(input.as_bytes());
        }
        let outputs: [Option<Box<dyn Read + Send>>; 2] = [
            task.child.stdout.take().map(|o| Box::new(o) as _),
            task.child.stderr.take().map(|o| Box::new(o) as _),
        ];
        for (error, output) in outputs.into_iter().enumerate() {
            let Some(output) = output else { continue };
            let (events, error) = (events.clone(), error == 1);
            let read = move || forward_lines(output, number, error, &events);
            std::thread::Builder::new().spawn(read)?;
        }
        Ok(())
    }

    /// `true` until the exit of the task was seen by [`LaunchedTask::poll_exit`].
    pub(crate) fn is_running(&self) -> bool {
        self.exit_code.is_none()
    }

    /// Returns the exit code once, when the task has ended since the last call: 128 and the signal's number for a task that
    /// a signal has ended.
    pub(crate) fn poll_exit(&mut self) -> Option<i32> {
        if self.exit_code.is_some() {
            return None;
        }
        let code = match process::try_wait(&mut self.child) {
            Ok(None) => return None,
            Ok(Some(status)) => process::exit_code(status),
            Err(_) => 1,
        };
        self.exit_code = Some(code);
        Some(code)
    }

    /// Time of the end that [`LaunchedTask::poll_exit`] has seen.
    pub(crate) fn ended_at(&self) -> Instant {
        *self.ended_at.get_or_init(Instant::now)
    }

    /// Sends SIGTERM, once.
    pub(crate) fn terminate(&mut self) {
        if self.is_running() && self.terminated_at.is_none() {
            self.terminated_at = Some(Instant::now());
            process::terminate(&self.child);
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
            process::kill(&mut self.child);
            &*self.spec.name
        })
    }
}

impl Drop for LaunchedTask {
    fn drop(&mut self) {
        if self.is_running() {
            process::kill(&mut self.child);
            let _ = self.child.wait();
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

/// Sends the lines of an output to the screen, until either ends.
fn forward_lines(output: impl Read, task: usize, error: bool, events: &SyncSender<ScreenEvent>) {
    let mut reader = BufReader::new(output);
    loop {
        let mut bytes = Vec::new();
        match reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_end_matches(['\n', '\r']).to_owned();
        let event = ScreenEvent::Line { task, line, error };
        if events.send(event).is_err() {
            return;
        }
    }
}
