//! Outputs that several threads write in disjoint parts.
//!
//! ```
//! use thalweg_cpu::ThreadPool;
//! use thalweg_cpu::parallel::for_chunks;
//!
//! let pool = ThreadPool::new(2);
//! let mut rows = [0; 6];
//! // Rows of two, each written by one thread.
//! for_chunks(&pool, &mut rows, 2, &|row, elements| elements.fill(row));
//! assert_eq!(rows, [0, 0, 1, 1, 2, 2]);
//! ```

use std::marker::PhantomData;

use crate::thread_pool::ThreadPool;

/// Runs `body(i, part)` for each part of `data`, `chunk` elements long but for the last.
pub fn for_chunks<T: Send>(
    pool: &ThreadPool,
    data: &mut [T],
    chunk: usize,
    body: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    let (len, chunk) = (data.len(), chunk.max(1));
    let data = Disjoint::new(data);
    pool.parallel_for(len.div_ceil(chunk), &|i| {
        let start = i * chunk;
        // SAFETY: each index runs once, and the chunks do not overlap.
        body(i, unsafe { data.slice(start, chunk.min(len - start)) });
    });
}

/// A slice of which several threads write disjoint parts.
pub struct Disjoint<'a, T> {
    start: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: it hands out parts of a `&mut [T]`, which may go to other threads if `T` may; that the
// parts are disjoint is the promise made where they are asked for.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    /// Takes the slice to hand out parts of.
    pub fn new(data: &'a mut [T]) -> Self {
        Disjoint {
            start: data.as_mut_ptr(),
            len: data.len(),
            borrow: PhantomData,
        }
    }

    /// The part of `len` elements from `start`.
    ///
    /// # Safety
    /// While the part lives, no other part that overlaps it does.
    ///
    /// # Panics
    /// Where the part is not within the slice.
    #[allow(clippy::mut_from_ref, reason = "the caller promises disjoint parts")]
    pub unsafe fn slice(&self, start: usize, len: usize) -> &mut [T] {
        assert!(
            start <= self.len && len <= self.len - start,
            "part out of bounds"
        );
        // SAFETY: in bounds as just checked; not aliased by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }

    /// A pointer to element `at`, for writes that the caller keeps in bounds and disjoint.
    ///
    /// # Panics
    /// Where there is no such place in the slice.
    pub fn pointer(&self, at: usize) -> *mut T {
        assert!(at <= self.len, "part out of bounds");
        self.start.wrapping_add(at)
    }
}
