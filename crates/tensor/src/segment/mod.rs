//! Shared memory: segments that other processes of the machine can map, which are files without names.
//!
//! What a process writes there another one reads in place, without a copy. A segment is made by one
//! process, which alone writes to it, and mapped by others, which get its descriptor and only read. It can
//! not become shorter (it is sealed), so that a reader finds memory for as long as it has the segment
//! mapped, whatever becomes of the one that made it.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use thiserror::Error;

/// Why a descriptor of another process is not mapped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// It is of another file than was asked for.
    #[error("it is of segment {found}, not {expected}")]
    Other {
        /// The number that was asked for.
        expected: u64,
        /// The number of its file.
        found: u64,
    },
    /// Whoever has it open could make it shorter, and end who reads there with a signal.
    #[error("it is not sealed against becoming shorter (F_SEAL_SHRINK)")]
    Unsealed,
    /// It ends before the bytes do.
    #[error("it has {found} bytes, {needed} are needed")]
    Short {
        /// The bytes that are to be read.
        needed: usize,
        /// The bytes of its file.
        found: u64,
    },
    /// The system does not map it.
    #[error("it cannot be mapped: {0}")]
    System(#[from] io::Error),
}

/// Shared memory that is mapped.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Its file, in the process that made it: what is mapped stays so without.
    file: Option<File>,
    /// The number of its file (the inode), which no other one has while this one is there.
    number: u64,
    ptr: NonNull<u8>,
    /// A whole number of pages.
    mapped: usize,
}

// SAFETY: a `Segment` owns its mapping as a `Box<[u8]>` does its bytes.
unsafe impl Send for Segment {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Segment {}

/// The size of a page, or of several.
const PAGE: usize = 64 << 10;

impl Segment {
    /// A new one of at least `len` bytes, zeroed.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn new(len: usize) -> io::Result<Segment> {
        use std::os::fd::{AsRawFd, FromRawFd};
        use std::os::unix::fs::MetadataExt;

        let mapped = len.max(1).checked_next_multiple_of(PAGE);
        // A file may be as long as it likes: what the machine never has is refused here, as by `malloc`.
        let mapped = mapped.filter(|&m| m as u64 <= memory());
        let mapped = mapped.ok_or(io::ErrorKind::OutOfMemory)?;
        // Beyond the largest file that the process may make (`ulimit -f`), the system ends it with a signal.
        if mapped as u64 > largest_file() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a string that ends with zero; what comes back is a new descriptor or -1.
        let descriptor = unsafe { libc::memfd_create(c"thalweg".as_ptr(), flags) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: nobody else has the descriptor.
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

    /// The segment of this number, made by another process, to be read: at least `len` bytes.
    ///
    /// # Errors
    /// The file is another one, could become shorter, is too short, or can not be mapped.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(crate) fn open(file: &File, number: u64, len: usize) -> Result<Segment, SegmentError> {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::MetadataExt;

        // SAFETY: an open file. It fails where the file is none of memory.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(SegmentError::Unsealed);
        }
        // Sealed, it stays at least as long as it is now.
        let known = file.metadata()?;
        if known.ino() != number {
            return Err(SegmentError::Other {
                expected: number,
                found: known.ino(),
            });
        }
        let mapped = len.max(1).checked_next_multiple_of(PAGE);
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

    /// Other systems have none.
    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn new(_: usize) -> io::Result<Segment> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Other systems have none.
    #[cfg(not(all(target_os = "linux", not(miri))))]
    pub(crate) fn open(_: &File, _: u64, _: usize) -> Result<Segment, SegmentError> {
        Err(io::Error::from(io::ErrorKind::Unsupported).into())
    }

    /// Gives its memory back to the system, also where others have it mapped: zeros are read there then.
    fn empty(&self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        if let Some(file) = &self.file {
            use std::os::fd::AsRawFd;
            let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            // SAFETY: an open file of this length. Where it fails, the memory goes with the last mapping.
            unsafe { libc::fallocate(file.as_raw_fd(), how, 0, self.mapped as libc::off_t) };
        }
    }

    /// Its first byte.
    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Its file, if it was made here.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// The number of its file, if it was made here.
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
        // SAFETY: mapped in `map` with this length; whoever used it borrowed this.
        unsafe {
            libc::munmap(self.ptr.as_ptr().cast(), self.mapped);
        }
    }
}

/// The segments of a device: those that are free are used again, for a new one costs a clearing of its
/// pages and a fault for each.
#[derive(Debug)]
pub(crate) struct Segments {
    free: Mutex<Vec<Segment>>,
    /// How many there are, and the most there may be.
    count: AtomicUsize,
    most: usize,
    /// The most bytes that are kept free.
    keep: usize,
}

/// The most segments of a device. Each is an open file; beyond a quarter of those that the process may have
/// there are none.
const MOST: usize = 400;

impl Segments {
    /// None yet; at most `keep` bytes of them are kept free.
    pub(crate) fn new(keep: usize) -> Segments {
        Segments {
            free: Mutex::default(),
            count: AtomicUsize::new(0),
            most: (limit() / 4).min(MOST),
            keep,
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<Segment>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of at least `len` bytes, which are whatever they are; none where the system has none, or the
    /// device has as many as it may.
    pub(crate) fn take(&self, len: usize) -> Option<Segment> {
        let mut free = self.free();
        let fits = |s: &Segment| s.mapped >= len && s.mapped - len < PAGE;
        // The last one that was used is the nearest to the processor.
        if let Some(at) = free.iter().rposition(fits) {
            return Some(free.remove(at));
        }
        // One that is free makes room.
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

    /// Takes one back that nobody reads any more.
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
        self.lose(segment);
    }

    /// Lets one go that others may still read.
    pub(crate) fn lose(&self, segment: Segment) {
        drop(segment);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        let free = std::mem::take(&mut *self.free());
        free.into_iter().for_each(|s| self.drop_free(s));
    }
}

/// How many files the process may have open; none where the system promises no more memory than it has:
/// it would break that promise to a segment with a signal.
#[cfg(all(target_os = "linux", not(miri)))]
fn limit() -> usize {
    let strict = std::fs::read("/proc/sys/vm/overcommit_memory").is_ok_and(|s| s.starts_with(b"2"));
    match strict {
        true => 0,
        false => {
            // SAFETY: the place that is written to is there.
            let files = of_process(|limit| unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, limit) });
            usize::try_from(files).unwrap_or(usize::MAX)
        }
    }
}

/// The most bytes that a file may have which the process makes, one of memory too.
#[cfg(all(target_os = "linux", not(miri)))]
fn largest_file() -> u64 {
    // SAFETY: the place that is written to is there.
    of_process(|limit| unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, limit) })
}

/// The limit that `get` writes down; 0 where the system does not say.
#[cfg(all(target_os = "linux", not(miri)))]
fn of_process(get: impl FnOnce(&mut libc::rlimit) -> libc::c_int) -> u64 {
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

/// The bytes of memory that the machine has, with those that it can move out.
#[cfg(all(target_os = "linux", not(miri)))]
fn memory() -> u64 {
    // SAFETY: all of it may be zero; the place that is written to is there.
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

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests;
