//! Buffers: the bytes of tensors and arenas, and the memory accounts that they count against.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::fs::File;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::notes::Notes;
use crate::segment::{Segment, SegmentError, SegmentPool};

/// Alignment of every tensor's first byte: a cache line, and the widest vector register.
pub const ALIGNMENT: usize = 64;

/// Bytes that a buffer counts beside its own: the allocator's header and rounding to [`ALIGNMENT`], the buffer's record, and
/// the tensor that holds it. A scalar takes 420 bytes in a queue and 500 in a list.
pub const BUFFER_OVERHEAD: usize = 512;

/// The bytes that a buffer of `len` bytes counts.
fn counted(len: usize) -> usize {
    len.saturating_add(BUFFER_OVERHEAD)
}

/// A memory account, of a device or of the calls of a server: a limit, and the bytes in use.
#[derive(Debug)]
pub struct Memory {
    limit: usize,
    used: AtomicUsize,
    buffers: AtomicUsize,
    /// The shared-memory segments that buffers are placed in, if other processes may map them.
    segments: Option<SegmentPool>,
    /// The account that also counts these bytes.
    parent: Option<Arc<Memory>>,
}

impl Memory {
    /// An account of at most `limit` bytes; `None` for no limit other than the system's.
    pub fn new(limit: Option<usize>) -> Memory {
        Memory {
            limit: limit.unwrap_or(usize::MAX),
            used: AtomicUsize::new(0),
            buffers: AtomicUsize::new(0),
            segments: None,
            parent: None,
        }
    }

    /// An account of at most `limit` bytes of `whole`, which counts them too: for a user that may
    /// take only a part.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use thalweg_tensor::Memory;
    ///
    /// let whole = Arc::new(Memory::new(Some(100)));
    /// let part = Memory::within(&whole, 60);
    /// assert!(!part.take(61) && part.take(50) && whole.used() == 50);
    /// assert!(whole.take(45) && !part.take(6));
    /// ```
    pub fn within(whole: &Arc<Memory>, limit: usize) -> Memory {
        Memory {
            parent: Some(whole.clone()),
            ..Memory::new(Some(limit))
        }
    }

    /// The same account, whose [`Buffer::try_any_in`] and [`Buffer::try_copied`] return memory that
    /// other processes of the machine can map; at most `keep` bytes of it are kept for reuse,
    /// beside those in use.
    pub fn sharing(self, keep: usize) -> Memory {
        Memory {
            segments: Some(SegmentPool::new(keep)),
            ..self
        }
    }

    /// The segments for a buffer of `len` uninitialised bytes, if other processes can map it.
    fn segments(&self, len: usize) -> Option<&SegmentPool> {
        self.segments.as_ref().filter(|_| len >= MIN_SHARED_BYTES)
    }

    /// The most bytes that may be in use at a time; `None` for no limit other than the system's.
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

