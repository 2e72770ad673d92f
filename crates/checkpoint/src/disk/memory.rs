//! Files in memory, for fuzzing alone: creating a file on the disk takes longer than parsing it.
//! Built with `--cfg fuzzing`, as `cargo fuzz` does; other builds do not have it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

thread_local! {
    static FILES: RefCell<BTreeMap<PathBuf, Arc<[u8]>>> = RefCell::default();
}

/// Makes readers on this thread find these bytes at this path, in place of any real file.
pub fn put(path: &Path, bytes: &[u8]) {
    FILES.with_borrow_mut(|files| match files.get_mut(path) {
        Some(file) => *file = bytes.into(),
        None => drop(files.insert(path.to_owned(), bytes.into())),
    });
}

/// The bytes that were put at a path.
pub(super) fn find(path: &Path) -> Option<Arc<[u8]>> {
    FILES.with_borrow(|files| files.get(path).cloned())
}

/// A file, in memory or on the disk.
pub(crate) enum ReadFile {
    File(File),
    Memory(Arc<[u8]>),
}

impl FileExt for ReadFile {
    fn read_at(&self, to: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            ReadFile::File(file) => file.read_at(to, at),
            ReadFile::Memory(bytes) => {
                let left = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
                let left = left.unwrap_or_default();
                let count = left.len().min(to.len());
                to[..count].copy_from_slice(&left[..count]);
                Ok(count)
            }
        }
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
