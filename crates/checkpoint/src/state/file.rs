//! The state file `DIR/checkpoint`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::text_format;
use crate::bundle::index_path;
use crate::disk::{self, Disk};
use crate::error::CheckpointError;

/// The content of `DIR/checkpoint`: the message CheckpointState of TensorFlow's
/// `python/training/checkpoint_state.proto`, as text.
///
/// ```
/// use thalweg_checkpoint::state::CheckpointState;
///
/// let text = "model_checkpoint_path: \"model.ckpt-2\"\n\
///             all_model_checkpoint_paths: \"model.ckpt-1\"\n\
///             all_model_checkpoint_paths: \"model.ckpt-2\"\n";
/// let state = CheckpointState::parse(text.as_bytes()).unwrap();
/// assert_eq!(state.model_checkpoint_path, "model.ckpt-2");
/// assert_eq!(state.all_model_checkpoint_paths.len(), 2);
/// assert_eq!(state.to_text(), text);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CheckpointState {
    /// The newest checkpoint's prefix, as it was written: a relative one is relative to the folder.
    pub model_checkpoint_path: String,
    /// All prefixes, the oldest first.
    pub all_model_checkpoint_paths: Vec<String>,
    /// The time of each save, in seconds since 1970; empty if the file has none.
    pub all_model_checkpoint_timestamps: Vec<f64>,
    /// The time of the last checkpoint that is kept permanently, in seconds since 1970.
    pub last_preserved_timestamp: Option<f64>,
}

impl CheckpointState {
    /// The state file of a folder.
    pub fn path(folder: &Path) -> PathBuf {
        folder.join("checkpoint")
    }

    /// Reads a folder's state file; `None` if there is none.
    ///
    /// # Errors
    /// [`CheckpointError::Io`], and [`CheckpointError::Corrupt`] if the file is malformed.
    pub fn read(folder: &Path) -> Result<Option<CheckpointState>, CheckpointError> {
        let path = Self::path(folder);
        match path.try_exists() {
            Ok(false) => Ok(None),
            Ok(true) => {
                let found = Self::parse(&disk::read_whole(&disk::SystemDisk, &path)?);
                let found = found.map_err(|what| CheckpointError::corrupt(&path, what))?;
                Ok(Some(found))
            }
            Err(e) => Err(CheckpointError::io(&path, "read", &e)),
        }
    }

    /// Parses the text. Unknown fields are skipped.
    ///
    /// # Errors
    /// The mistake, as a predicate, with the line.
    pub fn parse(text: &[u8]) -> Result<CheckpointState, String> {
        let mut state = CheckpointState::default();
        for field in text_format::fields(text)? {
            let wrong = || format!("has another kind of value for {} than it needs", field.name);
            match field.name.as_str() {
                "model_checkpoint_path" => {
                    state.model_checkpoint_path = field.value.string().ok_or_else(wrong)?;
                }
                "all_model_checkpoint_paths" => {
                    for path in field.values() {
                        let path = path.string().ok_or_else(wrong)?;
                        state.all_model_checkpoint_paths.push(path);
                    }
                }
                "all_model_checkpoint_timestamps" => {
                    for time in field.values() {
                        let time = time.number().ok_or_else(wrong)?;
                        state.all_model_checkpoint_timestamps.push(time);
                    }
                }
                "last_preserved_timestamp" => {
                    state.last_preserved_timestamp = Some(field.value.number().ok_or_else(wrong)?);
                }
                _ => {}
            }
        }
        Ok(state)
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let mut line = |name: &str, value: &str| out.push_str(&format!("{name}: {value}\n"));
        if !self.model_checkpoint_path.is_empty() {
            let path = text_format::quoted(&self.model_checkpoint_path);
            line("model_checkpoint_path", &path);
        }
        for path in &self.all_model_checkpoint_paths {
            line("all_model_checkpoint_paths", &text_format::quoted(path));
        }
        for time in &self.all_model_checkpoint_timestamps {
            line("all_model_checkpoint_timestamps", &format!("{time}"));
        }
        if let Some(time) = self.last_preserved_timestamp {
            line("last_preserved_timestamp", &format!("{time}"));
        }
        out
    }

    /// Writes a folder's state file atomically.
    ///
    /// # Errors
    /// [`CheckpointError::Io`]; an earlier file is still there then.
    pub fn write(&self, disk: &Arc<dyn Disk>, folder: &Path) -> Result<(), CheckpointError> {
        disk::write(disk, &Self::path(folder), self.to_text().as_bytes())
    }

    /// The newest checkpoint's prefix; `None` if the file names none.
    pub fn newest(&self, folder: &Path) -> Option<PathBuf> {
        let path = &self.model_checkpoint_path;
        (!path.is_empty()).then(|| resolved(folder, path))
    }

    /// All prefixes, the oldest first and the newest last, as TensorFlow reads them: the newest is
    /// included even if the list lacks it.
    pub fn all(&self, folder: &Path) -> Vec<PathBuf> {
        let mut all: Vec<_> = self
            .all_model_checkpoint_paths
            .iter()
            .map(|path| resolved(folder, path))
            .collect();
        if let Some(newest) = self.newest(folder)
            && all.last() != Some(&newest)
        {
            all.retain(|path| *path != newest);
            all.push(newest);
        }
        all
    }
}

/// The prefix that a state file names: the checkpoint of that name in its own folder, if there is
/// one. A folder that was copied or moved has its own checkpoints, whatever the paths in the file.
fn resolved(folder: &Path, path: &str) -> PathBuf {
    let named = folder.join(path);
    let own = named.file_name().map(|name| folder.join(name));
    own.filter(|own| index_path(own).exists()).unwrap_or(named)
}
