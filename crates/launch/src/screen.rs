//! Screen: the output of all tasks, and on a terminal a row with the state of each.

use std::fs::File;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time without progress after which lines that cannot be written are given up.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time in all for the last lines: a process that has left its task's group may write for ever.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Event for the screen.
pub(crate) enum ScreenEvent {
    /// A line of a task's output.
    Line {
        /// The number of the task.
        task: usize,
        /// The line.
        line: String,
        /// `true` for standard error.
        error: bool,
    },
    /// One more task was started.
    Started {
        /// Its name. Its number is one above that of the last task.
        name: String,
    },
    /// A task has ended that others may replace: its row is removed.
    Gone {
        /// The number of the task.
        task: usize,
    },
    /// The state of a task has changed.
    State {
        /// The number of the task.
        task: usize,
        /// The state, in a few words.
        state: String,
    },
    /// A line of the launcher.
    Note(String),
}

/// Lines that could not be written.
#[derive(Default)]
pub(crate) struct LostLines {
    /// Number of lines.
    pub(crate) count: u64,
    /// First error.
    pub(crate) error: Option<std::io::Error>,
}

/// Thread that writes lines, so that a line that cannot be written blocks nothing else.
pub(crate) struct Screen {
    shown: Arc<AtomicU64>,
    lost: Receiver<LostLines>,
}

impl Screen {
    /// Starts the screen of tasks with these names; their lines go to `files` too, if there are any. It ends when all senders of
    /// events are dropped.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start(
        names: Vec<String>,
        files: Vec<File>,
        events: Receiver<ScreenEvent>,
    ) -> std::io::Result<Screen> {
        let (sender, lost) = channel();
        let shown = Arc::<AtomicU64>::default();
        let counted = shown.clone();
        std::thread::Builder::new().spawn(move || {
            let mut rows = Rows::new(names, files);
            for event in events {
                rows.show(event);
                counted.fetch_add(1, Ordering::Relaxed);
            }
            // An error is a launcher that has stopped waiting.
            let _ = sender.send(rows.end());
        })?;
        Ok(Screen { shown, lost })
    }

    /// Waits until the last line is written. Returns the lost lines; `None` on a timeout.
    pub(crate) fn end(self) -> Option<LostLines> {
        let ended = Instant::now();
        let mut before = u64::MAX;
        loop {
            match self.lost.recv_timeout(WRITE_TIMEOUT) {
                Ok(lost) => return Some(lost),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let shown = self.shown.load(Ordering::Relaxed);
            if std::mem::replace(&mut before, shown) == shown || ended.elapsed() > DRAIN_TIMEOUT {
                return None;
            }
        }
    }
}

/// State of a task, as far as its lines have it.
struct TaskRow {
    name: String,
    bar: ProgressBar,
    state: String,
    step: Option<String>,
    speed: Option<String>,
}

struct Rows {
    rows: Vec<TaskRow>,
    /// Files of the tasks' output; none, or one for each.
    files: Vec<File>,
    bars: MultiProgress,
    /// `true` if lines of standard output, and of standard error, are written above the bars.
    above: [bool; 2],
    lost: LostLines,
}

impl Rows {
    fn new(names: Vec<String>, files: Vec<File>) -> Rows {
        let terminal = stderr().is_terminal();
        let target = match terminal {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bars = MultiProgress::with_draw_target(target);
        let mut all = Rows {
            rows: Vec::new(),
            files,
            bars,
            above: [terminal && stdout().is_terminal(), terminal],
            lost: LostLines::default(),
        };
        names.into_iter().for_each(|name| all.add(name));
        all
    }

    fn add(&mut self, name: String) {
        let bar = self.bars.add(ProgressBar::no_length());
        if let Ok(style) = ProgressStyle::with_template("{prefix:10.cyan} {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(name.clone());
        let row = TaskRow {
            name,
            bar,
            state: "running".to_owned(),
            step: None,
            speed: None,
        };
        row.draw();
        self.rows.push(row);
    }

    fn show(&mut self, event: ScreenEvent) {
        match event {
            ScreenEvent::Note(line) => self.write(&line, true),
            ScreenEvent::Started { name } => self.add(name),
            ScreenEvent::Gone { task } => {
                if let Some(row) = self.rows.get(task) {
                    row.bar.finish_and_clear();
                }
            }
            ScreenEvent::State { task, state } => {
                let row = &mut self.rows[task];
                row.state = state;
                row.draw();
            }
            ScreenEvent::Line { task, line, error } => {
                let row = &mut self.rows[task];
                row.note(&line);
                if let Some(file) = self.files.get_mut(task)
                    && let Err(e) = file.write_all(format!("{line}\n").as_bytes())
                {
                    self.lost.count += 1;
                    self.lost.error.get_or_insert(e);
                }
                let line = format!("{:>9} | {line}", row.name);
                self.write(&line, error);
                self.rows[task].draw();
            }
        }
    }

    fn write(&mut self, line: &str, error: bool) {
        // `MultiProgress::suspend` would panic where the terminal is gone.
        let written = match (self.above[usize::from(error)], error) {
            (true, _) => self.bars.println(line),
            (false, true) => stderr().write_all(format!("{line}\n").as_bytes()),
            (false, false) => stdout().write_all(format!("{line}\n").as_bytes()),
        };
        if let Err(e) = written {
            self.lost.count += 1;
            self.lost.error.get_or_insert(e);
        }
    }

    fn end(self) -> LostLines {
        self.rows.iter().for_each(|r| r.bar.finish_and_clear());
        self.lost
    }
}

impl TaskRow {
    /// Reads the step and the speed from a line.
    fn note(&mut self, line: &str) {
        if let Some(step) = after(line, "step ") {
            self.step = Some(step);
        }
        for unit in [" images/s", " images/sec"] {
            if let Some(speed) = before(line, unit) {
                self.speed = Some(speed);
            }
        }
    }

    fn draw(&self) {
        let step = self.step.as_ref().map(|s| format!("step {s}"));
        let speed = self.speed.as_ref().map(|s| format!("{s} images/s"));
        let all = [Some(self.state.clone()), step, speed];
        let all: Vec<String> = all.into_iter().flatten().collect();
        self.bar.set_message(all.join("  "));
    }
}

/// Number after `mark`.
fn after(line: &str, mark: &str) -> Option<String> {
    let rest = line.split_once(mark)?.1.trim_start();
    let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (!number.is_empty()).then_some(number)
}

/// Number before `unit`.
fn before(line: &str, unit: &str) -> Option<String> {
    let word = line.split_once(unit)?.0.rsplit(' ').next()?;
    word.parse::<f64>().ok().map(|_| word.to_owned())
}

/// Sends an event to the screen, and drops it if the queue is full: a slow screen must not block the launcher.
pub(crate) fn show(event: ScreenEvent, events: &SyncSender<ScreenEvent>) {
    let _ = events.try_send(event);
}
