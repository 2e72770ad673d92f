//! Files whose writes respect the process's file size limit.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use super::traits::DiskFile;

/// A file whose writes fail with an error if they would exceed the process's file size limit
/// (`ulimit -f`): the system would end the process with a signal.
///
/// ```
/// use std::io::Write;
/// use thalweg_checkpoint::disk::SizeLimitedFile;
///
/// # fn main() -> std::io::Result<()> {
/// let path = std::env::temp_dir().join(format!("thalweg-limited-{}.txt", std::process::id()));
/// let mut file = SizeLimitedFile::new(std::fs::File::create(&path)?);
/// file.write_all(b"text")?;
/// # std::fs::remove_file(&path)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SizeLimitedFile {
    file: File,
    /// The position of the next write.
    at: u64,
}

impl SizeLimitedFile {
    /// Wraps a file that was just opened, and is written from its beginning.
    pub fn new(file: File) -> SizeLimitedFile {
        SizeLimitedFile { file, at: 0 }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Write for SizeLimitedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        check(self.at, bytes.len(), largest())?;
        let written = self.file.write(bytes)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for SizeLimitedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = self.file.seek(to)?;
        Ok(self.at)
    }
}

impl DiskFile for SizeLimitedFile {
    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all()
    }
}

/// Checks that `len` bytes may be written at `at`.
fn check(at: u64, len: usize, largest: Option<u64>) -> io::Result<()> {
    let end = at.saturating_add(len as u64);
    match largest {
        Some(largest) if end > largest => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it would be larger than the file size limit (ulimit -f), {largest} bytes"),
        )),
        _ => Ok(()),
    }
}

/// The process's file size limit in bytes; `None` for no limit.
fn largest() -> Option<u64> {
    #[cfg(all(unix, not(miri)))]
    return rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    #[cfg(not(all(unix, not(miri))))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_grows_to_the_limit_and_no_further() {
        assert!(check(0, 100, Some(100)).is_ok());
        assert!(check(90, 10, Some(100)).is_ok());
        assert!(check(u64::MAX, 1, None).is_ok());
        for (at, len) in [(0, 101), (90, 11), (u64::MAX, 1)] {
            let error = check(at, len, Some(100)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
            assert!(error.to_string().contains("ulimit -f"), "{error}");
        }
    }
}
