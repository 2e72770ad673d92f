//! Agent of a launcher on another host: it starts tasks and ends them, as a [`crate::remote`] launcher tells it on its standard input.
//!
//! At the end of its input, and after a silence, it kills its tasks and ends. So no task outlives its launcher, and none is
//! left behind a broken network.

mod outbox;
mod window;

#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::console::EVENT_QUEUE;
use crate::error::{LaunchError, Result};
use crate::probe::probe;
use crate::process::command_of;
use crate::protocol::{
    Answer, PROTOCOL, ProtocolError, Request, SILENCE, StartTask, parse, read_line, window_bytes,
};
use crate::reach::{NonceSocket, connect_all};
use crate::screen::ScreenEvent;
use crate::signals::Signals;
use crate::task::{LaunchedTask, TaskProgram, TaskSpec};
use outbox::Outbox;
use window::Window;

/// Interval at which tasks and signals are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Number of requests that wait for the agent.
const REQUEST_QUEUE: usize = 64;
/// Time in which the last lines of ended tasks are read: a process that has left its task's group may write for ever.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time of an attempt to connect.
const MAX_CONNECT: Duration = Duration::from_secs(60);

/// Serves a launcher on standard input and standard output, until the input ends. The program `thalweg` does this as
/// `thalweg launch agent`, which a launcher runs on each of its hosts.
///
/// # Errors
/// The launcher has sent what is no message, or nothing for 30 s.
pub fn run_agent() -> Result<()> {
    let mut signals = Signals::catch()?;
    let mut pending = || signals.pending().len();
    serve(std::io::stdin(), std::io::stdout(), &mut pending, SILENCE)
}

/// Serves a launcher. `signals` returns the number of signals that have come since its last call: the first one terminates all
/// tasks, and a second one kills them.
///
/// # Errors
/// As [`run_agent`].
fn serve(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    signals: &mut dyn FnMut() -> usize,
    silence: Duration,
) -> Result<()> {
    let (sender, requests) = sync_channel(REQUEST_QUEUE);
    std::thread::Builder::new().spawn(move || read_requests(input, &sender))?;
    let outbox = Outbox::start(output)?;
    let window = Arc::new(Window::default());
    let (events, lines) = sync_channel(EVENT_QUEUE);
    let (drained, drains) = channel();
    let pump = (window.clone(), outbox.clone());
    std::thread::Builder::new().spawn(move || {
        send_lines(&lines, &pump.0, &pump.1);
        // An error is an agent that has ended.
        let _ = drained.send(());
    })?;
    let mut agent = Agent {
        tasks: BTreeMap::new(),
        events: Some(events),
        outbox,
        window,
        socket: Arc::default(),
        signals: 0,
        finish_at: None,
    };
    let ended = agent.serve(&requests, signals, &drains, silence);
    // The tasks are killed before the launcher is told.
    agent.tasks.clear();
    if let Err(error) = &ended {
        let reason = error.to_string();
        agent.outbox.send(Answer::Failed { reason });
    }
    agent.outbox.end();
    ended
}

/// Reads requests until the input ends, or is none.
fn read_requests(
    input: impl Read,
    requests: &SyncSender<std::result::Result<Request, ProtocolError>>,
) {
    let mut input = BufReader::new(input);
    loop {
        let request = match read_line(&mut input) {
            Ok(None) => return,
            Ok(Some(line)) => parse(&line),
            Err(error) => Err(error),
        };
        let ends = request.is_err();
        if requests.send(request).is_err() || ends {
            return;
        }
    }
}

/// Sends the lines of tasks, as far as the launcher takes them.
fn send_lines(lines: &Receiver<ScreenEvent>, window: &Window, outbox: &Outbox) {
    for event in lines {
        if let ScreenEvent::Line { task, line, error } = event {
            window.take(window_bytes(&line));
            outbox.send(Answer::Line { task, error, line });
        }
    }
}

fn lock(socket: &Mutex<Option<NonceSocket>>) -> MutexGuard<'_, Option<NonceSocket>> {
    socket.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Agent {
    tasks: BTreeMap<usize, LaunchedTask>,
    /// Sender of lines, until no more tasks come.
    events: Option<SyncSender<ScreenEvent>>,
    outbox: Outbox,
    window: Arc<Window>,
    socket: Arc<Mutex<Option<NonceSocket>>>,
    /// Number of signals that have come.
    signals: usize,
    /// Time at which the launcher has told that no more tasks come, and all have ended.
    finish_at: Option<Instant>,
}

