//! The newest usable checkpoint of a folder, and the newer ones that are passed over.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::file::CheckpointState;
use crate::bundle::BundleReader;
use crate::disk::{self, SystemDisk};
use crate::error::CheckpointError;

/// A search for the newest checkpoint of a folder.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FoundCheckpoint {
    /// The prefix of the newest checkpoint that opens; `None` if none does.
    pub newest: Option<PathBuf>,
    /// The newer ones that do not open, the newest first.
    pub passed_over: Vec<PassedOver>,
}

/// A checkpoint that cannot be used, so that an older one is taken. Its text names both the
/// checkpoint and the reason.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PassedOver {
    /// The checkpoint's prefix.
    pub prefix: PathBuf,
    /// The error of its files.
    pub reason: CheckpointError,
}

impl PassedOver {
    /// A checkpoint that cannot be used for this reason.
    pub fn new(prefix: PathBuf, reason: CheckpointError) -> PassedOver {
        // The one that is taken instead may be another than the reason suggests.
        let reason = reason.without_newest();
        PassedOver { prefix, reason }
    }
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = self.prefix.display();
        write!(f, "the checkpoint {prefix} is passed over: {}", self.reason)
    }
}

/// The newest checkpoint of a folder: the newest that its state file names and whose index exists
/// and opens; `None` if the folder has no state file, or none of the named checkpoints is left.
///
/// TensorFlow returns only the one that the state file names as the newest. This also returns an
/// older one if that one is torn or gone; [`find_latest`] tells which ones are.
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
    Ok(find_latest(folder)?.newest)
}

/// As [`latest_checkpoint`], with the checkpoints that were passed over.
///
/// # Errors
/// As [`latest_checkpoint`].
///
/// ```
/// let found = thalweg_checkpoint::state::find_latest("/nowhere".as_ref()).unwrap();
/// assert!(found.newest.is_none() && found.passed_over.is_empty());
/// ```
pub fn find_latest(folder: &Path) -> Result<FoundCheckpoint, CheckpointError> {
    let Some(state) = CheckpointState::read(folder)? else {
        return Ok(FoundCheckpoint::default());
    };
    let found = first_usable(state.all(folder).into_iter().rev());
    let mut reasons = found.passed_over.iter().map(|p| &p.reason);
    match reasons.find(|r| !matches!(r, CheckpointError::Missing { .. })) {
        Some(torn) if found.newest.is_none() => Err(torn.clone()),
        _ => Ok(found),
    }
}

/// The newest checkpoint of a folder that opens, even if its state file, which may be gone or
/// damaged, does not name it.
///
/// ```
/// assert_eq!(thalweg_checkpoint::state::newest_usable("/nowhere".as_ref()), None);
/// ```
pub fn newest_usable(folder: &Path) -> Option<PathBuf> {
    find_usable(folder, &[]).newest
}

/// As [`newest_usable`], with the checkpoints that were passed over. Those of `except` are not
/// looked at.
///
/// ```
/// let found = thalweg_checkpoint::state::find_usable("/nowhere".as_ref(), &[]);
/// assert!(found.newest.is_none() && found.passed_over.is_empty());
/// ```
pub fn find_usable(folder: &Path, except: &[PathBuf]) -> FoundCheckpoint {
    let named = CheckpointState::read(folder).ok().flatten();
    let named = named.map_or(Vec::new(), |state| state.all(folder));
    let mut all: Vec<PathBuf> = named.into_iter().rev().collect();
    for found in by_time(folder).into_iter().rev() {
        if !all.contains(&found) {
            all.push(found);
        }
    }
    let others = all.into_iter().filter(|p| !except.contains(p));
    first_usable(others.take(MAX_TRIED))
}

/// The newest checkpoint that opens in the folder of this one, other than this one.
pub(crate) fn newest_beside(prefix: &Path) -> Option<PathBuf> {
    find_usable(disk::folder_of(prefix), &[prefix.to_owned()]).newest
}

/// The most checkpoints of a folder that are tried: a search for an error message should not take
/// minutes.
const MAX_TRIED: usize = 20;

/// Opens checkpoints until one does. It opens if its index is intact, and its data files are as
/// long as the index requires.
fn first_usable(prefixes: impl Iterator<Item = PathBuf>) -> FoundCheckpoint {
    let mut found = FoundCheckpoint::default();
    for prefix in prefixes {
        match BundleReader::open_alone(&SystemDisk, &prefix) {
            Ok(_) => {
                found.newest = Some(prefix);
                break;
            }
            Err(reason) => found.passed_over.push(PassedOver::new(prefix, reason)),
        }
    }
    found
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
