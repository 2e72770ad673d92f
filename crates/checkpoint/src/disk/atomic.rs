//! Files that appear as a whole, under a temporary name until then.

use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::system::folder_of;
use super::traits::{Disk, DiskFile};
use crate::error::CheckpointError;

/// Size of the write buffer, in bytes: larger writes go to the file directly.
const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// The most leftover temporary files of one name: from crashes of processes with the same number,
/// as the first process of a container has.
const MAX_LEFTOVERS: usize = 100;

/// A file that appears as a whole. It is written as `.NAME.PID.part` beside its target, and removed
/// if it is dropped before [`AtomicFile::finish`].
pub struct AtomicFile {
    disk: Arc<dyn Disk>,
    to: PathBuf,
    at: PathBuf,
    /// `None` once the file is in its place.
    file: Option<BufWriter<Box<dyn DiskFile>>>,
}

impl AtomicFile {
    /// Begins to write the file `to`.
    ///
    /// # Errors
    /// [`CheckpointError::Io`] if no file can be created there.
    pub fn create(disk: &Arc<dyn Disk>, to: &Path) -> Result<AtomicFile, CheckpointError> {
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
                    return Ok(AtomicFile {
                        disk: disk.clone(),
                        to: to.to_owned(),
                        at,
                        file: Some(BufWriter::with_capacity(WRITE_BUFFER_BYTES, file)),
                    });
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && attempt < MAX_LEFTOVERS => {
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

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.open()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.open()?.flush()
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.open()?.seek(to)
    }
}

impl Drop for AtomicFile {
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
    let mut file = AtomicFile::create(disk, to)?;
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
