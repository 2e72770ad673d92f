//! Memory that processes of one host map.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use serde_json::{Value, json};

/// A mapping that others may have too.
pub(crate) struct Map {
    ptr: NonNull<u8>,
    len: usize,
    /// Open, so that others can find it.
    file: File,
}

// SAFETY: a `Map` owns its mapping; what is in it is used as `SharedMemory` says.
unsafe impl Send for Map {}

/// It can become neither shorter, which would end who reads there with a signal, nor longer.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

impl Map {
    /// New memory, of zeros.
    ///
    /// # Errors
    /// The system has none.
    pub(super) fn new(len: usize) -> io::Result<Map> {
        let file = memfd_create(
            c"thalweg-collective",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        let file = File::from(file);
        file.set_len(len as u64)?;
        // What is not there when it is written to would end the process with a signal.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, len as u64)?;
        fcntl_add_seals(&file, SEALS | SealFlags::SEAL)?;
        Map::of(file, len)
    }

    /// Where others of this user find it.
    pub(super) fn offer(&self) -> Value {
        use std::os::fd::AsRawFd;
        let number = self.file.metadata().map_or(0, |m| m.ino());
        json!({"process": std::process::id(), "file": self.file.as_raw_fd(), "number": number})
    }

    /// The memory of another process.
    ///
    /// # Errors
    /// This process may not see the file, or it is another one.
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

    /// Where `len` bytes from `offset` on are.
    ///
    /// # Panics
    /// If they are not within it.
    pub(super) fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset + len <= self.len);
        // SAFETY: within the mapping.
        unsafe { self.ptr.as_ptr().add(offset) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped in `of` with this length; whoever used it borrowed this.
        let _ = unsafe { munmap(self.ptr.as_ptr().cast(), self.len) };
    }
}
