//! Shared-memory segments: anonymous, sealed files that other processes of the machine can map.
//!
//! Bytes that one process writes are read by another in place, without a copy. One process makes a
//! segment and alone writes to it; others get its descriptor, map it and only read. It is sealed
//! against shrinking, so a reader's mapping stays valid, whatever happens to the process that made
//! it.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use thiserror::Error;

use crate::sync::Unpoisoned;

/// The reason why a descriptor of another process is not mapped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// It is another file than the requested one.
    #[error("it is of segment {found}, not {expected}")]
    WrongFile {
        /// The requested number.
        expected: u64,
        /// The number of its file.
        found: u64,
    },
    /// A process that has it open could shrink it, and a read there would end with a signal.
    #[error("it is not sealed against becoming shorter (F_SEAL_SHRINK)")]
    Unsealed,
    /// It is shorter than the bytes to read.
    #[error("it has {found} bytes, {needed} are needed")]
    Short {
        /// The number of bytes to read.
        needed: usize,
        /// The bytes of its file.
        found: u64,
    },
    /// The system call failed.
    #[error("it cannot be mapped: {0}")]
    System(#[from] io::Error),
}

/// A mapped segment of shared memory.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Its file, in the process that made it: a mapping does not need one.
    file: Option<File>,
    /// The number of its file (the inode), which no other file has while this one exists.
    number: u64,
    ptr: NonNull<u8>,
    /// A whole number of pages.
    mapped: usize,
}

// SAFETY: a `Segment` owns its mapping as a `Box<[u8]>` does its bytes.
unsafe impl Send for Segment {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Segment {}

/// A multiple of the page size, in bytes.
const PAGE_MULTIPLE: usize = 64 << 10;

impl Segment {
    /// A new segment of at least `len` zeroed bytes.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn new(len: usize) -> io::Result<Segment> {
        use std::os::fd::{AsRawFd, FromRawFd};
        use std::os::unix::fs::MetadataExt;

        let mapped = len.max(1).checked_next_multiple_of(PAGE_MULTIPLE);
        // A file may have any length: a length beyond the machine's memory is refused here, as by
        // `malloc`.
        let mapped = mapped.filter(|&m| m as u64 <= memory());
        let mapped = mapped.ok_or(io::ErrorKind::OutOfMemory)?;
        // Beyond the process's file size limit (`ulimit -f`) the system would end it with a signal.
        if mapped as u64 > largest_file() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a string that ends with zero; the result is a new descriptor or -1.
        let descriptor = unsafe { libc::memfd_create(c"thalweg".as_ptr(), flags) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor has no other owner.
        let file = unsafe { File::from_raw_fd(descriptor) };
        file.set_len(mapped as u64)?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: an open file.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Segment {
            number: file.metadata()?.ino(),
            ptr: map(&file, mapped, libc::PROT_READ | libc::PROT_WRITE)?,
            file: Some(file),
            mapped,
        })
    }

    /// Maps the segment of this number, made by another process, for reading: at least `len` bytes.
    ///
    /// # Errors
    /// The file is another one, could shrink, is too short, or can not be mapped.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(crate) fn open(file: &File, number: u64, len: usize) -> Result<Segment, SegmentError> {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::MetadataExt;

        // SAFETY: an open file. The call fails for a file that is not memory.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(SegmentError::Unsealed);
        }
        // Sealed, it stays at least as long as it is now.
        let known = file.metadata()?;
        if known.ino() != number {
            return Err(SegmentError::WrongFile {
                expected: number,
                found: known.ino(),
            });
        }
        let mapped = len.max(1).checked_next_multiple_of(PAGE_MULTIPLE);
        let mapped = mapped.filter(|&m| m as u64 <= known.len());
        let mapped = mapped.ok_or(SegmentError::Short {
            needed: len,
            found: known.len(),
        })?;
        Ok(Segment {
            number,
            ptr: map(file, mapped, libc::PROT_READ)?,
            file: None,
            mapped,
        })
    }

    /// Other systems have no segments.
    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn new(_: usize) -> io::Result<Segment> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Other systems have no segments.
    #[cfg(not(all(target_os = "linux", not(miri))))]
    pub(crate) fn open(_: &File, _: u64, _: usize) -> Result<Segment, SegmentError> {
        Err(io::Error::from(io::ErrorKind::Unsupported).into())
    }

    /// Returns its memory to the system, even if others have it mapped: they then read zeros.
    fn empty(&self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        if let Some(file) = &self.file {
            use std::os::fd::AsRawFd;
            let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            // SAFETY: an open file of this length. If the call fails, the memory is freed with the
            // last mapping.
            unsafe { libc::fallocate(file.as_raw_fd(), how, 0, self.mapped as libc::off_t) };
        }
    }

    /// Its first byte.
    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Its file, in the process that made it.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// The number of its file, in the process that made it.
    pub(crate) fn number(&self) -> Option<u64> {
        self.file.as_ref().map(|_| self.number)
    }
}

