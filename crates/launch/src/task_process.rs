//! Process of a task, on this host or on another.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::error::{LaunchError, Result};
use crate::process;
use crate::protocol::StartTask;
use crate::remote::{AgentLink, RemoteTask};
use crate::screen::ScreenEvent;
use crate::task_exit::ProcessExit;

/// Maximum length of a line that is kept whole, in bytes.
const MAX_LINE: u64 = 64 << 10;

/// Program of a task, and where it runs.
pub(crate) enum TaskProgram {
    /// Command on this host.
    Local(Command),
    /// Command that an agent starts on its host.
    Remote(Arc<AgentLink>, Box<StartTask>),
}

/// Process that was started.
pub(crate) enum TaskProcess {
    Local {
        child: Child,
        /// Time of the end, from a thread that awaits it: polling alone does not tell which of two tasks has ended first.
        ended_at: Arc<OnceLock<Instant>>,
    },
    Remote(RemoteTask),
}

impl TaskProgram {
    /// Starts the process, whose lines go to `events` as those of task `number`. It ends with the thread that calls this.
    ///
    /// # Errors
    /// The program cannot be started on this host. On another, its end says so.
    pub(crate) fn start(
        &mut self,
        number: usize,
        events: &SyncSender<ScreenEvent>,
    ) -> Result<TaskProcess> {
        match self {
            TaskProgram::Remote(link, start) => {
                Ok(TaskProcess::Remote(AgentLink::start(link, number, start)))
            }
            TaskProgram::Local(command) => {
                let program = command.get_program().to_string_lossy().into_owned();
                let started = start_local(command, number, events);
                started.map_err(|e| {
                    LaunchError::of_attempt(e, |source| LaunchError::Start { program, source })
                })
            }
        }
    }
}

/// Starts a process on this host, and threads that wait for its end and read its outputs.
fn start_local(
    command: &mut Command,
    number: usize,
    events: &SyncSender<ScreenEvent>,
) -> std::io::Result<TaskProcess> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let ended_at = Arc::default();
    match watch(&mut child, &ended_at, number, events) {
        Ok(()) => Ok(TaskProcess::Local { child, ended_at }),
        Err(error) => {
            process::kill(&mut child);
            let _ = child.wait();
            Err(error)
        }
    }
}

/// Waits for the end of a process, and reads its outputs, in threads.
fn watch(
    child: &mut Child,
    ended_at: &Arc<OnceLock<Instant>>,
    number: usize,
    events: &SyncSender<ScreenEvent>,
) -> std::io::Result<()> {
    let (ended, end) = (ended_at.clone(), process::end_of(child));
    std::thread::Builder::new().spawn(move || {
        if end() {
            ended.get_or_init(Instant::now);
        }
    })?;
    let outputs: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|o| Box::new(o) as _),
        child.stderr.take().map(|o| Box::new(o) as _),
    ];
    for (error, output) in outputs.into_iter().enumerate() {
        let Some(output) = output else { continue };
        let (events, error) = (events.clone(), error == 1);
        let read = move || forward_lines(output, number, error, &events);
        std::thread::Builder::new().spawn(read)?;
    }
    Ok(())
}

impl TaskProcess {
    /// Returns how the process has ended, once it has.
    pub(crate) fn poll(&mut self) -> Option<ProcessExit> {
        match self {
            TaskProcess::Remote(task) => task.poll(),
            TaskProcess::Local { child, ended_at } => {
                let code = match process::try_wait(child) {
                    Ok(None) => return None,
                    Ok(Some(status)) => process::exit_code(status),
                    Err(_) => 1,
                };
                let at = *ended_at.get_or_init(Instant::now);
                Some(ProcessExit {
                    code,
                    at,
                    lost: None,
                })
            }
        }
    }

    /// Sends SIGTERM to the process and its group. Its end has not been polled yet.
    pub(crate) fn terminate(&self) {
        match self {
            TaskProcess::Local { child, .. } => process::terminate(child),
            TaskProcess::Remote(task) => task.terminate(),
        }
    }

    /// Sends SIGKILL to the process and its group. Its end has not been polled yet.
    pub(crate) fn kill(&mut self) {
        match self {
            TaskProcess::Local { child, .. } => process::kill(child),
            TaskProcess::Remote(task) => task.kill(),
        }
    }

    /// Kills the process, and waits until it is gone if it runs on this host.
    pub(crate) fn kill_and_wait(&mut self) {
        self.kill();
        if let TaskProcess::Local { child, .. } = self {
            let _ = child.wait();
        }
    }
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
