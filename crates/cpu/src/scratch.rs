//! Splitting work and memory over threads: scratch, lanes, and outputs written in disjoint parts.
//!
//! ```
//! use thalweg_cpu::Scratch;
//!
//! // The size of a kernel's scratch is known before it runs; it then takes it part by part.
//! let mut bytes = vec![0; Scratch::bytes::<f32>(3) + Scratch::bytes::<u64>(2)];
//! let mut scratch = Scratch::new(&mut bytes);
//! let sums = scratch.take::<f32>(3);
//! let counts = scratch.take::<u64>(2);
//! sums.fill(0.5);
//! counts.fill(1);
//! assert_eq!((sums.len(), counts.len()), (3, 2));
//! ```

pub(super) use crate::parallel::{Disjoint, for_chunks};
use crate::shares::Shares;
use crate::thread_pool::ThreadPool;
use bytemuck::Pod;

/// Alignment of the parts of [`Scratch::take`], in bytes: a cache line, and the widest vector.
pub const ALIGN: usize = 64;

/// Memory that a kernel may use while it runs, handed out from the front.
pub struct Scratch<'a>(&'a mut [u8]);

impl<'a> Scratch<'a> {
    /// Hands out parts of `bytes`, whose content does not matter.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Scratch(bytes)
    }

    /// Returns the number of bytes that `take::<T>(len)` may need, wherever the scratch begins.
    pub const fn bytes<T>(len: usize) -> usize {
        len * size_of::<T>() + ALIGN
    }

    /// The next `len` elements, aligned to a cache line, with arbitrary content.
    ///
    /// # Panics
    /// If the scratch is smaller than the kernel said it needs.
    pub fn take<T: Pod>(&mut self, len: usize) -> &'a mut [T] {
        let bytes = std::mem::take(&mut self.0);
        let (_, bytes) = bytes.split_at_mut(bytes.as_ptr().align_offset(ALIGN).min(bytes.len()));
        assert!(
            len * size_of::<T>() <= bytes.len(),
            "scratch is smaller than the kernel asked for"
        );
        let (taken, rest) = bytes.split_at_mut(len * size_of::<T>());
        self.0 = rest;
        bytemuck::cast_slice_mut(taken)
    }

    /// Returns the rest.
    pub fn rest(self) -> &'a mut [u8] {
        self.0
    }
}

/// The bytes that [`for_lanes`] needs for `tasks` tasks of `per_lane` bytes on `threads` threads.
pub fn lanes_scratch(tasks: usize, threads: usize, per_lane: usize) -> usize {
    per_lane.next_multiple_of(ALIGN) * tasks.min(threads)
}

/// Runs `body(task, scratch)` once for each task; no two that run at the same time share scratch. Each gets at least
/// `per_lane` bytes, with the content that the task before it left there.
pub fn for_lanes(
    pool: &ThreadPool,
    tasks: usize,
    scratch: &mut [u8],
    per_lane: usize,
    body: &(dyn Fn(usize, &mut [u8]) + Sync),
) {
    let per_lane = per_lane.next_multiple_of(ALIGN);
    let room = scratch.len().checked_div(per_lane).unwrap_or(usize::MAX);
    let lanes = tasks.min(pool.threads()).min(room);
    if lanes <= 1 {
        (0..tasks).for_each(|task| body(task, scratch));
        return;
    }
    let scratch = Disjoint::new(scratch);
    let shares = Shares::default();
    shares.reset(tasks, lanes);
    pool.parallel_for(lanes, &|lane| {
        // SAFETY: each lane runs once, and their ranges do not overlap.
        let mine = unsafe { scratch.slice(lane * per_lane, per_lane) };
        shares.draw(tasks, lanes, lane, |task| body(task, mine));
    });
}

/// Part `i` of `0..len` split into `parts` parts whose lengths differ by at most one: its start and its length.
pub(super) fn part(len: usize, parts: usize, i: usize) -> (usize, usize) {
    let (each, more) = (len / parts, len % parts);
    (i * each + i.min(more), each + usize::from(i < more))
}
