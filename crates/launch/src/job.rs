//! Supervision of a job whose tasks all start at once: until all have ended, and with which exit code.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::screen::{LostLines, Screen, ScreenEvent, show};
use crate::signals::{self, Signals};
use crate::task::{LaunchedTask, TaskSpec, status_text};

/// Interval at which tasks and signals are polled.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Number of lines that may wait for the screen until tasks block.
pub(crate) const EVENT_QUEUE: usize = 1024;
/// Exit code of a job whose tasks have all succeeded, but whose output is lost in part: `EX_IOERR`.
const EX_IOERR: u8 = 74;

/// End of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobExit {
    /// Exit code for the launcher's process.
    pub code: u8,
    /// Lines for the user, for standard error.
    pub messages: Vec<String>,
}

impl JobExit {
    /// Exit code of a process or of a signal, and a line for the user.
    pub(crate) fn new(code: i32, message: String) -> JobExit {
        JobExit {
            code: u8::try_from(code).unwrap_or(1),
            messages: vec![message],
        }
    }

    /// End of a job whose tasks have all succeeded: an error if lines of theirs are lost. `None` are lines that the screen
    /// has not written in time.
    pub(crate) fn success(lost: Option<LostLines>) -> JobExit {
        let reason = match lost {
            Some(lost) if lost.count == 0 => {
                return JobExit {
                    code: 0,
                    messages: Vec::new(),
                };
            }
            Some(lost) => lost.error.map_or_else(String::new, |e| e.to_string()),
            None => "nobody reads them".to_owned(),
        };
        JobExit::new(
            EX_IOERR.into(),
            format!(
                "error: all tasks are done, but lines of theirs could not be written: {reason}"
            ),
        )
    }
}

/// Starts tasks, and returns when all have ended. Lines from `notes` are shown as the launcher's own.
///
/// # Errors
/// A task cannot be started; signals cannot be caught.
pub(crate) fn run_tasks(
    specs: Vec<TaskSpec>,
    grace: Duration,
    notes: &Receiver<String>,
) -> Result<JobExit> {
    let mut signals = Signals::catch()?;
    let (sender, events) = sync_channel(EVENT_QUEUE);
    let names = specs.iter().map(|t| t.name.clone()).collect();
    let screen = Screen::start(names, events)?;
    let mut job = RunningTasks {
        tasks: Vec::new(),
        grace,
    };
    for (number, spec) in specs.into_iter().enumerate() {
        job.tasks.push(LaunchedTask::start(spec, number, &sender)?);
    }
    Ok(job.supervise(&mut signals, sender, screen, notes))
}

/// Tasks that were started; those that still run are killed when this is dropped.
struct RunningTasks {
    tasks: Vec<LaunchedTask>,
    /// Time that a task may take to end by itself, and again after SIGTERM.
    grace: Duration,
}

/// Reason why the tasks are to end.
#[derive(Default)]
struct Shutdown {
    since: Option<Instant>,
    /// First task that failed, and its exit code.
    failed: Option<(String, i32)>,
    /// First signal that the launcher got.
    signal: Option<i32>,
}

impl RunningTasks {
    /// Waits until all tasks have ended. The exit code is that of the first task that failed.
    fn supervise(
        mut self,
        signals: &mut Signals,
        events: SyncSender<ScreenEvent>,
        screen: Screen,
        notes: &Receiver<String>,
    ) -> JobExit {
        let mut shutdown = Shutdown::default();
        while self.tasks.iter().any(LaunchedTask::is_running) {
            std::thread::sleep(POLL_INTERVAL);
            for line in notes.try_iter() {
                show(ScreenEvent::Note(line), &events);
            }
            for signal in signals.pending() {
                if shutdown.signal.is_some() {
                    let killed = self.tasks.iter_mut().filter_map(LaunchedTask::kill);
                    let note = |name| format!("killed: {name}, after a second signal");
                    killed.for_each(|name| show(ScreenEvent::Note(note(name)), &events));
                }
                shutdown.signal.get_or_insert(signal);
            }
            self.reap(&mut shutdown, &events);
            self.terminate(&mut shutdown, &events);
        }
        drop(events);
        let lost = screen.end();
        if let Some(signal) = shutdown.signal {
            let text = format!("ended by {}", signals::name(signal));
            return JobExit::new(128 + signal, text);
        }
        if let Some((name, code)) = shutdown.failed {
            return JobExit::new(code, format!("error: {name} {}", status_text(code)));
        }
        JobExit::success(lost)
    }

    /// Notes the tasks that have ended.
    fn reap(&mut self, shutdown: &mut Shutdown, events: &SyncSender<ScreenEvent>) {
        for (number, task) in self.tasks.iter_mut().enumerate() {
            let Some(code) = task.poll_exit() else {
                continue;
            };
            let state = status_text(code);
            show(
                ScreenEvent::State {
                    task: number,
                    state,
                },
                events,
            );
            if code != 0 && !task.was_terminated() && shutdown.failed.is_none() {
                shutdown.failed = Some((task.name.clone(), code));
            }
        }
    }

    /// Terminates tasks that should end, and kills those whose grace is over.
    fn terminate(&mut self, shutdown: &mut Shutdown, events: &SyncSender<ScreenEvent>) {
        let mut workers = self.tasks.iter().filter(|t| t.worker);
        let at_once = shutdown.signal.is_some() || shutdown.failed.is_some();
        if !at_once && workers.any(LaunchedTask::is_running) {
            return;
        }
        // A task may end by itself, such as a server that learns that all workers are done.
        let since = shutdown.since.get_or_insert_with(Instant::now).elapsed();
        if at_once || since > self.grace {
            self.tasks.iter_mut().for_each(LaunchedTask::terminate);
        }
        let grace = self.grace;
        for task in self.tasks.iter_mut().filter(|t| t.is_overdue(grace)) {
            if let Some(name) = task.kill() {
                let grace = grace.as_secs();
                let note = format!("killed: {name} did not end within {grace} s of SIGTERM");
                show(ScreenEvent::Note(note), events);
            }
        }
    }
}
