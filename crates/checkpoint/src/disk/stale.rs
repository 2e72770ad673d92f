//! Removal of temporary files that dead processes have left.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::traits::Disk;
use crate::error::CheckpointError;

/// Removes the temporary files (`.NAME.PID.part`) of a folder whose process is dead and which were
/// not written to for `age`. Returns the removed files.
///
/// A process on another machine looks dead from here. So `age` must be longer than any save that
/// others may have in progress in a shared folder: an hour is.
///
/// # Errors
/// [`CheckpointError::Io`] if the folder cannot be listed, or a file cannot be removed.
///
/// ```
/// use std::time::Duration;
/// use thalweg_checkpoint::disk;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = std::env::temp_dir().join(format!("thalweg-stale-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// // No process has this number: systems give smaller ones.
/// std::fs::write(folder.join(".checkpoint.4294967294.part"), b"torn")?;
/// let removed = disk::remove_stale(&disk::system(), &folder, Duration::ZERO)?;
/// assert_eq!(removed.len(), if cfg!(target_os = "linux") { 1 } else { 0 });
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
pub fn remove_stale(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    age: Duration,
) -> Result<Vec<PathBuf>, CheckpointError> {
    let all = disk
        .list(folder)
        .map_err(|e| CheckpointError::io(folder, "listed", &e))?;
    let mut removed = Vec::new();
    for path in all {
        if process_of(&path).is_some_and(is_dead) && is_older(&path, age) {
            disk.remove(&path)
                .map_err(|e| CheckpointError::io(&path, "removed", &e))?;
            removed.push(path);
        }
    }
    Ok(removed)
}

/// The process number in a temporary file's name.
fn process_of(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_prefix('.')?.strip_suffix(".part")?;
    let (_, process) = name.rsplit_once('.')?;
    process.parse().ok()
}

fn is_dead(process: u32) -> bool {
    // Without such a folder, processes are unknown, and nothing is removed.
    cfg!(target_os = "linux")
        && Path::new("/proc/self").exists()
        && !Path::new("/proc").join(process.to_string()).exists()
}

fn is_older(path: &Path, age: Duration) -> bool {
    let changed = path.symlink_metadata().and_then(|m| m.modified());
    changed.is_ok_and(|at| {
        SystemTime::now()
            .duration_since(at)
            .is_ok_and(|passed| passed >= age)
    })
}
