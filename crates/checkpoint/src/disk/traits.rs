//! `Disk` and `DiskFile`: the file system operations of saves and restores.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

/// The file system operations of saves and restores. Each call is one operation that can fail alone.
///
/// ```
/// use thalweg_checkpoint::disk::{Disk, SystemDisk};
///
/// let here = std::env::temp_dir();
/// assert!(SystemDisk.list(&here).is_ok());
/// ```
pub trait Disk: Debug + Send + Sync {
    /// Creates a new file for writing.
    ///
    /// # Errors
    /// The system's; also if the file exists already.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file for reading.
    ///
    /// # Errors
    /// The system's; also if it is no regular file.
    fn open(&self, path: &Path) -> io::Result<File>;
    /// Creates a folder and its parents, if they do not exist.
    ///
    /// # Errors
    /// The system's.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// Renames a file, in place of any file of the new name.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    ///
    /// # Errors
    /// The system's; also if the folder is not empty.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Syncs a folder: returns when the names in it are on the disk.
    ///
    /// # Errors
    /// The system's.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// The entries of a folder, by name.
    ///
    /// # Errors
    /// The system's.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
}

/// A file created by a [`Disk`].
pub trait DiskFile: Write + Seek + Send {
    /// Syncs the file: returns when the written bytes are on the disk.
    ///
    /// # Errors
    /// The system's.
    fn sync(&mut self) -> io::Result<()>;
}
