//! The bytes of tensors and arenas.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Alignment of every tensor's first byte: a cache line, and the widest vector register.
pub const ALIGNMENT: usize = 64;

/// A device's account of bytes: how many it may give out, and how many are in use.
#[derive(Debug)]
pub struct Memory {
    limit: usize,
    used: AtomicUsize,
    buffers: AtomicUsize,
}

impl Memory {
    /// An account of at most `limit` bytes; `None` for as many as the system has.
    pub fn new(limit: Option<usize>) -> Memory {
        Memory {
            limit: limit.unwrap_or(usize::MAX),
            used: AtomicUsize::new(0),
            buffers: AtomicUsize::new(0),
        }
    }

    /// The most bytes that may be in use at a time; `None` for as many as the system has.
    pub fn limit(&self) -> Option<usize> {
        Some(self.limit).filter(|&l| l != usize::MAX)
    }

    /// The bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// The number of buffers in use.
    pub fn buffers(&self) -> usize {
        self.buffers.load(Ordering::Relaxed)
    }

    /// Notes that a buffer of `bytes` more is in use; false where the limit does not allow it.
    pub fn take(&self, bytes: usize) -> bool {
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|&u| u <= self.limit)
            });
        if taken.is_ok() {
            self.buffers.fetch_add(1, Ordering::Relaxed);
        }
        taken.is_ok()
    }

    /// Notes that a buffer of `bytes`, which [`Memory::take`] has noted, is in use no more.
    pub fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.buffers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Owned bytes, zeroed when made, aligned to [`ALIGNMENT`].
pub struct Buffer {
    ptr: NonNull<u8>,
    len: usize,
    /// Whose bytes they are.
    memory: Option<Arc<Memory>>,
}

// SAFETY: a `Buffer` owns its bytes as a `Box<[u8]>` does.
unsafe impl Send for Buffer {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `len` zeroed bytes.
    pub fn zeroed(len: usize) -> Buffer {
        Self::try_zeroed(len).unwrap_or_else(|| {
            let layout = Self::layout(len).unwrap_or(Layout::new::<u8>());
            handle_alloc_error(layout)
        })
    }

    /// `len` zeroed bytes, or `None` where the system does not have them.
    pub fn try_zeroed(len: usize) -> Option<Buffer> {
        let layout = Self::layout(len)?;
        // SAFETY: the layout's size is not zero (`layout` gives at least one byte).
        let ptr = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Buffer {
            ptr,
            len,
            memory: None,
        })
    }

    /// `len` zeroed bytes of `memory`, or `None` where its limit or the system do not allow it.
    pub fn try_zeroed_in(len: usize, memory: &Arc<Memory>) -> Option<Buffer> {
        if !memory.take(len) {
            return None;
        }
        let Some(mut buffer) = Self::try_zeroed(len) else {
            memory.give(len);
            return None;
        };
        buffer.memory = Some(memory.clone());
        Some(buffer)
    }

    /// The same bytes, of the same memory.
    pub fn try_clone(&self) -> Option<Buffer> {
        let mut copy = match &self.memory {
            Some(memory) => Self::try_zeroed_in(self.len, memory),
            None => Self::try_zeroed(self.len),
        }?;
        copy.bytes_mut().copy_from_slice(self.bytes());
        Some(copy)
    }

    /// What to allocate for `len` bytes; `None` where that is more than an address space has.
    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len.max(1), ALIGNMENT).ok()
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first byte's address. Writing through it needs exclusive access to the buffer.
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `ptr` is valid for `len` initialised bytes for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// The bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            memory.give(self.len);
        }
        if let Some(layout) = Self::layout(self.len) {
            // SAFETY: allocated in `try_zeroed` with this very layout.
            unsafe { dealloc(self.ptr.as_ptr(), layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_counts_what_is_in_use_and_keeps_its_limit() {
        let memory = Arc::new(Memory::new(Some(100)));
        let a = Buffer::try_zeroed_in(60, &memory);
        assert_eq!((memory.used(), memory.buffers()), (60, 1));
        assert!(Buffer::try_zeroed_in(41, &memory).is_none());
        assert!(a.as_ref().is_some_and(|a| a.try_clone().is_none()));
        let b = Buffer::try_zeroed_in(40, &memory);
        drop(a);
        assert_eq!((memory.used(), memory.buffers()), (40, 1));
        drop(b);
        assert_eq!((memory.used(), memory.buffers()), (0, 0));
    }
}
