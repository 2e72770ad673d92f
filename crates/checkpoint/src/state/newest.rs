//! The newest usable checkpoint of a folder.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::file::CheckpointState;
use crate::bundle::BundleReader;
use crate::disk;
use crate::error::CheckpointError;

/// The newest checkpoint of a folder: the newest that its state file names and whose index exists
/// and opens; `None` if the folder has no state file, or none of the named checkpoints is left.
///
/// TensorFlow returns only the one that the state file names as the newest. This also returns an
/// older one if that one is torn or gone.
///
/// # Errors
/// [`CheckpointError::Io`] and [`CheckpointError::Corrupt`] if the state file cannot be read, and
/// the error of the newest checkpoint if all named checkpoints are torn.
///
/// ```
/// let found = thalweg_checkpoint::state::latest_checkpoint("/nowhere".as_ref());
/// assert_eq!(found, Ok(None));
/// ```
pub fn latest_checkpoint(folder: &Path) -> Result<Option<PathBuf>, CheckpointError> {
    let Some(state) = CheckpointState::read(folder)? else {
        return Ok(None);
    };
    let mut refused = None;
    for prefix in state.all(folder).into_iter().rev() {
        match BundleReader::open_alone(&prefix) {
            Ok(_) => return Ok(Some(prefix)),
            Err(CheckpointError::Missing { .. }) => {}
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) => Err(error),
        None => Ok(None),
    }
}

/// The newest checkpoint of a folder that opens, even if its state file, which may be gone or
/// damaged, does not name it.
///
/// ```
/// assert_eq!(thalweg_checkpoint::state::newest_usable("/nowhere".as_ref()), None);
/// ```
pub fn newest_usable(folder: &Path) -> Option<PathBuf> {
    newest_except(folder, None)
}

/// The newest checkpoint that opens in the folder of this one, other than this one.
pub(crate) fn newest_beside(prefix: &Path) -> Option<PathBuf> {
    newest_except(disk::folder_of(prefix), Some(prefix))
}

/// The most checkpoints of a folder that are tried: a search for an error message should not take
/// minutes.
const MAX_TRIED: usize = 20;

fn newest_except(folder: &Path, other: Option<&Path>) -> Option<PathBuf> {
    let named = CheckpointState::read(folder).ok().flatten();
    let named = named.map_or(Vec::new(), |state| state.all(folder));
    let mut all: Vec<PathBuf> = named.into_iter().rev().collect();
    for found in by_time(folder).into_iter().rev() {
        if !all.contains(&found) {
            all.push(found);
        }
    }
    let mut others = all.into_iter().filter(|p| Some(p.as_path()) != other);
    others.by_ref().take(MAX_TRIED).find(|p| opens(p))
}

/// The prefixes of the indexes in a folder, the oldest first.
fn by_time(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found: Vec<(SystemTime, PathBuf)> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let path = entry.path();
            let prefix = path.to_str()?.strip_suffix(".index")?.into();
            Some((entry.metadata().ok()?.modified().ok()?, prefix))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, prefix)| prefix).collect()
}

/// `true` if a checkpoint opens: its index is intact, and its data files are as long as the index
/// requires.
fn opens(prefix: &Path) -> bool {
    BundleReader::open_alone(prefix).is_ok()
}
