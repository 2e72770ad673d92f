//! Lines of a depthwise convolution, and of its filter's gradient, where the channels come last, one filter for each.

use super::axis::{Taps, Through};
use crate::Epilogue;
use crate::vector::{Vector, VectorCode, Vectored};

/// A line of pixels, each the sum of the other image's pixels that it meets, times their taps.
pub(super) struct Line<'a, T> {
    pub(super) channels: usize,
    /// The other image, and the pixels of its lines.
    pub(super) from: &'a [T],
    pub(super) width: usize,
    /// The filter: lines of `k_w` taps.
    pub(super) filter: &'a [T],
    pub(super) k_w: usize,
    /// The taps of the line, and those of each pixel.
    pub(super) rows: Taps,
    pub(super) columns: &'a [Taps],
    pub(super) epilogue: Epilogue<'a, T>,
}

/// A line, and the memory that it is written to.
pub(super) struct WriteLine<'a, T>(pub(super) Line<'a, T>, pub(super) &'a mut [T]);

impl<T: Vectored> VectorCode<T> for WriteLine<'_, T> {
    #[inline(always)]
    unsafe fn run<V: Vector<Elem = T>>(self) {
        let WriteLine(line, to) = self;
        for (x, to) in to.chunks_exact_mut(line.channels).enumerate() {
            // SAFETY: by the caller's promise.
            unsafe { by_vectors::<V, _>(line.channels, WritePixel(&line, x, to)) };
        }
        // SAFETY: by the caller's promise.
        unsafe { line.epilogue.end::<V>(to) };
    }
}

/// Code for some vectors of channels.
trait ChannelCode {
    type Elem;

    /// Runs it for `N` vectors from channel `first` on. The last one has `count` channels, which are all of its lanes if
    /// `WHOLE`.
    ///
    /// # Safety
    /// As [`Vector`]; `0 < count <= V::LANES`.
    unsafe fn run<V: Vector<Elem = Self::Elem>, const N: usize, const WHOLE: bool>(
        &mut self,
        first: usize,
        count: usize,
    );
}

/// Runs code for all channels, as many vectors at a time as there are, up to four.
///
/// # Safety
/// As [`Vector`].
#[inline(always)]
unsafe fn by_vectors<V: Vector, C: ChannelCode<Elem = V::Elem>>(channels: usize, mut code: C) {
    let mut first = 0;
    // SAFETY: by the caller's promise; the last count is below the lanes of a vector.
    unsafe {
        while channels - first >= 4 * V::LANES {
            code.run::<V, 4, true>(first, V::LANES);
            first += 4 * V::LANES;
        }
        if channels - first >= 2 * V::LANES {
            code.run::<V, 2, true>(first, V::LANES);
            first += 2 * V::LANES;
        }
        if channels - first >= V::LANES {
            code.run::<V, 1, true>(first, V::LANES);
            first += V::LANES;
        }
        if first < channels {
            code.run::<V, 1, false>(first, channels - first);
        }
    }
}

/// Vector `v` of a slice of channels.
///
/// # Safety
/// As [`Vector`]. The slice has all lanes of the vector if `WHOLE`, and otherwise `count` of them, `0 < count <= V::LANES`.
#[inline(always)]
unsafe fn load<V: Vector, const WHOLE: bool>(from: &[V::Elem], v: usize, count: usize) -> V {
    debug_assert!(from.len() >= v * V::LANES + if WHOLE { V::LANES } else { count });
    // SAFETY: by the caller's promise.
    unsafe {
        let from = from.as_ptr().add(v * V::LANES);
        match WHOLE {
            true => V::load(from),
            false => V::load_first(from, count),
        }
    }
}

/// As [`load`], for a vector that is written.
///
/// # Safety
/// As [`load`].
#[inline(always)]
unsafe fn store<V: Vector, const WHOLE: bool>(y: V, to: &mut [V::Elem], v: usize, count: usize) {
    debug_assert!(to.len() >= v * V::LANES + if WHOLE { V::LANES } else { count });
    // SAFETY: by the caller's promise.
    unsafe {
        let to = to.as_mut_ptr().add(v * V::LANES);
        match WHOLE {
            true => y.store(to),
            false => y.store_first(to, count),
        }
    }
}

