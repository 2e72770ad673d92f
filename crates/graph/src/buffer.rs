//! The bytes of tensors and arenas.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Alignment of every tensor's first byte: a cache line, and the widest vector register.
pub const ALIGNMENT: usize = 64;

/// Owned bytes, zeroed when made, aligned to [`ALIGNMENT`].
pub struct Buffer {
    ptr: NonNull<u8>,
    len: usize,
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
        Some(Buffer { ptr, len })
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
        if let Some(layout) = Self::layout(self.len) {
            // SAFETY: allocated in `try_zeroed` with this very layout.
            unsafe { dealloc(self.ptr.as_ptr(), layout) }
        }
    }
}
