//! A progress bar for a training loop.

use std::fmt::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

const TEMPLATE: &str =
    "{bar:24.cyan/dim} step {pos}/{len}  {rate} images/s  loss {msg}  {eta} left";

/// How often the loss on the bar changes: often enough to look live, seldom enough
/// that a step of microseconds does not pay for it.
const PERIOD: Duration = Duration::from_millis(100);

/// Steps done, images a second, loss and time left, on standard error.
///
/// Shows nothing when standard error is not a terminal.
pub struct Progress {
    bar: ProgressBar,
    shown: Option<Instant>,
}

impl Progress {
    /// A bar for `steps` steps of `batch` images each; one that is not `visible` shows
    /// nothing, as for `--json`.
    pub fn new(steps: u64, batch: usize, visible: bool) -> Self {
        let target = if visible {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let rate = move |state: &ProgressState, out: &mut dyn Write| {
            // A bar has nowhere to report that its text could not be built.
            let _ = write!(out, "{:.0}", state.per_sec() * batch as f64);
        };
        let style = ProgressStyle::with_template(TEMPLATE)
            .expect("the template is a constant that parses")
            .with_key("rate", rate)
            .progress_chars("━━─");
        let bar = ProgressBar::with_draw_target(Some(steps), target).with_style(style);
        bar.set_message("-");
        Progress { bar, shown: None }
    }

    /// Counts one more step, which ended with `loss`.
    pub fn step(&mut self, loss: f32) {
        if self.shown.is_none_or(|at| at.elapsed() >= PERIOD) {
            self.shown = Some(Instant::now());
            self.bar.set_message(format!("{loss:.4}"));
        }
        self.bar.inc(1);
    }

    /// Prints a line to standard output, above the bar where there is one.
    pub fn line(&self, text: &str) {
        self.bar.suspend(|| println!("{text}"));
    }

    /// Takes the bar off the screen, at the end or when the loop is left early.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}