    /// Counts `bytes` more, for a buffer that is counted already or for strings; `false` if that
    /// would exceed the limit.
    pub fn grow(&self, bytes: usize) -> bool {
        if !self.parent.as_ref().is_none_or(|whole| whole.grow(bytes)) {
            return false;
        }
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|&u| u <= self.limit)
            });
        if taken.is_err() {
            self.parent.iter().for_each(|whole| whole.shrink(bytes));
        }
        taken.is_ok()
    }

    /// Uncounts `bytes` that [`Memory::grow`] counted.
    pub fn shrink(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.parent.iter().for_each(|whole| whole.shrink(bytes));
    }

    /// Counts a new buffer of `bytes`; `false` if that would exceed the limit.
    pub fn take(&self, bytes: usize) -> bool {
        let taken = self.grow(bytes);
        if taken {
            self.buffers.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// Uncounts a buffer of `bytes` that [`Memory::take`] counted.
    pub fn give(&self, bytes: usize) {
        self.shrink(bytes);
        self.buffers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Unshared buffers of this size or more are placed on huge pages, where the system has them, in
/// bytes: walking over them, or letting another process read them, then takes far fewer steps of
/// the processor and the system.
const HUGE_PAGE_THRESHOLD: usize = 4 << 20;
/// The size of a huge page.
const HUGE_PAGE: usize = 2 << 20;
/// The smallest buffer that may be in shared memory, in bytes: smaller ones are as fast to copy.
pub const MIN_SHARED_BYTES: usize = 128 << 10;

/// Initialised bytes, aligned to [`ALIGNMENT`]: private, or in a segment of shared memory.
pub struct Buffer {
    ptr: NonNull<u8>,
    len: usize,
    base: Backing,
    /// The account that they count against.
    memory: Option<Arc<Memory>>,
    /// `true` if the bytes are immutable, also for a sole holder.
    frozen: AtomicBool,
    notes: Notes,
}

/// The memory behind a buffer.
enum Backing {
    /// An allocation on the heap.
    Heap(NonNull<u8>),
    /// Memory of this process that others can map; `Some` until the buffer is dropped.
    Own(Option<Segment>),
    /// Memory of another process.
    Foreign(#[expect(dead_code, reason = "it is there for its drop")] Segment),
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

    /// `len` zeroed bytes, or `None` if the system does not have them.
    pub fn try_zeroed(len: usize) -> Option<Buffer> {
        // SAFETY: `alloc_zeroed` returns zeroed memory.
        unsafe { Self::made(len, alloc_zeroed) }
    }

    /// # Safety
    /// The bytes that `allocate` returns are initialised, or the caller writes them all before they
    /// are read.
    unsafe fn made(len: usize, allocate: unsafe fn(Layout) -> *mut u8) -> Option<Buffer> {
        let layout = Self::layout(len)?;
        // SAFETY: the layout's size is not zero (`layout` gives at least one byte).
        let base = NonNull::new(unsafe { allocate(layout) })?;
        let ptr = match len >= HUGE_PAGE_THRESHOLD {
            false => base,
            true => {
                let skip = base.as_ptr().addr().next_multiple_of(HUGE_PAGE) - base.as_ptr().addr();
                // SAFETY: `skip` is less than a huge page, which `layout` adds to the requested bytes.
                let ptr = unsafe { base.add(skip) };
                on_huge_pages(ptr, len);
                ptr
            }
        };
        Some(Buffer {
            ptr,
            len,
            base: Backing::Heap(base),
            memory: None,
            frozen: AtomicBool::new(false),
            notes: Notes::default(),
        })
    }

    /// `len` bytes of `memory` with arbitrary contents, or `None` if its limit or the system does
    /// not allow it. If the memory is shared, and there are [`MIN_SHARED_BYTES`] bytes or more, other
    /// processes can map them.
    pub fn try_any_in(len: usize, memory: &Arc<Memory>) -> Option<Buffer> {
        let Some(segments) = memory.segments(len) else {
            return Self::try_zeroed_in(len, memory);
        };
        if !memory.take(counted(len)) {
            return None;
        }
        let Some(segment) = segments.take(len) else {
            memory.give(counted(len));
            return Self::try_zeroed_in(len, memory);
        };
        Some(Buffer {
            ptr: segment.ptr(),
            len,
            base: Backing::Own(Some(segment)),
            memory: Some(memory.clone()),
            frozen: AtomicBool::new(false),
            notes: Notes::default(),
        })
    }

    /// The first `len` bytes of the segment of this number, made by another process, without a
    /// copy. They are never written here, and the other process must not write them while this
    /// buffer exists. The file is not needed afterwards.
    ///
    /// # Errors
    /// The file is another one, could become shorter, is too short, or can not be mapped.
    pub fn mapped(file: &File, number: u64, len: usize) -> Result<Buffer, SegmentError> {
        let segment = Segment::open(file, number, len)?;
        Ok(Buffer {
            ptr: segment.ptr(),
            len,
            base: Backing::Foreign(segment),
            memory: None,
            frozen: AtomicBool::new(true),
            notes: Notes::default(),
        })
    }

    fn own_segment(&self) -> Option<&Segment> {
        match &self.base {
            Backing::Own(segment) => segment.as_ref(),
            Backing::Heap(_) | Backing::Foreign(_) => None,
        }
    }

    /// The number of the segment that the bytes are in, from its first byte on, if others can map
    /// it: no other segment has this number while this one exists.
    pub fn segment(&self) -> Option<u64> {
        self.own_segment().and_then(Segment::number)
    }

    /// The file of the segment, whose descriptor another process needs to map it.
    pub fn segment_file(&self) -> Option<&File> {
        self.own_segment().and_then(Segment::file)
    }

    /// Makes the bytes immutable from now on: another process reads them, for an unknown time.
    pub fn freeze(&self) {
        self.frozen.store(true, Ordering::Release);
    }

    /// The buffer for writing, if it has no other holder and is not fixed.
    pub fn get_mut(this: &mut Arc<Buffer>) -> Option<&mut Buffer> {
        // The holder that fixed it has released it since, so its store is visible here.
        let buffer = Arc::get_mut(this).filter(|b| !b.frozen.load(Ordering::Relaxed))?;
        buffer.notes.forget();
        Some(buffer)
    }

    /// `len` zeroed bytes of `memory`, or `None` if its limit or the system does not allow it.
    pub fn try_zeroed_in(len: usize, memory: &Arc<Memory>) -> Option<Buffer> {
        if !memory.take(counted(len)) {
            return None;
        }
        let Some(mut buffer) = Self::try_zeroed(len) else {
            memory.give(counted(len));
            return None;
        };
        buffer.memory = Some(memory.clone());
        Some(buffer)
    }

    /// A copy of these bytes, in `memory` if given, as by [`Buffer::try_any_in`]; `None` if its
    /// limit or the system does not allow it.
    pub fn try_copied(bytes: &[u8], memory: Option<&Arc<Memory>>) -> Option<Buffer> {
        if let Some(memory) = memory.filter(|m| m.segments(bytes.len()).is_some()) {
            let mut copy = Self::try_any_in(bytes.len(), memory)?;
            copy.bytes_mut().copy_from_slice(bytes);
            return Some(copy);
        }
        if memory.is_some_and(|m| !m.take(counted(bytes.len()))) {
            return None;
        }
        // SAFETY: all bytes are written below.
        let Some(mut copy) = (unsafe { Self::made(bytes.len(), alloc) }) else {
            memory.inspect(|m| m.give(counted(bytes.len())));
            return None;
        };
        copy.memory = memory.cloned();
        // SAFETY: the buffer was just made for as many bytes, and it has no other holder.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.as_ptr(), bytes.len()) };
        Some(copy)
    }

    /// A copy of the bytes, in the same memory.
    pub fn try_clone(&self) -> Option<Buffer> {
        Self::try_copied(self.bytes(), self.memory.as_ref())
    }

    /// A buffer of the same length in the same memory, with arbitrary contents.
    pub fn try_same_size(&self) -> Option<Buffer> {
        match &self.memory {
            Some(memory) => Self::try_any_in(self.len, memory),
            None => Self::try_zeroed(self.len),
        }
    }

    /// The layout of an allocation of `len` bytes; `None` if that is more than an address space
    /// has.
    fn layout(len: usize) -> Option<Layout> {
        match len >= HUGE_PAGE_THRESHOLD {
            false => Layout::from_size_align(len.max(1), ALIGNMENT).ok(),
            // With a larger alignment, zeroed memory would be written to: this way the system's
            // pages are taken as they come, and zeroed at first use.
            true => Layout::array::<u128>(len.checked_add(HUGE_PAGE)?.div_ceil(16)).ok(),
        }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// `true` if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The notes about the bytes; `None` for those of another process, which writes them once they
    /// have been returned.
    pub fn notes(&self) -> Option<&Notes> {
        match self.base {
            Backing::Heap(_) | Backing::Own(_) => Some(&self.notes),
            Backing::Foreign(_) => None,
        }
    }

    /// The first byte's address. Writing through it needs exclusive access to the buffer, as
    /// [`Buffer::get_mut`] gives it.
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `ptr` is valid for `len` initialised bytes for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// The bytes for writing; empty if they are immutable ([`Buffer::freeze`]), as another process's
    /// are.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if *self.frozen.get_mut() {
            return &mut [];
        }
        self.notes.forget();
        // SAFETY: as in `bytes`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// Asks for huge pages for the whole huge pages within a range.
fn on_huge_pages(ptr: NonNull<u8>, len: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: the range is the caller's own memory and begins on a page; the advice changes how the
    // system backs it and never its contents. Without huge pages it does nothing.
    unsafe {
        libc::madvise(
            ptr.as_ptr().cast(),
            len / HUGE_PAGE * HUGE_PAGE,
            libc::MADV_HUGEPAGE,
        );
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (ptr, len);
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            memory.give(counted(self.len));
        }
        match &mut self.base {
            Backing::Heap(base) => {
                if let Some(layout) = Self::layout(self.len) {
                    // SAFETY: allocated in `made` with this very layout.
                    unsafe { dealloc(base.as_ptr(), layout) }
                }
            }
            Backing::Own(segment) => {
                let segments = self.memory.as_ref().and_then(|m| m.segments.as_ref());
                if let (Some(segment), Some(segments)) = (segment.take(), segments) {
                    match *self.frozen.get_mut() {
                        true => segments.discard_in_use(segment),
                        false => segments.give(segment),
                    }
                }
            }
            Backing::Foreign(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_counts_bytes_in_use_and_enforces_its_limit() {
        let memory = Arc::new(Memory::new(Some(100 + 2 * BUFFER_OVERHEAD)));
        let a = Buffer::try_zeroed_in(60, &memory);
        assert_eq!((memory.used(), memory.buffers()), (counted(60), 1));
        assert!(Buffer::try_zeroed_in(41, &memory).is_none());
        assert!(a.as_ref().is_some_and(|a| a.try_clone().is_none()));
        let b = Buffer::try_zeroed_in(40, &memory);
        drop(a);
        assert_eq!((memory.used(), memory.buffers()), (counted(40), 1));
        drop(b);
        assert_eq!((memory.used(), memory.buffers()), (0, 0));
    }

    #[test]
    fn large_buffers_begin_on_a_huge_page_and_are_whole() {
        for len in [
            HUGE_PAGE_THRESHOLD - 1,
            HUGE_PAGE_THRESHOLD,
            HUGE_PAGE_THRESHOLD + 1,
            3 * HUGE_PAGE_THRESHOLD + 12_345,
        ] {
            let mut buffer = Buffer::try_zeroed(len).unwrap();
            let align = if len >= HUGE_PAGE_THRESHOLD {
                HUGE_PAGE
            } else {
                ALIGNMENT
            };
            assert!(buffer.as_ptr().addr().is_multiple_of(align), "{len}");
            assert!(buffer.bytes().iter().all(|&b| b == 0));
            buffer.bytes_mut().fill(7);
            let copy = buffer.try_clone().unwrap();
            drop(buffer);
            assert!(copy.len() == len && copy.bytes().iter().all(|&b| b == 7));
        }
        assert!(Buffer::try_zeroed(usize::MAX - 5).is_none());
        assert!(Buffer::try_zeroed(isize::MAX as usize - 5).is_none());
    }

    #[test]
    fn a_copy_has_the_bytes_and_counts_as_they_do() {
        let memory = Arc::new(Memory::new(Some(counted(10))));
        for bytes in [&b""[..], b"abc", b"0123456789"] {
            let copy = Buffer::try_copied(bytes, Some(&memory)).unwrap();
            assert_eq!((copy.bytes(), memory.used()), (bytes, counted(bytes.len())));
        }
        assert!(Buffer::try_copied(b"0123456789a", Some(&memory)).is_none());
        assert_eq!((memory.used(), memory.buffers()), (0, 0));
        assert_eq!(Buffer::try_copied(b"abc", None).unwrap().bytes(), b"abc");
    }
}
