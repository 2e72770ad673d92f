//! The files of some folders, reached without following a symlink below them.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, RawMode};
use rustix::io::Errno;

use super::limited::SizeLimitedFile;
use super::traits::{Disk, DiskFile};

/// Mode of new files, less the bits of the process's umask.
const FILE_MODE: RawMode = 0o666;

/// Mode of new folders, less the bits of the process's umask.
const FOLDER_MODE: RawMode = 0o777;

/// The files of some folders. Each path is walked from its folder, one handle after the other, and no symlink is
/// followed: somebody who may write in a folder cannot lead a path out of it, not even between two calls.
///
/// ```
/// use thalweg_checkpoint::disk::{Disk, FolderDisk};
///
/// # fn main() -> std::io::Result<()> {
/// let folder = std::env::temp_dir().join(format!("thalweg-folder-{}", std::process::id()));
/// std::fs::create_dir_all(folder.join("inside"))?;
/// std::os::unix::fs::symlink("/etc", folder.join("inside/link"))?;
/// let disk = FolderDisk::new([folder.join("inside")]);
/// assert!(disk.create(&folder.join("inside/model")).is_ok());
/// assert!(disk.create(&folder.join("outside")).is_err());
/// assert!(disk.open(&folder.join("inside/link/passwd")).is_err());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FolderDisk {
    folders: Vec<PathBuf>,
}

impl FolderDisk {
    /// The files of these folders, which are given without symlinks.
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> FolderDisk {
        FolderDisk {
            folders: folders.into_iter().collect(),
        }
    }

    /// Handle of the folder that a path lies in, and the parts of the path below it.
    fn start<'p>(&self, path: &'p Path) -> io::Result<(OwnedFd, Vec<&'p OsStr>)> {
        let outside = || {
            io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it lies outside of the allowed folders",
            )
        };
        let found = self.folders.iter().find_map(|folder| {
            let below = path.strip_prefix(folder).ok()?;
            Some((folder, below))
        });
        let (folder, below) = found.ok_or_else(outside)?;
        let parts = below.components().map(|part| match part {
            Component::Normal(name) => Ok(name),
            _ => Err(outside()),
        });
        let parts = parts.collect::<io::Result<_>>()?;
        Ok((File::open(folder)?.into(), parts))
    }

    /// Handle of a folder.
    fn folder(&self, path: &Path) -> io::Result<OwnedFd> {
        let (start, parts) = self.start(path)?;
        parts
            .into_iter()
            .try_fold(start, |at, name| below(&at, name))
    }

    /// Handle of the folder of a path, and the path's last part.
    fn parent<'p>(&self, path: &'p Path) -> io::Result<(OwnedFd, &'p OsStr)> {
        let (start, parts) = self.start(path)?;
        let (name, folders) = parts
            .split_last()
            .ok_or_else(|| io::Error::other("it is a folder"))?;
        let parent = folders
            .iter()
            .try_fold(start, |at, name| below(&at, name))?;
        Ok((parent, name))
    }
}

/// Handle of a folder in a folder. A symlink is an error.
fn below(folder: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty()).map_err(|e| match e {
        Errno::NOTDIR | Errno::LOOP => io::Error::other(format!(
            "{} is a symlink or no folder: name what it leads to",
            name.display()
        )),
        other => other.into(),
    })
}

impl Disk for FolderDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let (folder, name) = self.parent(path)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(FILE_MODE))?;
        Ok(Box::new(SizeLimitedFile::new(File::from(file))))
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        let (folder, name) = self.parent(path)?;
        // A pipe or a device does not block the open, and is refused by its kind.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(
            folder,
            name,
            flags,
            Mode::empty(),
        )?))
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        let (mut at, parts) = self.start(path)?;
        for name in parts {
            match rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(FOLDER_MODE)) {
                // Files synced in a folder are unreachable until the folder's own name is on the disk.
                Ok(()) => rustix::fs::fsync(&at)?,
                Err(e) if e == Errno::EXIST => {}
                Err(e) => return Err(e.into()),
            }
            at = below(&at, name)?;
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((from, old), (to, new)) = (self.parent(from)?, self.parent(to)?);
        Ok(rustix::fs::renameat(from, old, to, new)?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)?)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.folder(path)?)?)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        use std::os::unix::ffi::OsStrExt;
        let mut found = Vec::new();
        for entry in Dir::new(self.folder(path)?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                found.push(path.join(OsStr::from_bytes(name)));
            }
        }
        found.sort();
        Ok(found)
    }
}
