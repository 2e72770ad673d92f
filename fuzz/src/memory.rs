//! What an input may take of memory: a small multiple of its length.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, which counts what there is and the most that there was. A target that holds its
/// inputs to a limit declares one as its global allocator.
pub struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// Targets run on one thread: nothing is lost between a load and a store, which cost less than one step.
fn more(bytes: usize) {
    let used = USED.load(Relaxed) + bytes;
    USED.store(used, Relaxed);
    if used > MOST.load(Relaxed) {
        MOST.store(used, Relaxed);
    }
}

fn less(bytes: usize) {
    USED.store(USED.load(Relaxed).wrapping_sub(bytes), Relaxed);
}

// SAFETY: the system's allocator does the work, and gets what was asked for.
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
/// Bytes beside them: messages, tables that an allocator or a library makes once.
const BESIDE: usize = 64 << 10;

/// Runs what reads an input of so many bytes.
///
/// # Panics
/// Where it took more memory than its limit.
pub fn bounded(length: usize, run: impl FnOnce()) {
    let before = USED.load(Relaxed);
    MOST.store(before, Relaxed);
    run();
    let most = MOST.load(Relaxed).wrapping_sub(before);
    assert!(most <= PER_BYTE * length + BESIDE, "an input of {length} bytes took {most}");
}
