//! Memory mappings that processes of one host share.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use serde_json::{Value, json};

/// Mapping of a file that other processes may map too.
pub(crate) struct Map {
    ptr: NonNull<u8>,
    len: usize,
    /// Open, so that other processes can open it through `/proc`.
    file: File,
}

// SAFETY: a `Map` owns its mapping; its content is accessed by the protocol of `SharedMemory`.
unsafe impl Send for Map {}

/// Seals against resizing: a read beyond a shortened file would end the process with a signal.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

impl Map {
    /// Creates zeroed memory.
    ///
    /// # Errors
    /// The system has no memory.
    pub(super) fn new(len: usize) -> io::Result<Map> {
        let file = memfd_create(
            c"thalweg-collective",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        let file = File::from(file);
        file.set_len(len as u64)?;
        // A write to a page that cannot be allocated would end the process with a signal.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, len as u64)?;
        fcntl_add_seals(&file, SEALS | SealFlags::SEAL)?;
        Map::of(file, len)
    }

    /// Description by which other processes of this user open the file.
    pub(super) fn offer(&self) -> Value {
        use std::os::fd::AsRawFd;
        let number = self.file.metadata().map_or(0, |m| m.ino());
        json!({"process": std::process::id(), "file": self.file.as_raw_fd(), "number": number})
    }

    /// Maps the memory of another process.
    ///
    /// # Errors
    /// This process may not open the file, or it is another one.
    pub(super) fn open(offer: &Value, len: usize) -> io::Result<Map> {
        let number = |key: &str| offer[key].as_u64().ok_or(io::ErrorKind::InvalidData);
        let path = format!("/proc/{}/fd/{}", number("process")?, number("file")?);
        let file = File::options().read(true).write(true).open(path)?;
        let sealed = fcntl_get_seals(&file)?.contains(SEALS);
        let found = file.metadata()?;
        if !sealed || found.ino() != number("number")? || found.len() != len as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Map::of(file, len)
    }

    fn of(file: File, len: usize) -> io::Result<Map> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping of an open file, at an address that the system chooses.
        let ptr = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                protection,
                MapFlags::SHARED,
                &file,
                0,
            )?
        };
        let ptr = NonNull::new(ptr.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Map { ptr, len, file })
    }

    /// Address of `len` bytes from `offset` on.
    ///
    /// # Panics
    /// If they are not within the mapping.
    pub(super) fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset + len <= self.len);
        // SAFETY: within the mapping.
        unsafe { self.ptr.as_ptr().add(offset) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped in `of` with this length; all users borrow `self`.
        let _ = unsafe { munmap(self.ptr.as_ptr().cast(), self.len) };
    }
}
