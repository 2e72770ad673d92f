//! Which checkpoints are evaluated.

use std::path::{Path, PathBuf};
use std::time::Duration;

use thalweg::checkpoint::state::newest_usable;
use thalweg_examples::stop::Stop;

use crate::Result;
use crate::settings::Settings;

/// How often it is looked whether the program is to end.
const LOOK: Duration = Duration::from_millis(200);

/// The checkpoints of a training, as they are written.
pub struct Checkpoints {
    folder: PathBuf,
    last: Option<PathBuf>,
    /// How long the next one is waited for; none where there is one evaluation.
    interval: Option<Duration>,
}

impl Checkpoints {
    pub fn new(settings: &Settings) -> Checkpoints {
        let folder = settings.flags.output.train_dir.as_deref();
        let seconds = settings.flags.run.eval_interval_secs;
        Checkpoints {
            folder: folder.unwrap_or(Path::new(".")).to_owned(),
            last: None,
            interval: (seconds > 0).then(|| Duration::from_secs(seconds)),
        }
    }

    /// The newest one, where it was not given before. Waits for it; gives none where there is to be one evaluation, or the
    /// program is to end.
    ///
    /// # Errors
    /// There is no checkpoint, and none is waited for.
    pub fn next(&mut self, stop: &Stop) -> Result<Option<PathBuf>> {
        if self.last.is_some() && self.interval.is_none() {
            return Ok(None);
        }
        while !stop.requested() {
            let newest = newest_usable(&self.folder);
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
            while !left.is_zero() && !stop.requested() {
                std::thread::sleep(left.min(LOOK));
                left = left.saturating_sub(LOOK);
            }
        }
        Ok(None)
    }
}
