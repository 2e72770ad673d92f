//! Checkpoints that `--eval` reads: the newest one, or each new one of a running training.

use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg::train::StopSignal;

use thalweg::checkpoint::state::{PassedOver, find_usable};
use thalweg_examples::output;

use crate::Result;
use crate::settings::Settings;

/// Interval of checks for a request to end.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The checkpoints of a training, as they are written.
pub struct Checkpoints {
    folder: PathBuf,
    last: Option<PathBuf>,
    /// Newer ones that cannot be used, each told once.
    told: Vec<PassedOver>,
    /// Time between two looks for a new checkpoint; `None` for a single evaluation.
    interval: Option<Duration>,
}

impl Checkpoints {
    pub fn new(settings: &Settings) -> Checkpoints {
        let folder = settings.flags.output.train_dir.as_deref();
        let seconds = settings.flags.run.eval_interval_secs;
        Checkpoints {
            folder: folder.unwrap_or(Path::new(".")).to_owned(),
            last: None,
            told: Vec::new(),
            interval: (seconds > 0).then(|| Duration::from_secs(seconds)),
        }
    }

    /// Returns the newest checkpoint, and waits until there is one that was not returned before. Returns `None` after a
    /// single evaluation, and where the program is to end.
    ///
    /// # Errors
    /// A single evaluation, and no checkpoint.
    pub fn next(&mut self, stop: &StopSignal) -> Result<Option<PathBuf>> {
        if self.last.is_some() && self.interval.is_none() {
            return Ok(None);
        }
        while !stop.is_set() {
            let found = find_usable(&self.folder, &[]);
            for one in found.passed_over {
                if !self.told.contains(&one) {
                    output::error(format_args!("warning: {one}"));
                    self.told.push(one);
                }
            }
            let newest = found.newest;
            if newest.is_some() && newest != self.last {
                self.last = newest;
                return Ok(self.last.clone());
            }
            let Some(interval) = self.interval else {
                return Err(format!(
                    "--train_dir={}: there is no checkpoint: train with the same --train_dir first",
                    self.folder.display()
                )
                .into());
            };
            let mut left = interval;
            while !left.is_zero() && !stop.is_set() {
                std::thread::sleep(left.min(POLL_INTERVAL));
                left = left.saturating_sub(POLL_INTERVAL);
            }
        }
        Ok(None)
    }
}
