//! Files in the system's memory, its page cache, and out of it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::failure::Failure;

/// Largest depth of the folders that are gone through.
const MAX_DEPTH: usize = 8;

/// State of files before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheState {
    /// The files are in memory.
    Warm,
    /// The files are on disk alone.
    Cold,
}

impl CacheState {
    pub(super) fn name(self) -> &'static str {
        match self {
            CacheState::Warm => "warm",
            CacheState::Cold => "cold",
        }
    }

    /// Brings all files of a folder into this state.
    ///
    /// # Errors
    /// A file cannot be read; the system cannot put files out of memory.
    pub(super) fn prepare(self, folder: &Path) -> Result<(), Failure> {
        match self {
            CacheState::Warm => each_file(folder, MAX_DEPTH, &mut read),
            CacheState::Cold => each_file(folder, MAX_DEPTH, &mut evict),
        }
    }
}

fn each_file(
    folder: &Path,
    depth: usize,
    run: &mut dyn FnMut(&File) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let wrong = |path: &Path, e: std::io::Error| Failure::from(format!("{}: {e}", path.display()));
    for entry in std::fs::read_dir(folder).map_err(|e| wrong(folder, e))? {
        let path = entry.map_err(|e| wrong(folder, e))?.path();
        if path.is_dir() && depth > 0 {
            each_file(&path, depth - 1, run)?;
        } else if path.is_file() {
            File::open(&path)
                .and_then(|file| run(&file))
                .map_err(|e| wrong(&path, e))?;
        }
    }
    Ok(())
}

fn read(mut file: &File) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    while file.read(&mut buffer)? > 0 {}
    Ok(())
}

/// Puts a file out of memory. Pages that are not yet on disk would stay there, so they are written first.
#[cfg(target_os = "linux")]
fn evict(file: &File) -> std::io::Result<()> {
    file.sync_data()?;
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn evict(_: &File) -> std::io::Result<()> {
    Err(std::io::Error::other("--cold needs Linux"))
}

/// Bytes that this process and its ended children have read from disk; `None` where the system does not tell.
pub(super) fn bytes_read_by_children() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    let mut values = text.lines().filter_map(|l| l.strip_prefix("read_bytes:"));
    values.next()?.trim().parse().ok()
}
