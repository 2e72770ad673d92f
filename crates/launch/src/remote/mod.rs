//! Connection of a launcher to its agent on another host, and the tasks that run there.

mod access_process;
mod requests;
mod state;
mod threads;

use std::io::BufReader;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{SyncSender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{LaunchError, Result};
use crate::process;
use crate::protocol::{Answer, PROTOCOL, Request, SILENCE, StartTask};
use crate::screen::ScreenEvent;
use crate::task_exit::ProcessExit;
use access_process::AccessProcess;
use requests::Requests;
use state::LinkState;

/// Time in which an agent reports the end of a killed task.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Time in which an agent ends after its input has.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// Connection to the agent of a host. The agent ends, with all of its tasks, when this is dropped.
pub(crate) struct AgentLink {
    host: String,
    requests: Arc<Requests>,
    state: Arc<Mutex<LinkState>>,
    process: Arc<AccessProcess>,
}

impl AgentLink {
    /// Runs a command that starts the agent of a host. Lines of its tasks, and what the command writes to standard error, go to
    /// `events`. The answer to the first message comes later.
    ///
    /// # Errors
    /// The command cannot be started.
    pub(crate) fn open(
        host: &str,
        mut command: Command,
        events: &SyncSender<ScreenEvent>,
    ) -> Result<AgentLink> {
        let program = command.get_program().to_string_lossy().into_owned();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        process::separate(&mut command);
        let mut child = command.spawn().map_err(|e| {
            let program = program.clone();
            LaunchError::of_attempt(e, |source| LaunchError::Start { program, source })
        })?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (sender, queue) = channel();
        let link = AgentLink {
            host: host.to_owned(),
            requests: Arc::new(Requests::new(sender)),
            state: Arc::new(Mutex::new(LinkState::new())),
            process: Arc::new(AccessProcess::new(program, child)),
        };
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err("the access program has no pipes".into());
        };
        let thread = std::thread::Builder::new;
        thread().spawn(move || threads::write_requests(stdin, &queue))?;
        let (state, shown, name) = (link.state.clone(), events.clone(), link.host.clone());
        let errors = thread().spawn(move || threads::read_errors(stderr, &name, &state, &shown))?;
        let (lines, queue) = channel();
        let waiting = Arc::<AtomicUsize>::default();
        let (requests, shown, taken) = (link.requests.clone(), events.clone(), waiting.clone());
        thread().spawn(move || threads::show_lines(&queue, &shown, &requests, &taken))?;
        let (state, process) = (link.state.clone(), link.process.clone());
        thread().spawn(move || {
            let ended = threads::read_answers(BufReader::new(stdout), &state, &lines, &waiting);
            // The lines end here, whatever becomes of the process.
            drop(lines);
            threads::tell_end(ended, &process, &errors, &state);
        })?;
        link.send(Request::Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        });
        Ok(link)
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request. A connection that is lost drops it.
    pub(crate) fn send(&self, request: Request) {
        self.requests.send(request);
    }

    /// Returns the next answer that is none of a task, if it has come.
    ///
    /// # Errors
    /// The connection is lost; the error says why.
    pub(crate) fn poll_answer(&self) -> std::result::Result<Option<Answer>, String> {
        self.check();
        let mut state = self.state();
        match (state.answers.pop_front(), &state.lost) {
            (None, Some(reason)) => Err(reason.clone()),
            (answer, _) => Ok(answer),
        }
    }

    /// Gives up a connection whose agent has spoken, and is silent now.
    pub(crate) fn check(&self) {
        let heard_at = self.state().heard_at;
        if let Some(silence) = heard_at.map(|at| at.elapsed())
            && silence > SILENCE
        {
            let seconds = silence.as_secs();
            self.lose(format!("nothing was heard of its agent for {seconds} s"));
        }
    }

    /// Gives up the connection, for this reason, and kills the access program. It waits for nothing.
    pub(crate) fn lose(&self, reason: String) {
        self.state().lose(reason);
        self.process.kill();
    }

    /// Starts a task, whose lines are shown as those of `number`. On a connection that is lost, it has ended with its host.
    pub(crate) fn start(link: &Arc<AgentLink>, number: usize, start: &StartTask) -> RemoteTask {
        let task = link.state().add_task(number);
        let start = Box::new(start.clone());
        link.send(Request::Start { task, start });
        RemoteTask {
            link: link.clone(),
            task,
            killed_at: None,
        }
    }

    /// `true` if a task was started there.
    pub(crate) fn has_run_tasks(&self) -> bool {
        self.state().has_run_tasks()
    }

    /// Tells the agent that no more tasks come: it ends once all lines of the ended ones have come.
    pub(crate) fn finish(&self) {
        self.send(Request::Finish);
    }

    /// Ends the agent with all of its tasks, and waits until the access program has ended, or kills it.
    pub(crate) fn close(&self) {
        // The agent sees the end of its input.
        self.requests.close();
        self.process.end(END_TIMEOUT);
    }

    /// Ends an agent whose tasks have ended, after their last lines.
    pub(crate) fn close_after_lines(&self) {
        self.finish();
        self.process.end(END_TIMEOUT);
        self.requests.close();
    }
}

impl Drop for AgentLink {
    fn drop(&mut self) {
        self.close();
    }
}

/// Task on another host.
pub(crate) struct RemoteTask {
    link: Arc<AgentLink>,
    task: usize,
    killed_at: Option<Instant>,
}

impl RemoteTask {
    /// Returns how the task has ended, once it has.
    pub(crate) fn poll(&self) -> Option<ProcessExit> {
        self.link.check();
        if self.killed_at.is_some_and(|at| at.elapsed() > KILL_TIMEOUT) {
            let seconds = KILL_TIMEOUT.as_secs();
            let reason = format!("its agent has not killed a task within {seconds} s");
            self.link.lose(reason);
        }
        let mut exit = self.link.state().tasks.get(&self.task)?.exit.clone()?;
        exit.lost = exit
            .lost
            .map(|reason| format!("lost with the host '{}': {reason}", self.link.host));
        Some(exit)
    }

    /// Sends SIGTERM to the task and its group.
    pub(crate) fn terminate(&self) {
        self.link.send(Request::Terminate { task: self.task });
    }

    /// Sends SIGKILL to the task and its group.
    pub(crate) fn kill(&mut self) {
        self.killed_at.get_or_insert_with(Instant::now);
        self.link.send(Request::Kill { task: self.task });
    }
}
