//! Progress bars of long work, on a terminal only.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Time after which a bar appears.
const SHOW_AFTER: Duration = Duration::from_secs(1);

/// Progress bar that appears when the work takes long.
pub(crate) struct Progress {
    bar: ProgressBar,
    start: Instant,
}

impl Progress {
    /// Bar for so many items, with a name for one; no bar if `quiet`.
    pub(crate) fn new(item: &str, items: u64, quiet: bool) -> Progress {
        let bar = match std::io::stderr().is_terminal() && !quiet {
            true => {
                let style = ProgressStyle::with_template(
                    "{prefix:6} {pos}/{len}  {eta} left  {wide_bar:.cyan/dim}",
                );
                let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
                ProgressBar::new(items)
                    .with_style(style.progress_chars("━━─"))
                    .with_prefix(item.to_owned())
            }
            false => ProgressBar::hidden(),
        };
        Progress {
            bar,
            start: Instant::now(),
        }
    }

    /// Sets the number of finished items.
    pub(crate) fn at(&self, items: u64) {
        if self.start.elapsed() >= SHOW_AFTER {
            self.bar.set_position(items);
        }
    }

    /// Duration of the work so far, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
