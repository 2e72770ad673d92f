//! A limit on the memory of an input: a small multiple of its length.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator with counters of current and peak bytes. A target with a memory limit declares one as its
/// global allocator.
pub struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// Targets run on one thread: nothing is lost between a load and a store, which are cheaper than one atomic addition.
fn more(bytes: usize) {
    let used = USED.load(Relaxed) + bytes;
    USED.store(used, Relaxed);
    if used > PEAK.load(Relaxed) {
        PEAK.store(used, Relaxed);
    }
}

fn less(bytes: usize) {
    USED.store(USED.load(Relaxed).wrapping_sub(bytes), Relaxed);
}

// SAFETY: every call is forwarded to the system's allocator with its arguments unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: as the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        less(layout.size());
        // SAFETY: as the caller's.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        less(layout.size());
        more(size);
        // SAFETY: as the caller's.
        unsafe { System.realloc(place, layout, size) }
    }
}

/// Bytes for each byte of an input.
const PER_BYTE: usize = 600;
/// Bytes beyond that: messages, tables that an allocator or a library makes once.
const FIXED_BYTES: usize = 64 << 10;

/// Runs the reader of an input of `length` bytes.
///
/// # Panics
/// If the peak of memory is above the limit.
pub fn bounded(length: usize, run: impl FnOnce()) {
    let before = USED.load(Relaxed);
    PEAK.store(before, Relaxed);
    run();
    let most = PEAK.load(Relaxed).wrapping_sub(before);
    assert!(most <= PER_BYTE * length + FIXED_BYTES, "an input of {length} bytes took {most}");
}
