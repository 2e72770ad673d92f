//! Retention: the checkpoints that a folder keeps.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::file::CheckpointState;
use crate::bundle::{index_path, with_suffix};
use crate::disk::{self, Disk};
use crate::error::CheckpointError;

/// Options of retention. The defaults are those of TensorFlow's Saver.
///
/// ```
/// use std::time::Duration;
/// use thalweg_checkpoint::state::RetentionOptions;
///
/// let options = RetentionOptions { max_to_keep: 3, ..RetentionOptions::default() };
/// assert_eq!(options.keep_every, Duration::from_secs(10_000 * 3600));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionOptions {
    /// The number of checkpoints kept; 0 keeps all, and the state file then names only the newest.
    pub max_to_keep: usize,
    /// After each interval of this length, one more checkpoint is kept permanently.
    pub keep_every: Duration,
    /// `true` if the state file names checkpoints relative to its folder, so that the folder can be
    /// moved. If the folder is itself given as a relative path, they are relative in any case.
    pub relative_paths: bool,
}

impl Default for RetentionOptions {
    fn default() -> RetentionOptions {
        RetentionOptions {
            max_to_keep: 5,
            keep_every: Duration::from_secs(10_000 * 3600),
            relative_paths: false,
        }
    }
}

/// The known checkpoints of a folder, and the rule by which the oldest are deleted.
///
/// A new process knows those that the state file names: it continues the deletions of the last one.
/// TensorFlow forgets them (tensorflow/tensorflow#16025).
///
/// ```
/// use thalweg_checkpoint::{BundleWriter, state};
/// use thalweg_tensor::Tensor;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = std::env::temp_dir().join(format!("thalweg-keep-{}", std::process::id()));
/// for step in 1..=3 {
///     let prefix = folder.join(format!("model.ckpt-{step}"));
///     let mut writer = BundleWriter::create(&prefix)?;
///     writer.add("step", &Tensor::scalar(step as i64))?;
///     writer.finish()?;
///     // Each time as after a restart.
///     let options = state::RetentionOptions { max_to_keep: 2, ..Default::default() };
///     state::Retention::open(&folder, options)?.saved(&prefix)?;
/// }
/// assert!(!folder.join("model.ckpt-1.index").exists());
/// assert!(folder.join("model.ckpt-2.index").exists());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
pub struct Retention {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    options: RetentionOptions,
    /// The deletable checkpoints, the oldest first, with the times of their saves.
    kept: Vec<(PathBuf, f64)>,
    /// The earliest save time of the next permanent checkpoint, in seconds since 1970.
    next_keep: f64,
    last_preserved: Option<f64>,
}

/// Seconds since 1970.
pub(super) fn now() -> f64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH);
    passed.map_or(0.0, |d| d.as_secs_f64())
}

impl Retention {
    /// Opens the retention of this folder, with the checkpoints of its state file.
    ///
    /// # Errors
    /// [`CheckpointError::Io`] and [`CheckpointError::Corrupt`] if there is a state file that
    /// cannot be read.
    pub fn open(folder: &Path, options: RetentionOptions) -> Result<Retention, CheckpointError> {
        Self::open_on(&disk::system(), folder, options)
    }

    /// As [`Retention::open`], on this disk.
    ///
    /// # Errors
    /// As there.
    pub fn open_on(
        disk: &Arc<dyn Disk>,
        folder: &Path,
        options: RetentionOptions,
    ) -> Result<Retention, CheckpointError> {
        let state = CheckpointState::read(folder)?.unwrap_or_default();
        let start = now();
        let times = &state.all_model_checkpoint_timestamps;
        let timed = times.len() == state.all_model_checkpoint_paths.len();
        let all = state.all(folder).into_iter().enumerate();
        let kept = all
            // A checkpoint in another folder belongs to another run, of which this folder may be a
            // copy.
            .filter(|(_, prefix)| prefix.parent() == Some(folder) && index_path(prefix).exists())
            .map(|(i, prefix)| {
                let time = times.get(i).filter(|_| timed).copied();
                let time = time.or_else(|| changed(&prefix)).unwrap_or(start);
                (prefix, time)
            });
        let kept: Vec<_> = match options.max_to_keep {
            0 => Vec::new(),
            _ => kept.collect(),
        };
        let from = state.last_preserved_timestamp.unwrap_or(start);
        Ok(Retention {
            disk: disk.clone(),
            folder: folder.to_owned(),
            kept,
            next_keep: from + options.keep_every.as_secs_f64(),
            last_preserved: state.last_preserved_timestamp,
            options,
        })
    }

