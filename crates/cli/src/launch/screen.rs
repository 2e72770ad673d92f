//! What the tasks of a launch say, as people see it.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long no line may be written before the last lines are given up.
pub const STUCK: Duration = Duration::from_secs(2);
/// How long last lines are waited for in all: a process that has left its task may write for ever.
const LAST: Duration = Duration::from_secs(10);

/// What there is to show.
pub enum Event {
    /// A line that a task has printed.
    Line {
        /// The number of the task.
        task: usize,
        /// The line.
        line: String,
        /// Whether it came on standard error.
        error: bool,
    },
    /// One more task was started.
    Started {
        /// Its name. Its number is that of the last one, and 1.
        name: String,
    },
    /// A task has ended that others may replace: nothing of it is shown any more.
    Gone {
        /// The number of the task.
        task: usize,
    },
    /// What became of a task.
    State {
        /// The number of the task.
        task: usize,
        /// In a few words.
        state: String,
    },
    /// What the launcher itself has done.
    Note(String),
}

/// Lines that could not be shown.
#[derive(Default)]
pub struct Lost {
    /// How many.
    pub lines: u64,
    /// Why.
    pub why: Option<std::io::Error>,
}

/// The thread that shows lines: one that cannot be written holds up nothing else.
pub struct Screen {
    shown: Arc<AtomicU64>,
    lost: Receiver<Lost>,
}

impl Screen {
    /// Shows what tasks of these names say, until all who send events are gone.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(names: Vec<String>, events: Receiver<Event>) -> std::io::Result<Screen> {
        let (sender, lost) = channel();
        let shown = Arc::<AtomicU64>::default();
        let counted = shown.clone();
        std::thread::Builder::new().spawn(move || {
            let mut lines = Lines::new(names);
            for event in events {
                lines.show(event);
                counted.fetch_add(1, Ordering::Relaxed);
            }
            // An error is a launch that waits no longer.
            let _ = sender.send(lines.end());
        })?;
        Ok(Screen { shown, lost })
    }

    /// Waits for the last lines. Gives what was lost; none where not all was written.
    pub fn end(self) -> Option<Lost> {
        let ended = Instant::now();
        let mut before = u64::MAX;
        loop {
            match self.lost.recv_timeout(STUCK) {
                Ok(lost) => return Some(lost),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let shown = self.shown.load(Ordering::Relaxed);
            if std::mem::replace(&mut before, shown) == shown || ended.elapsed() > LAST {
                return None;
            }
        }
    }
}

/// What a task does, as far as its lines tell.
struct Row {
    name: String,
    bar: ProgressBar,
    state: String,
    step: Option<String>,
    speed: Option<String>,
}

struct Lines {
    rows: Vec<Row>,
    bars: MultiProgress,
    /// Whether lines of standard output and of standard error stand above the bars.
    above: [bool; 2],
    lost: Lost,
}

impl Lines {
    fn new(names: Vec<String>) -> Lines {
        let terminal = stderr().is_terminal();
        let target = match terminal {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bars = MultiProgress::with_draw_target(target);
        let mut lines = Lines {
            rows: Vec::new(),
            bars,
            above: [terminal && stdout().is_terminal(), terminal],
            lost: Lost::default(),
        };
        names.into_iter().for_each(|name| lines.add(name));
        lines
    }

    fn add(&mut self, name: String) {
        let bar = self.bars.add(ProgressBar::no_length());
        if let Ok(style) = ProgressStyle::with_template("{prefix:10.cyan} {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(name.clone());
        let row = Row {
            name,
            bar,
            state: "running".to_owned(),
            step: None,
            speed: None,
        };
        row.draw();
        self.rows.push(row);
    }

    fn show(&mut self, event: Event) {
        match event {
            Event::Note(line) => self.write(&line, true),
            Event::Started { name } => self.add(name),
            Event::Gone { task } => {
                if let Some(row) = self.rows.get(task) {
                    row.bar.finish_and_clear();
                }
            }
            Event::State { task, state } => {
                let row = &mut self.rows[task];
                row.state = state;
                row.draw();
            }
            Event::Line { task, line, error } => {
                let row = &mut self.rows[task];
                row.note(&line);
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
            self.lost.lines += 1;
            self.lost.why.get_or_insert(e);
        }
    }

    fn end(self) -> Lost {
        self.rows.iter().for_each(|r| r.bar.finish_and_clear());
        self.lost
    }
}

impl Row {
    /// Takes from a line what it tells of the task.
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

/// The number behind `mark`.
fn after(line: &str, mark: &str) -> Option<String> {
    let rest = line.split_once(mark)?.1.trim_start();
    let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (!number.is_empty()).then_some(number)
}

/// The number in front of `unit`.
fn before(line: &str, unit: &str) -> Option<String> {
    let word = line.split_once(unit)?.0.rsplit(' ').next()?;
    word.parse::<f64>().ok().map(|_| word.to_owned())
}