/// Maps the first `len` bytes of a file.
#[cfg(all(target_os = "linux", not(miri)))]
fn map(file: &File, len: usize, protection: libc::c_int) -> io::Result<NonNull<u8>> {
    use std::os::fd::AsRawFd;
    let null = std::ptr::null_mut();
    // SAFETY: a new mapping, at an address that the system chooses, of an open file.
    let ptr = unsafe {
        let file = file.as_raw_fd();
        libc::mmap(null, len, protection, libc::MAP_SHARED, file, 0)
    };
    match NonNull::new(ptr.cast::<u8>()) {
        Some(ptr) if ptr.as_ptr().cast() != libc::MAP_FAILED => Ok(ptr),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: mapped in `map` with this length; all users borrowed this.
        unsafe {
            libc::munmap(self.ptr.as_ptr().cast(), self.mapped);
        }
    }
}

/// A device's pool of segments: free ones are reused, because a new one costs clearing its pages
/// and a page fault for each.
#[derive(Debug)]
pub(crate) struct SegmentPool {
    free: Mutex<Vec<Segment>>,
    /// The number of segments, and its limit.
    count: AtomicUsize,
    most: usize,
    /// The most bytes kept free.
    keep: usize,
}

/// The most segments of a device. Each is an open file; at most a quarter of the process's limit of
/// open files is used.
const MAX_SEGMENTS: usize = 400;

impl SegmentPool {
    /// An empty pool; at most `keep` bytes are kept free.
    pub(crate) fn new(keep: usize) -> SegmentPool {
        SegmentPool {
            free: Mutex::default(),
            count: AtomicUsize::new(0),
            most: (limit() / 4).min(MAX_SEGMENTS),
            keep,
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<Segment>> {
        self.free.lock().unpoisoned()
    }

    /// A segment of at least `len` bytes with arbitrary contents; `None` if the system has none, or
    /// the device has as many as it may.
    pub(crate) fn take(&self, len: usize) -> Option<Segment> {
        let mut free = self.free();
        let fits = |s: &Segment| s.mapped >= len && s.mapped - len < PAGE_MULTIPLE;
        // The last one used is the most likely to be in a cache.
        if let Some(at) = free.iter().rposition(fits) {
            return Some(free.remove(at));
        }
        // Dropping a free one makes room.
        let full = self.count.load(Ordering::Relaxed) >= self.most && !free.is_empty();
        let oldest = full.then(|| free.remove(0));
        drop(free);
        if let Some(oldest) = oldest {
            self.drop_free(oldest);
        }
        let more = |n: usize| Some(n + 1).filter(|&n| n <= self.most);
        let counted = (self.count).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        let new = counted.ok().and_then(|_| Segment::new(len).ok());
        if counted.is_ok() && new.is_none() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        new
    }

    /// Takes back a segment that has no readers.
    pub(crate) fn give(&self, segment: Segment) {
        if segment.mapped > self.keep {
            return self.drop_free(segment);
        }
        let mut free = self.free();
        free.push(segment);
        let mut kept: usize = free.iter().map(|s| s.mapped).sum();
        let mut gone = 0;
        while kept > self.keep {
            kept -= free[gone].mapped;
            gone += 1;
        }
        let gone: Vec<Segment> = free.drain(..gone).collect();
        drop(free);
        gone.into_iter().for_each(|s| self.drop_free(s));
    }

    fn drop_free(&self, segment: Segment) {
        segment.empty();
        self.discard_in_use(segment);
    }

    /// Drops a segment that may still have readers.
    pub(crate) fn discard_in_use(&self, segment: Segment) {
        drop(segment);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for SegmentPool {
    fn drop(&mut self) {
        let free = std::mem::take(&mut *self.free());
        free.into_iter().for_each(|s| self.drop_free(s));
    }
}

/// The process's limit of open files; `None` if the system may overcommit memory: an access to a
/// segment without memory behind it would end the process with a signal.
#[cfg(all(target_os = "linux", not(miri)))]
fn limit() -> usize {
    let strict = std::fs::read("/proc/sys/vm/overcommit_memory").is_ok_and(|s| s.starts_with(b"2"));
    match strict {
        true => 0,
        false => {
            // SAFETY: the pointer is to a valid `rlimit`.
            let files =
                process_limit(|limit| unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, limit) });
            usize::try_from(files).unwrap_or(usize::MAX)
        }
    }
}

/// The process's file size limit, which also applies to files in memory.
#[cfg(all(target_os = "linux", not(miri)))]
fn largest_file() -> u64 {
    // SAFETY: the pointer is to a valid `rlimit`.
    process_limit(|limit| unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, limit) })
}

/// The limit that `get` stores; 0 if the system does not report it.
#[cfg(all(target_os = "linux", not(miri)))]
fn process_limit(get: impl FnOnce(&mut libc::rlimit) -> libc::c_int) -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    match get(&mut limit) {
        0 => limit.rlim_cur,
        _ => 0,
    }
}

/// Other systems have no segments.
#[cfg(not(all(target_os = "linux", not(miri))))]
fn limit() -> usize {
    0
}

/// The bytes of the machine's memory, including swap.
#[cfg(all(target_os = "linux", not(miri)))]
fn memory() -> u64 {
    // SAFETY: zero is a valid value of each field; the pointer is to a valid value.
    let (known, failed) = unsafe {
        let mut known: libc::sysinfo = std::mem::zeroed();
        let failed = libc::sysinfo(&raw mut known);
        (known, failed)
    };
    let units = known.totalram.saturating_add(known.totalswap);
    match failed {
        0 => units.saturating_mul(known.mem_unit.into()),
        _ => 0,
    }
}

#[cfg(test)]
#[cfg(all(target_os = "linux", not(miri)))]
mod tests;
