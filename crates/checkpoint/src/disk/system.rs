//! The system's file system.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::limited::SizeLimitedFile;
use super::traits::{Disk, DiskFile};

/// The system's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDisk;

/// The system's file system, to pass to a writer.
pub fn system() -> Arc<dyn Disk> {
    Arc::new(SystemDisk)
}

impl Disk for SystemDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Box::new(SizeLimitedFile::new(file)))
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        // Others (a pipe, a device) could block the open for ever.
        match fs::metadata(path)?.is_file() {
            true => File::open(path),
            false => Err(io::Error::other("it is no plain file")),
        }
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
