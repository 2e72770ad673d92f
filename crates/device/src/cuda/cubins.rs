//! Machine code that is kept on disk, so that a kernel is compiled once on a machine.
//!
//! A file is written under a name of its own and renamed when it is whole, so that processes that
//! compile the same thing do not disturb each other. It holds all that the code depends on, and a
//! checksum: one that is torn, or is of something else, counts as not there.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Compiler;
use crate::gpu::{Function, GpuError};

/// The compiler, with what it has compiled before.
#[derive(Debug)]
pub struct Cubins {
    compiler: Compiler,
    folder: Option<PathBuf>,
    /// Tells the files of this process apart.
    written: AtomicU64,
}

impl Cubins {
    /// With files in `folder`, which is made when there is something to keep; without one, nothing
    /// is kept.
    pub fn new(compiler: Compiler, folder: Option<PathBuf>) -> Cubins {
        Cubins {
            compiler,
            folder,
            written: AtomicU64::new(0),
        }
    }

    /// Where files are kept if nothing else is said: `THALWEG_CACHE`, or `thalweg` in the user's
    /// folder of caches.
    pub fn usual_folder() -> Option<PathBuf> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from);
        let own = variable("THALWEG_CACHE");
        let caches =
            || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        own.or_else(|| Some(caches()?.join("thalweg")))
    }

    /// The machine code of a function's source: from disk, or compiled and kept there. What cannot
    /// be kept (a full disk, a folder that may not be written) is compiled all the same.
    ///
    /// # Errors
    /// [`GpuError::Compile`].
    pub fn get(&self, function: &Function, architecture: &str) -> Result<Vec<u8>, GpuError> {
        let key = self.key(function, architecture);
        let path = self
            .folder
            .as_ref()
            .map(|f| f.join(file_name(function, &key)));
        if let Some(path) = &path
            && let Ok(file) = fs::read(path)
            && let Some(cubin) = unpacked(&file, &key)
        {
            return Ok(cubin.to_vec());
        }
        let cubin = self.compiler.cubin(function, architecture)?;
        if let (Some(folder), Some(path)) = (&self.folder, path) {
            let number = self.written.fetch_add(1, Ordering::Relaxed);
            let own = folder.join(format!("{}-{number}.part", std::process::id()));
            let kept = fs::create_dir_all(folder)
                .and_then(|()| fs::write(&own, packed(&key, &cubin)))
                .and_then(|()| fs::rename(&own, path));
            if kept.is_err() {
                // Nothing is lost but time.
                let _ = fs::remove_file(&own);
            }
        }
        Ok(cubin)
    }

    /// All that the machine code depends on.
    fn key(&self, function: &Function, architecture: &str) -> Vec<u8> {
        let (major, minor) = self.compiler.version();
        let mut key = format!("{major}.{minor}\n").into_bytes();
        for option in self.compiler.options(function, architecture) {
            key.extend(option.into_bytes());
            key.push(b'\n');
        }
        key.extend(self.compiler.header().as_bytes());
        key.extend(function.source.text.as_bytes());
        key
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn file_name(function: &Function, key: &[u8]) -> String {
    format!("{}-{:016x}.cubin", function.source.name, hash(key))
}

/// Key and machine code, each after its length, and a checksum.
fn packed(key: &[u8], cubin: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(key.len() + cubin.len() + 24);
    for part in [key, cubin] {
        file.extend((part.len() as u64).to_le_bytes());
        file.extend(part);
    }
    let sum = hash(&file);
    file.extend(sum.to_le_bytes());
    file
}

/// The machine code of a file, if it is whole and of this key.
fn unpacked<'f>(file: &'f [u8], key: &[u8]) -> Option<&'f [u8]> {
    let (rest, sum) = file.split_last_chunk::<8>()?;
    if u64::from_le_bytes(*sum) != hash(rest) {
        return None;
    }
    let (own, rest) = part(rest)?;
    let (cubin, rest) = part(rest)?;
    (own == key && rest.is_empty()).then_some(cubin)
}

/// Some bytes after their length, and what follows.
fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<8>()?;
    let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
    rest.split_at_checked(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_torn_or_of_something_else_counts_as_not_there() {
        let file = packed(b"key", b"machine code");
        assert_eq!(unpacked(&file, b"key"), Some(&b"machine code"[..]));
        assert_eq!(unpacked(&file, b"another"), None);
        for len in 0..file.len() {
            assert_eq!(unpacked(&file[..len], b"key"), None);
        }
        for at in 0..file.len() {
            let mut torn = file.clone();
            torn[at] ^= 1;
            assert_eq!(unpacked(&torn, b"key"), None);
        }
        assert_eq!(unpacked(&packed(b"key", b""), b"key"), Some(&b""[..]));
    }
}
