//! Atomic writes: a temporary name beside the target, `fsync`, rename, `fsync` of the folder.
//!
//! All writes of this crate go through a [`Disk`], so that a test can stop a save at each
//! operation.
//!
//! ```
//! use std::io::Write;
//! use thalweg_checkpoint::disk::{self, Pending};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let path = std::env::temp_dir().join(format!("thalweg-disk-{}.txt", std::process::id()));
//! let mut file = Pending::create(&disk::system(), &path)?;
//! file.write_all(b"whole")?;
//! assert!(!path.exists());
//! file.finish()?;
//! assert_eq!(std::fs::read(&path)?, b"whole");
//! # std::fs::remove_file(&path)?;
//! # Ok(())
//! # }
//! ```

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::CheckpointError;

mod limited;
#[cfg(fuzzing)]
pub mod memory;
mod read;
mod stale;

pub use limited::Limited;
pub(crate) use read::{Source, exists, open, read_exact_at, read_whole, read_with_crc};
pub use stale::remove_stale;

/// The file system operations of a save. Each call is one operation that can fail alone.
///
/// ```
/// use thalweg_checkpoint::disk::{Disk, System};
///
/// let here = std::env::temp_dir();
/// assert!(System.list(&here).is_ok());
/// ```
pub trait Disk: Debug + Send + Sync {
    /// Creates a new file for writing.
    ///
    /// # Errors
    /// The system's; also if the file exists already.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
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

/// The system's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

/// The system's file system, to pass to a writer.
pub fn system() -> Arc<dyn Disk> {
    Arc::new(System)
}

impl Disk for System {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Box::new(Limited::new(file)))
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        if path.as_os_str().is_empty() || path.is_dir() {
            return Ok(());
        }
        let parent = path.parent().unwrap_or(Path::new(""));
        self.create_folder(parent)?;
        match fs::create_dir(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
            made => made?,
        }
        // Files synced in a folder are unreachable until the folder's own name is on the disk.
        self.sync_folder(folder_of(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        // Only Unix opens folders as files; elsewhere a rename is as durable as the system makes
        // it.
        if cfg!(unix) {
            File::open(path)?.sync_all()?;
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut found = fs::read_dir(path)?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<Vec<_>>>()?;
        found.sort();
        Ok(found)
    }
}

/// The parent folder of a path: `.` for a bare name.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Size of the write buffer, in bytes: larger writes go to the file directly.
const GATHERED: usize = 256 << 10;

/// The most leftover temporary files of one name: from crashes of processes with the same number,
/// as the first process of a container has.
const LEFTOVERS: usize = 100;

/// A file that appears as a whole. It is written as `.NAME.PID.part` beside its target, and removed
/// if it is dropped before [`Pending::finish`].
pub struct Pending {
    disk: Arc<dyn Disk>,
    to: PathBuf,
    at: PathBuf,
    /// `None` once the file is in its place.
    file: Option<BufWriter<Box<dyn DiskFile>>>,
}

impl Pending {
    /// Begins to write the file `to`.
    ///
    /// # Errors
    /// [`CheckpointError::Io`] if no file can be created there.
    pub fn create(disk: &Arc<dyn Disk>, to: &Path) -> Result<Pending, CheckpointError> {
        let refused = |e: io::Error| CheckpointError::io(to, "written", &e);
        let name = to
            .file_name()
            .ok_or_else(|| refused(io::Error::other("it has no file's name")))?;
        let mut attempt = 0;
        loop {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            match attempt {
                0 => hidden.push(format!(".{}.part", std::process::id())),
                n => hidden.push(format!(".{n}.{}.part", std::process::id())),
            }
            let at = to.with_file_name(hidden);
            match disk.create(&at) {
                Ok(file) => {
                    return Ok(Pending {
                        disk: disk.clone(),
                        to: to.to_owned(),
                        at,
                        file: Some(BufWriter::with_capacity(GATHERED, file)),
                    });
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && attempt < LEFTOVERS => {
                    attempt += 1;
                }
                Err(e) => return Err(refused(e)),
            }
        }
    }

    /// The target path.
    pub fn path(&self) -> &Path {
        &self.to
    }

    /// Renames the complete file to its target. The folder is not synced.
    ///
    /// # Errors
    /// [`CheckpointError::Io`]; an earlier file of this name is still there then.
    pub fn finish(mut self) -> Result<(), CheckpointError> {
        if let Some(mut writer) = self.file.take() {
            let wrote = writer.flush().and_then(|()| writer.get_mut().sync());
            // A dropped `BufWriter` would try to write the rest once more.
            let (file, _) = writer.into_parts();
            drop(file);
            let put = wrote.and_then(|()| self.disk.rename(&self.at, &self.to));
            if let Err(e) = put {
                // The write has failed already.
                let _ = self.disk.remove(&self.at);
                return Err(CheckpointError::io(&self.to, "written", &e));
            }
        }
        Ok(())
    }

    fn open(&mut self) -> io::Result<&mut BufWriter<Box<dyn DiskFile>>> {
        self.file
            .as_mut()
            .ok_or_else(|| io::Error::other("the file is in its place"))
    }
}

impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.open()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.open()?.flush()
    }
}

impl Seek for Pending {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.open()?.seek(to)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(writer) = self.file.take() {
            let (file, _) = writer.into_parts();
            drop(file);
            // The write has failed already.
            let _ = self.disk.remove(&self.at);
        }
    }
}

/// Writes a whole file: it appears at once, and is on the disk when this returns.
///
/// # Errors
/// [`CheckpointError::Io`]; an earlier file of this name is still there then.
///
/// ```
/// use thalweg_checkpoint::disk;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let path = std::env::temp_dir().join(format!("thalweg-text-{}.txt", std::process::id()));
/// disk::write(&disk::system(), &path, b"all of it")?;
/// assert_eq!(std::fs::read(&path)?, b"all of it");
/// # std::fs::remove_file(&path)?;
/// # Ok(())
/// # }
/// ```
pub fn write(disk: &Arc<dyn Disk>, to: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    let mut file = Pending::create(disk, to)?;
    file.write_all(bytes)
        .map_err(|e| CheckpointError::io(to, "written", &e))?;
    file.finish()?;
    sync_folder_of(disk, to)
}

/// Syncs the folder of `path`.
pub(crate) fn sync_folder_of(disk: &Arc<dyn Disk>, path: &Path) -> Result<(), CheckpointError> {
    let folder = folder_of(path);
    disk.sync_folder(folder)
        .map_err(|e| CheckpointError::io(folder, "synced", &e))
}
