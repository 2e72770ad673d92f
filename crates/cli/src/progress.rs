//! Bars that show how far long work is: on a terminal, and not where a program reads what is said.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How long work may take before a bar shows how far it is.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar that appears when the work takes long.
pub(crate) struct Progress {
    bar: ProgressBar,
    start: Instant,
}

impl Progress {
    /// One for so many items, each called `what`; none where `quiet`.
    pub(crate) fn new(what: &str, items: u64, quiet: bool) -> Progress {
        let bar = match std::io::stderr().is_terminal() && !quiet {
            true => {
                let style = ProgressStyle::with_template(
                    "{prefix:6} {pos}/{len}  {eta} left  {wide_bar:.cyan/dim}",
                );
                let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
                ProgressBar::new(items)
                    .with_style(style.progress_chars("━━─"))
                    .with_prefix(what.to_owned())
            }
            false => ProgressBar::hidden(),
        };
        Progress {
            bar,
            start: Instant::now(),
        }
    }

    /// So many items are done.
    pub(crate) fn at(&self, items: u64) {
        if self.start.elapsed() >= PATIENCE {
            self.bar.set_position(items);
        }
    }

    /// How long the work has taken, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
