//! Shared memory: segments that other processes of the machine can map, which are files without names.
//!
//! What a process writes there another one reads in place, without a copy. A segment is made by one
//! process, which alone writes to it, and opened by others, which only read. It can not become shorter
//! (it is sealed), so that a reader finds memory for as long as it has the segment mapped, whatever
//! becomes of the one that made it.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where another process finds a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentName {
    /// The descriptor of its file in the process that made it.
    pub descriptor: u32,
    /// The number of its file, which no other one has while this one is there.
    pub inode: u64,
}

/// Shared memory that is mapped.
#[derive(Debug)]
pub(crate) struct Segment {
    file: File,
    inode: u64,
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
        let mapped = mapped.ok_or(io::ErrorKind::OutOfMemory)?;
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
        let inode = file.metadata()?.ino();
        let ptr = map(&file, mapped, libc::PROT_READ | libc::PROT_WRITE)?;
        Ok(Segment {
            file,
            inode,
            ptr,
            mapped,
        })
    }

    /// One of another process, of at least `len` bytes, to be read.
    ///
    /// # Errors
    /// It is not there, can not be opened, or could become shorter.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(crate) fn open(process: u32, name: SegmentName, len: usize) -> io::Result<Segment> {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::MetadataExt;

        let file = File::open(format!("/proc/{process}/fd/{}", name.descriptor))?;
        let known = file.metadata()?;
        // SAFETY: an open file.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        let stays = seals >= 0 && seals & libc::F_SEAL_SHRINK != 0;
        let mapped = len.max(1).checked_next_multiple_of(PAGE);
        let mapped = mapped.filter(|&m| m as u64 <= known.len());
        match mapped {
            Some(mapped) if stays && known.ino() == name.inode => Ok(Segment {
                inode: name.inode,
                ptr: map(&file, mapped, libc::PROT_READ)?,
                file,
                mapped,
            }),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Other systems have none.
    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn new(_: usize) -> io::Result<Segment> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Other systems have none.
    #[cfg(not(all(target_os = "linux", not(miri))))]
    pub(crate) fn open(_: u32, _: SegmentName, _: usize) -> io::Result<Segment> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Gives its memory back to the system, also where others have it mapped: zeros are read there then.
    fn empty(&self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            use std::os::fd::AsRawFd;
            let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            // SAFETY: an open file of this length. Where it fails, the memory goes with the last mapping.
            unsafe { libc::fallocate(self.file.as_raw_fd(), how, 0, self.mapped as libc::off_t) };
        }
    }

    /// Its first byte.
    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Where others find it.
    pub(crate) fn name(&self) -> SegmentName {
        #[cfg(unix)]
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&self.file).cast_unsigned();
        #[cfg(not(unix))]
        let descriptor = 0;
        SegmentName {
            descriptor,
            inode: self.inode,
        }
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

/// The segments of a process: those that are free are used again, for a new one costs a clearing of its
/// pages and a fault for each.
#[derive(Debug)]
pub struct Segments {
    free: Mutex<Vec<Segment>>,
    /// How many there are.
    count: AtomicUsize,
    /// The most bytes that are kept free.
    keep: usize,
}

/// The most segments of a process: each is an open file, of which it may have 1024 where nobody says
/// otherwise.
const MOST: usize = 400;

impl Segments {
    /// None yet; at most `keep` bytes of them are kept free.
    pub fn new(keep: usize) -> Segments {
        Segments {
            free: Mutex::default(),
            count: AtomicUsize::new(0),
            keep,
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<Segment>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of at least `len` bytes, which are whatever they are; none where the system has none, or the
    /// process has as many as it may.
    pub(crate) fn take(&self, len: usize) -> Option<Segment> {
        let mut free = self.free();
        let fits = |s: &Segment| s.mapped >= len && s.mapped - len < PAGE;
        // The last one that was used is the nearest to the processor.
        if let Some(at) = free.iter().rposition(fits) {
            return Some(free.remove(at));
        }
        if self.count.load(Ordering::Relaxed) >= MOST && !free.is_empty() {
            // One that is free makes room.
            let oldest = free.remove(0);
            self.drop_free(oldest);
        }
        drop(free);
        let more = |n: usize| Some(n + 1).filter(|&n| n <= MOST);
        let counted = (self.count).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        let new = counted.ok().and_then(|_| Segment::new(len).ok());
        if counted.is_ok() && new.is_none() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        new
    }

    /// Takes one back that nobody reads any more.
    pub(crate) fn give(&self, segment: Segment) {
        let mut gone = Vec::new();
        let mut free = self.free();
        free.push(segment);
        let mut kept: usize = free.iter().map(|s| s.mapped).sum();
        while kept > self.keep {
            let oldest = free.remove(0);
            kept -= oldest.mapped;
            gone.push(oldest);
        }
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

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests;