    /// Records the save of the checkpoint `prefix`: the state file names it as the newest, and the
    /// oldest is deleted if there are too many: one at most, as TensorFlow's Saver does it. The
    /// state file is written before the deletion, so that it never names only deleted checkpoints.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn saved(&mut self, prefix: &Path) -> Result<(), CheckpointError> {
        self.saved_at(prefix, now())
    }

    pub(super) fn saved_at(&mut self, prefix: &Path, time: f64) -> Result<(), CheckpointError> {
        let mut goes = None;
        let before = self.kept.clone();
        if self.options.max_to_keep > 0 {
            self.kept.retain(|(path, _)| path != prefix);
            self.kept.push((prefix.to_owned(), time));
            if self.kept.len() > self.options.max_to_keep {
                let (oldest, saved) = self.kept.remove(0);
                match saved > self.next_keep {
                    true => {
                        self.last_preserved = Some(saved);
                        self.next_keep += self.options.keep_every.as_secs_f64();
                    }
                    false => goes = Some(oldest),
                }
            }
        }
        if let Err(error) = self.state(prefix).write(&self.disk, &self.folder) {
            // The oldest is deleted another time.
            self.kept = before;
            return Err(error);
        }
        match goes {
            Some(oldest) => delete_checkpoint(&self.disk, &oldest),
            None => Ok(()),
        }
    }

    /// The checkpoints that may be deleted later, the oldest first.
    pub fn kept(&self) -> impl Iterator<Item = &Path> {
        self.kept.iter().map(|(path, _)| path.as_path())
    }

    fn state(&self, newest: &Path) -> CheckpointState {
        let named = |path: &Path| self.named(path);
        let mut state = CheckpointState {
            model_checkpoint_path: named(newest),
            all_model_checkpoint_paths: self.kept.iter().map(|(p, _)| named(p)).collect(),
            all_model_checkpoint_timestamps: self.kept.iter().map(|(_, t)| *t).collect(),
            last_preserved_timestamp: self.last_preserved,
        };
        if state.all_model_checkpoint_paths.is_empty() {
            state.all_model_checkpoint_paths = vec![named(newest)];
        }
        state
    }

    /// The path as it is written in the state file.
    fn named(&self, path: &Path) -> String {
        let inside = path.strip_prefix(&self.folder);
        let relative = self.options.relative_paths || self.folder.is_relative();
        let shown = match inside {
            Ok(inside) if relative => inside.to_owned(),
            _ if path.is_absolute() => path.to_owned(),
            // Readers resolve relative paths against the folder.
            _ => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        };
        shown.to_string_lossy().into_owned()
    }
}

/// The time when a checkpoint's index was written, in seconds since 1970.
fn changed(prefix: &Path) -> Option<f64> {
    let time = index_path(prefix).metadata().and_then(|m| m.modified());
    let passed = time.ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(passed.as_secs_f64())
}

/// Deletes a checkpoint: its index first, so that the rest is not taken for a checkpoint, its data
/// files, and its `.meta`. A file that is gone already is not an error.
///
/// # Errors
/// [`CheckpointError::Io`].
///
/// ```
/// use thalweg_checkpoint::{BundleWriter, disk, state};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = std::env::temp_dir().join(format!("thalweg-delete-{}", std::process::id()));
/// BundleWriter::create(&folder.join("m"))?.finish()?;
/// state::delete_checkpoint(&disk::system(), &folder.join("m"))?;
/// assert_eq!(std::fs::read_dir(&folder)?.count(), 0);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
pub fn delete_checkpoint(disk: &Arc<dyn Disk>, prefix: &Path) -> Result<(), CheckpointError> {
    let folder = disk::folder_of(prefix);
    let all = disk
        .list(folder)
        .map_err(|e| CheckpointError::io(folder, "listed", &e))?;
    let start = prefix.file_name().unwrap_or_default().to_string_lossy();
    let start = format!("{start}.data-");
    let is_data = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix(&start).is_some_and(is_shard)
    };
    let mut files = vec![index_path(prefix)];
    files.extend(all.iter().filter(is_data).cloned());
    files.push(with_suffix(prefix, ".meta"));
    for file in files {
        match disk.remove(&file) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(CheckpointError::io(&file, "removed", &e));
            }
            _ => {}
        }
    }
    Ok(())
}

/// `true` for the end of a data file's name, as `00000-of-00001`.
fn is_shard(end: &str) -> bool {
    let is_number = |text: &str| text.len() >= 5 && text.bytes().all(|b| b.is_ascii_digit());
    end.split_once("-of-")
        .is_some_and(|(shard, all)| is_number(shard) && is_number(all))
}