/// Adds the products of two slices of channels to sums, vector by vector.
///
/// # Safety
/// As [`load`], for `N` vectors of which the last has `count` lanes.
#[inline(always)]
unsafe fn add_products<V: Vector, const N: usize, const WHOLE: bool>(
    sums: &mut [V; N],
    [a, b]: [&[V::Elem]; 2],
    count: usize,
) {
    // A loop without an iterator, whose body may become a function without the instructions.
    let mut v = 0;
    while v < N {
        // SAFETY: by the caller's promise.
        unsafe {
            let factor = load::<V, WHOLE>(b, v, count);
            sums[v] = load::<V, WHOLE>(a, v, count).mul_add(factor, sums[v]);
        }
        v += 1;
    }
}

/// Writes pixel `x` of a line.
struct WritePixel<'a, T>(&'a Line<'a, T>, usize, &'a mut [T]);

impl<T: Vectored> ChannelCode for WritePixel<'_, T> {
    type Elem = T;

    #[inline(always)]
    unsafe fn run<V: Vector<Elem = T>, const N: usize, const WHOLE: bool>(
        &mut self,
        first: usize,
        count: usize,
    ) {
        let WritePixel(line, x, to) = self;
        let (rows, columns) = (line.rows, line.columns[*x]);
        let len = (N - 1) * V::LANES + count;
        // SAFETY: by the caller's promise; the slices have `len` elements, which are `N` vectors of which the last has `count`.
        unsafe {
            let mut sums = [V::zero(); N];
            let mut i = 0;
            while i < rows.count {
                let (tap_y, y) = rows.get(i);
                let mut j = 0;
                while j < columns.count {
                    let (tap_x, x) = columns.get(j);
                    let at = (y * line.width + x) * line.channels + first;
                    let tap = (tap_y * line.k_w + tap_x) * line.channels + first;
                    let pair = [&line.from[at..at + len], &line.filter[tap..tap + len]];
                    add_products::<V, N, WHOLE>(&mut sums, pair, count);
                    j += 1;
                }
                i += 1;
            }
            let to = &mut to[first..first + len];
            let mut v = 0;
            while v < N {
                let y = line.epilogue.begin(first + v * V::LANES, count, sums[v]);
                store::<V, WHOLE>(y, to, v, count);
                v += 1;
            }
        }
    }
}

/// Products of a line of pixels and a line of the output's gradients, for each tap of a line of the filter.
pub(super) struct LineProducts<'a, T> {
    pub(super) channels: usize,
    pub(super) x: &'a [T],
    pub(super) dy: &'a [T],
    /// The columns that each tap sees, and the pixels from one to the next.
    pub(super) columns: &'a [Through],
    pub(super) step: usize,
}

/// Products, and the gradients of a line of taps that they are added to.
pub(super) struct AddProducts<'a, T>(pub(super) LineProducts<'a, T>, pub(super) &'a mut [T]);

impl<T: Vectored> VectorCode<T> for AddProducts<'_, T> {
    #[inline(always)]
    unsafe fn run<V: Vector<Elem = T>>(self) {
        let AddProducts(line, sums) = self;
        for (tap, sums) in sums.chunks_exact_mut(line.channels).enumerate() {
            // SAFETY: by the caller's promise.
            unsafe { by_vectors::<V, _>(line.channels, AddTap(&line, line.columns[tap], sums)) };
        }
    }
}

/// Adds the products of a tap to its gradients.
struct AddTap<'a, T>(&'a LineProducts<'a, T>, Through, &'a mut [T]);

impl<T: Vectored> ChannelCode for AddTap<'_, T> {
    type Elem = T;

    #[inline(always)]
    unsafe fn run<V: Vector<Elem = T>, const N: usize, const WHOLE: bool>(
        &mut self,
        first: usize,
        count: usize,
    ) {
        let AddTap(line, seen, sums) = self;
        let len = (N - 1) * V::LANES + count;
        let own = &mut sums[first..first + len];
        // SAFETY: by the caller's promise; the slices have `len` elements, which are `N` vectors of which the last has `count`.
        unsafe {
            let mut sums = [V::zero(); N];
            let mut k = 0;
            while k < seen.end - seen.first {
                let x = (seen.pixel + k * line.step) * line.channels + first;
                let dy = (seen.first + k) * line.channels + first;
                let pair = [&line.x[x..x + len], &line.dy[dy..dy + len]];
                add_products::<V, N, WHOLE>(&mut sums, pair, count);
                k += 1;
            }
            let mut v = 0;
            while v < N {
                let sum = load::<V, WHOLE>(own, v, count).add(sums[v]);
                store::<V, WHOLE>(sum, own, v, count);
                v += 1;
            }
        }
    }
}
