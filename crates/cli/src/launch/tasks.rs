//! All tasks of a launch: who has ended, who is told to, and the status of all.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use super::screen::{Event, Lost, STUCK, Screen};
use super::signals::{self, Signals};
use super::task::{self, LaunchedTask};
use crate::say;

/// How often the tasks and signals are looked at.
const TICK: Duration = Duration::from_millis(50);
/// The status where all tasks have ended well, but lines of theirs are lost: `EX_IOERR`.
const LINES_LOST: u8 = 74;

/// The tasks that were started; what still runs is ended with this.
pub struct Tasks {
    /// The tasks.
    pub all: Vec<LaunchedTask>,
    /// How long a task may take to end by itself, and again once it was told to.
    pub grace: Duration,
}

/// Why the tasks are to end.
#[derive(Default)]
struct End {
    /// When that began.
    since: Option<Instant>,
    /// The first task that failed, and its status.
    failed: Option<(String, i32)>,
    /// The signal that the launcher got first.
    signal: Option<i32>,
}

impl Tasks {
    /// Waits until all tasks have ended. Gives the status of the first that failed.
    pub fn watch(
        mut self,
        signals: &mut Signals,
        events: SyncSender<Event>,
        screen: Screen,
        said: &Receiver<String>,
    ) -> ExitCode {
        let mut end = End::default();
        while self.all.iter().any(LaunchedTask::runs) {
            std::thread::sleep(TICK);
            for line in said.try_iter() {
                tell(Event::Note(line), &events);
            }
            for signal in signals.came() {
                if end.signal.is_some() {
                    let killed = self.all.iter_mut().filter_map(LaunchedTask::kill);
                    let note = |name| format!("killed: {name}, after a second signal");
                    killed.for_each(|name| tell(Event::Note(note(name)), &events));
                }
                end.signal.get_or_insert(signal);
            }
            self.look(&mut end, &events);
            self.urge(&mut end, &events);
        }
        drop(events);
        let lost = screen.end();
        let say = |line: &dyn Display| say::error_within(STUCK, line);
        if let Some(signal) = end.signal {
            say(&format_args!("ended by {}", signals::name(signal)));
            return ExitCode::from(u8::try_from(128 + signal).unwrap_or(1));
        }
        if let Some((name, code)) = end.failed {
            say(&format_args!("error: {name} {}", task::status(code)));
            return ExitCode::from(u8::try_from(code).unwrap_or(1));
        }
        all_done(lost)
    }

    /// Notes who has ended.
    fn look(&mut self, end: &mut End, events: &SyncSender<Event>) {
        for (number, task) in self.all.iter_mut().enumerate() {
            let Some(code) = task.ended() else { continue };
            let state = task::status(code);
            tell(
                Event::State {
                    task: number,
                    state,
                },
                events,
            );
            if code != 0 && !task.was_told() && end.failed.is_none() {
                end.failed = Some((task.name.clone(), code));
            }
        }
    }

    /// Tells those to end that should have.
    fn urge(&mut self, end: &mut End, events: &SyncSender<Event>) {
        let mut workers = self.all.iter().filter(|t| t.worker);
        let at_once = end.signal.is_some() || end.failed.is_some();
        if !at_once && workers.any(LaunchedTask::runs) {
            return;
        }
        // Who ends by itself is let: a server that hears that the workers are done.
        let since = end.since.get_or_insert_with(Instant::now).elapsed();
        if at_once || since > self.grace {
            self.all.iter_mut().for_each(LaunchedTask::terminate);
        }
        for task in self.all.iter_mut().filter(|t| t.is_late(self.grace)) {
            if let Some(name) = task.kill() {
                let grace = self.grace.as_secs();
                let note = format!("killed: {name} did not end within {grace} s of SIGTERM");
                tell(Event::Note(note), events);
            }
        }
    }
}

/// The status where all tasks have ended well: another one, and a line, where lines of theirs are lost.
pub fn all_done(lost: Option<Lost>) -> ExitCode {
    let why = match lost {
        Some(lost) if lost.lines == 0 => return ExitCode::SUCCESS,
        Some(lost) => lost.why.map_or_else(String::new, |e| e.to_string()),
        None => "nobody reads them".to_owned(),
    };
    let line =
        format_args!("error: all tasks are done, but lines of theirs could not be written: {why}");
    say::error_within(STUCK, line);
    ExitCode::from(LINES_LOST)
}

/// A screen that is behind shows it late or not at all, and holds up nobody.
pub fn tell(event: Event, events: &SyncSender<Event>) {
    let _ = events.try_send(event);
}
