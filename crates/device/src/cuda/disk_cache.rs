//! Files of a cache on disk: what was found out once on a machine, by all that it depends on.
//!
//! A file is written under a name of its own and renamed when it is whole, so that processes that write the same thing do
//! not disturb each other. It holds its key and a checksum: one that is torn, or is of something else, counts as not there.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes by key, in the files of a folder, which is made when there is something to keep.
#[derive(Debug)]
pub(super) struct DiskCache {
    folder: PathBuf,
    /// Tells the files of this process apart.
    written: AtomicU64,
}

impl DiskCache {
    pub(super) fn new(folder: PathBuf) -> DiskCache {
        DiskCache {
            folder,
            written: AtomicU64::new(0),
        }
    }

    /// The bytes in the file of this name, if it is whole and of this key.
    pub(super) fn get(&self, name: &str, key: &[u8]) -> Option<Vec<u8>> {
        let file = fs::read(self.folder.join(name)).ok()?;
        unpacked(&file, key).map(<[u8]>::to_vec)
    }

    /// Writes a file, which is there whole or not at all.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn put(&self, name: &str, key: &[u8], bytes: &[u8]) -> std::io::Result<()> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let own = self
            .folder
            .join(format!("{}-{number}.part", std::process::id()));
        fs::create_dir_all(&self.folder)
            .and_then(|()| fs::write(&own, packed(key, bytes)))
            .and_then(|()| fs::rename(&own, self.folder.join(name)))
            .inspect_err(|_| drop(fs::remove_file(&own)))
    }
}

/// A hash for the names of files.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// Key and bytes, each after its length, and a checksum.
fn packed(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(key.len() + bytes.len() + 24);
    for part in [key, bytes] {
        file.extend((part.len() as u64).to_le_bytes());
        file.extend(part);
    }
    let sum = hash(&file);
    file.extend(sum.to_le_bytes());
    file
}

/// The bytes of a file, if it is whole and of this key.
fn unpacked<'f>(file: &'f [u8], key: &[u8]) -> Option<&'f [u8]> {
    let (rest, sum) = file.split_last_chunk::<8>()?;
    if u64::from_le_bytes(*sum) != hash(rest) {
        return None;
    }
    let (own, rest) = part(rest)?;
    let (bytes, rest) = part(rest)?;
    (own == key && rest.is_empty()).then_some(bytes)
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