impl Agent {
    fn serve(
        &mut self,
        requests: &Receiver<std::result::Result<Request, ProtocolError>>,
        signals: &mut dyn FnMut() -> usize,
        drains: &Receiver<()>,
        silence: Duration,
    ) -> Result<()> {
        let mut heard = Instant::now();
        let mut finishes = false;
        loop {
            match requests.recv_timeout(POLL_INTERVAL) {
                Ok(request) => {
                    heard = Instant::now();
                    let request = request.map_err(|e| LaunchError::Argument(e.to_string()))?;
                    finishes |= request == Request::Finish;
                    self.handle(request)?;
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) if heard.elapsed() > silence => {
                    let seconds = silence.as_secs();
                    return Err(format!("nothing was heard of the launcher for {seconds} s").into());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.take_signals(signals());
            self.reap();
            if self.outbox.is_stuck() {
                return Err("the launcher does not read".into());
            }
            if finishes && self.tasks.is_empty() {
                // The lines end when the last task's outputs do.
                self.events = None;
                let since = self.finish_at.get_or_insert_with(Instant::now);
                if drains.try_recv().is_ok() || since.elapsed() > DRAIN_TIMEOUT {
                    return Ok(());
                }
            }
        }
    }

    /// Does what the launcher asks for.
    ///
    /// # Errors
    /// The launcher is of another version, or does not keep to the protocol.
    fn handle(&mut self, request: Request) -> Result<()> {
        match request {
            Request::Hello { protocol, version } => {
                let own = env!("CARGO_PKG_VERSION").to_owned();
                if (protocol, &version) != (PROTOCOL, &own) {
                    return Err(format!(
                        "the agent has version {own} (protocol {PROTOCOL}), and the launcher {version} (protocol {protocol}): \
                         install one version on all hosts"
                    )
                    .into());
                }
                let version = own;
                self.outbox.send(Answer::Hello { protocol, version });
            }
            Request::Probe(request) => self.answer_later(move || Answer::Probe(probe(&request)))?,
            Request::Listen {
                address,
                port,
                nonce,
            } => {
                let socket = self.socket.clone();
                self.answer_later(move || {
                    let opened = NonceSocket::open(&address, port, &nonce);
                    let port = match &opened {
                        Ok(socket) => Ok(socket.port()),
                        Err(e) => Err(e.to_string()),
                    };
                    *lock(&socket) = opened.ok();
                    Answer::Listening { port }
                })?;
            }
            Request::CloseSocket => {
                lock(&self.socket).take();
                self.outbox.send(Answer::SocketClosed);
            }
            Request::Connect { to, seconds } => {
                let timeout = Duration::from_secs(seconds).min(MAX_CONNECT);
                self.answer_later(move || {
                    let errors = connect_all(&to, timeout);
                    Answer::Connected { errors }
                })?;
            }
            Request::Start { task, start } => self.start(task, &start)?,
            Request::Terminate { task } => {
                if let Some(task) = self.tasks.get_mut(&task) {
                    task.terminate();
                }
            }
            Request::Kill { task } => {
                if let Some(task) = self.tasks.get_mut(&task) {
                    task.kill();
                }
            }
            Request::Taken { bytes } => self.window.give(bytes),
            Request::Alive => self.outbox.send(Answer::Alive),
            Request::Finish => {}
        }
        Ok(())
    }

    /// Answers from a thread, so that the agent goes on meanwhile.
    fn answer_later(&self, answer: impl FnOnce() -> Answer + Send + 'static) -> Result<()> {
        let outbox = self.outbox.clone();
        std::thread::Builder::new().spawn(move || outbox.send(answer()))?;
        Ok(())
    }

    fn start(&mut self, task: usize, start: &StartTask) -> Result<()> {
        let Some(events) = &self.events else {
            return Err("a task comes after the last one".into());
        };
        if self.tasks.contains_key(&task) {
            return Err(format!("there is a task {task} already").into());
        }
        let spec = TaskSpec {
            name: format!("task {task}"),
            worker: true,
            program: TaskProgram::Local(command_of(start)),
        };
        match LaunchedTask::start(spec, task, events) {
            Ok(started) => drop(self.tasks.insert(task, started)),
            Err(error) => {
                let reason = error.to_string();
                self.outbox.send(Answer::NotStarted { task, reason });
            }
        }
        Ok(())
    }

    fn take_signals(&mut self, count: usize) {
        for _ in 0..count {
            self.signals += 1;
            for task in self.tasks.values_mut() {
                task.terminate();
                if self.signals > 1 {
                    task.kill();
                }
            }
        }
    }

    /// Tells the launcher of the tasks that have ended.
    fn reap(&mut self) {
        let outbox = &self.outbox;
        self.tasks.retain(|&number, task| {
            let Some(code) = task.poll_exit() else {
                return true;
            };
            let task = number;
            outbox.send(Answer::Ended { task, code });
            false
        });
    }
}
