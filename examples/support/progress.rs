//! A progress bar for a training loop.

use std::time::{Duration, Instant};

use crate::output;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The message is cut to the terminal's width: a line that wraps would be drawn again below itself.
const TEMPLATE: &str = "{bar:8.cyan/dim} {wide_msg}";

/// Interval of updates of the text beside the bar: short enough to look live, long enough to cost nothing in steps of
/// microseconds.
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);

/// Steps done, loss, time left and images a second, on standard error.
///
/// Shows nothing when standard error is not a terminal. 40 columns are enough for all but the speed.
pub struct Progress {
    bar: ProgressBar,
    batch: usize,
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
        Progress::on(target, steps, batch)
    }

    /// A bar on this terminal.
    pub fn on(target: ProgressDrawTarget, steps: u64, batch: usize) -> Self {
        let style = ProgressStyle::with_template(TEMPLATE)
            .expect("the template is a constant that parses")
            .progress_chars("━━─");
        let bar = ProgressBar::with_draw_target(Some(steps), target).with_style(style);
        bar.set_message(format!("0/{steps}"));
        Progress {
            bar,
            batch,
            shown: None,
        }
    }

    /// Begins after `done` steps of an earlier run.
    pub fn begin_at(&mut self, done: u64) {
        self.bar.set_position(done);
        self.bar.reset_eta();
    }

    /// Counts one more step, which ended with `loss`.
    pub fn step(&mut self, loss: f32) {
        self.bar.inc(1);
        if self.shown.is_none_or(|at| at.elapsed() >= UPDATE_INTERVAL) {
            self.shown = Some(Instant::now());
            let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
            let left = HumanDuration(self.bar.eta());
            let speed = self.bar.per_sec() * self.batch as f64;
            self.bar.set_message(format!(
                "{done}/{all}  loss {loss:.4}  {left:#} left  {speed:.0} images/s"
            ));
        }
    }

    /// Prints a line to standard output, above the bar where there is one.
    pub fn line(&self, text: &str) {
        self.bar.suspend(|| output::line(text));
    }

    /// Takes the bar off the screen, at the end or when the loop is left early.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}
