//! Strided copies: a box of elements is read from one tensor and written to another, with its own step along every
//! axis of either.

use bytemuck::{Pod, try_cast_slice, try_cast_slice_mut};
use smallvec::SmallVec;
use thalweg_cpu::parallel::Disjoint;
use thalweg_device::{Cpu, KernelError};

use super::elementwise::CHUNK;
use thalweg_cpu::transpose::{Rows, transpose_to};

/// Side of a block that is transposed at a time, in elements: a few cache lines.
const BLOCK_SIDE: usize = 64;

/// An axis of a box: its length, and its steps in the source and in the destination, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyAxis {
    pub(crate) len: usize,
    pub(crate) from: isize,
    pub(crate) to: isize,
}

/// A copy of a box of elements.
#[derive(Clone, Debug, Default)]
pub(crate) struct StridedCopy {
    /// Axes outside the inner loop, in descending order of the destination's steps.
    outer: SmallVec<[CopyAxis; 6]>,
    /// Axis of the inner loop: the one with the smallest step in the destination.
    inner: Option<CopyAxis>,
    /// The axis that is contiguous in the source, if it differs from `inner`, and `inner` is contiguous in the
    /// destination: blocks of both are transposed.
    across: Option<CopyAxis>,
    from: usize,
    to: usize,
    /// End of the elements that are read.
    from_end: usize,
    /// End of the elements that are written.
    to_end: usize,
    /// The same copy of groups of elements, where the inner loop copies one short group: a number that is as wide is copied faster.
    groups: Option<Box<StridedCopy>>,
}

impl StridedCopy {
    /// A copy from element `from` of the source to element `to` of the destination.
    ///
    /// # Errors
    /// [`KernelError::Argument`] if it writes an element twice or reaches below element 0.
    pub(crate) fn new(
        from: usize,
        to: usize,
        axes: &[CopyAxis],
    ) -> Result<StridedCopy, KernelError> {
        StridedCopy::build(from, to, axes).ok_or(KernelError::Argument("a box within its tensors"))
    }

    fn build(from: usize, to: usize, axes: &[CopyAxis]) -> Option<StridedCopy> {
        if axes.iter().any(|a| a.len == 0) {
            return Some(StridedCopy::default());
        }
        let mut from = isize::try_from(from).ok()?;
        let mut to = isize::try_from(to).ok()?;
        let mut sorted: SmallVec<[CopyAxis; 6]> = SmallVec::new();
        for &axis in axes.iter().filter(|a| a.len > 1) {
            if axis.to >= 0 {
                sorted.push(axis);
                continue;
            }
            // Reversed: starts from its other end.
            let last = isize::try_from(axis.len - 1).ok()?;
            from = from.checked_add(axis.from.checked_mul(last)?)?;
            to = to.checked_add(axis.to.checked_mul(last)?)?;
            sorted.push(CopyAxis {
                len: axis.len,
                from: axis.from.checked_neg()?,
                to: axis.to.checked_neg()?,
            });
        }
        sorted.sort_by_key(|d| std::cmp::Reverse(d.to));
        let mut outer: SmallVec<[CopyAxis; 6]> = SmallVec::new();
        for axis in sorted {
            let len = isize::try_from(axis.len).ok()?;
            let whole = (axis.from.checked_mul(len)?, axis.to.checked_mul(len)?);
            match outer.last_mut() {
                // The outer axis steps over exactly this one: both are merged.
                Some(last) if (last.from, last.to) == whole => {
                    *last = CopyAxis {
                        len: last.len.checked_mul(axis.len)?,
                        ..axis
                    }
                }
                _ => outer.push(axis),
            }
        }
        let (mut low, mut high, mut reach) = (from, from, 0isize);
        for axis in outer.iter().rev() {
            // No step may land within the range that the inner axes write.
            if axis.to <= reach {
                return None;
            }
            let last = isize::try_from(axis.len - 1).ok()?;
            reach = reach.checked_add(axis.to.checked_mul(last)?)?;
            let read = axis.from.checked_mul(last)?;
            low = low.checked_add(read.min(0))?;
            high = high.checked_add(read.max(0))?;
        }
        if low < 0 || to < 0 {
            return None;
        }
        let inner = outer.pop().unwrap_or(CopyAxis {
            len: 1,
            from: 1,
            to: 1,
        });
        let across = match inner.to == 1 && inner.from > 1 {
            true => outer.iter().position(|a| a.from == 1),
            false => None,
        };
        let mut copy = StridedCopy {
            across: across.map(|i| outer.remove(i)),
            inner: Some(inner),
            outer,
            from: from as usize,
            to: to as usize,
            from_end: usize::try_from(high.checked_add(1)?).ok()?,
            to_end: usize::try_from(to.checked_add(reach)?.checked_add(1)?).ok()?,
            groups: None,
        };
        copy.groups = copy.of_groups(inner).map(Box::new);
        Some(copy)
    }

    /// The same copy where the elements of the inner loop are one, if they are few and lie at multiples of their number.
    fn of_groups(&self, inner: CopyAxis) -> Option<StridedCopy> {
        let n = inner.len as isize;
        let is_group = matches!(n, 2 | 4 | 8 | 16) && (inner.from, inner.to) == (1, 1);
        let starts = self.from.is_multiple_of(inner.len) && self.to.is_multiple_of(inner.len);
        let steps = |a: &CopyAxis| a.from % n == 0 && a.to % n == 0;
        if !is_group || !starts || self.outer.is_empty() || !self.outer.iter().all(steps) {
            return None;
        }
        let axes = self.outer.iter().map(|a| CopyAxis {
            len: a.len,
            from: a.from / n,
            to: a.to / n,
        });
        let axes: SmallVec<[CopyAxis; 6]> = axes.collect();
        StridedCopy::build(self.from / inner.len, self.to / inner.len, &axes)
    }

    /// Copies the elements as groups, if they are aligned like a number of the group's size; returns `false` otherwise.
    fn run_groups<T: Pod + Send + Sync>(
        &self,
        cpu: &Cpu,
        from: &[T],
        to: &mut [T],
    ) -> Result<bool, KernelError> {
        fn of<T: Pod, U: Pod + Send + Sync>(
            groups: &StridedCopy,
            cpu: &Cpu,
            from: &[T],
            to: &mut [T],
        ) -> Result<bool, KernelError> {
            let (from, to) = (try_cast_slice::<T, U>(from), try_cast_slice_mut(to));
            match (from, to) {
                (Ok(from), Ok(to)) => groups.run(cpu, from, to).map(|()| true),
                _ => Ok(false),
            }
        }
        let (Some(groups), Some(inner)) = (&self.groups, self.inner) else {
            return Ok(false);
        };
        match inner.len * size_of::<T>() {
            2 => of::<T, u16>(groups, cpu, from, to),
            4 => of::<T, u32>(groups, cpu, from, to),
            8 => of::<T, u64>(groups, cpu, from, to),
            16 => of::<T, u128>(groups, cpu, from, to),
            _ => Ok(false),
        }
    }

    /// `true` if the box is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.inner.is_none()
    }

    /// The axes, in descending order of the destination's steps, and the first elements of the source and the
    /// destination.
    pub(crate) fn layout(&self) -> (SmallVec<[CopyAxis; 8]>, usize, usize) {
        let outer = self.outer.iter().copied();
        let axes = outer.chain(self.across).chain(self.inner).collect();
        (axes, self.from, self.to)
    }

    /// Lengths of the pieces of `inner` and `across`, which depend on the shape only.
    fn pieces(&self, inner: CopyAxis) -> (usize, usize) {
        match self.across {
            None => (inner.len.min(CHUNK), 1),
            Some(across) => {
                let wanted = (CHUNK / across.len).next_multiple_of(16).max(BLOCK_SIDE);
                let long = inner.len.min(wanted);
                (long, across.len.min((CHUNK / long).max(BLOCK_SIDE)))
            }
        }
    }

    /// Copies the elements.
    ///
    /// # Errors
    /// [`KernelError::Argument`] if the box exceeds the slices.
    pub(crate) fn run<T: Pod + Send + Sync>(
        &self,
        cpu: &Cpu,
        from: &[T],
        to: &mut [T],
    ) -> Result<(), KernelError> {
        let Some(inner) = self.inner else {
            return Ok(());
        };
        if self.from_end > from.len() || self.to_end > to.len() {
            return Err(KernelError::Argument("a box within its tensors"));
        }
        if self.run_groups(cpu, from, to)? {
            return Ok(());
        }
        let across = self.across.unwrap_or(CopyAxis {
            len: 1,
            from: 0,
            to: 0,
        });
        let (long, wide) = self.pieces(inner);
        let (longs, wides) = (inner.len.div_ceil(long), across.len.div_ceil(wide));
        let rows: usize = self.outer.iter().map(|a| a.len).product();
        let pieces = longs * wides;
        let (units, each) = (rows * pieces, (CHUNK / (long * wide)).max(1));
        let to = Disjoint::new(to);
        cpu.pool().parallel_for(units.div_ceil(each), &|task| {
            let first = task * each;
            let mut row = RowStart::new(&self.outer, first / pieces);
            let mut piece = first % pieces;
            for _ in first..units.min(first + each) {
                let (i, j) = (piece / wides * long, piece % wides * wide);
                let read = self.from as isize
                    + row.from
                    + i as isize * inner.from
                    + j as isize * across.from;
                let write =
                    self.to as isize + row.to + i as isize * inner.to + j as isize * across.to;
                let part = CopyAxis {
                    len: long.min(inner.len - i),
                    ..inner
                };
                let columns = wide.min(across.len - j);
                // SAFETY: the whole box was checked to lie within both slices, this is a part of it, and no two parts
                // of it write the same element (checked in `build`).
                unsafe {
                    let to = to.pointer(write as usize);
                    if self.across.is_some() {
                        let rows = Rows {
                            start: read as usize,
                            stride: inner.from as usize,
                        };
                        let stride = across.to as usize;
                        transpose_to(cpu.isa(), (part.len, columns), (from, rows), to, stride);
                    } else {
                        move_row(from.as_ptr().offset(read), to, part);
                    }
                }
                piece += 1;
                if piece == pieces {
                    piece = 0;
                    row.advance(&self.outer);
                }
            }
        });
        Ok(())
    }
}

/// Begin of a row of the inner loop, relative to the begin of the box.
struct RowStart {
    index: SmallVec<[usize; 8]>,
    from: isize,
    to: isize,
}

impl RowStart {
    fn new(outer: &[CopyAxis], mut row: usize) -> RowStart {
        let mut start = RowStart {
            index: SmallVec::from_elem(0, outer.len()),
            from: 0,
            to: 0,
        };
        for (axis, index) in outer.iter().zip(&mut start.index).rev() {
            *index = row % axis.len;
            row /= axis.len;
            start.from += *index as isize * axis.from;
            start.to += *index as isize * axis.to;
        }
        start
    }

    fn advance(&mut self, outer: &[CopyAxis]) {
        for (axis, index) in outer.iter().zip(&mut self.index).rev() {
            *index += 1;
            self.from += axis.from;
            self.to += axis.to;
            if *index < axis.len {
                return;
            }
            *index = 0;
            self.from -= axis.len as isize * axis.from;
            self.to -= axis.len as isize * axis.to;
        }
    }
}

/// # Safety
/// `from` and `to` must be valid along `axis`, and must not overlap.
unsafe fn move_row<T: Copy>(from: *const T, to: *mut T, axis: CopyAxis) {
    // SAFETY: by the caller's promise.
    unsafe {
        match (axis.from, axis.to) {
            (1, 1) => std::ptr::copy_nonoverlapping(from, to, axis.len),
            (0, 1) => std::slice::from_raw_parts_mut(to, axis.len).fill(*from),
            (step, 1) => {
                for i in 0..axis.len as isize {
                    *to.offset(i) = *from.offset(i * step);
                }
            }
            (read, write) => {
                for i in 0..axis.len as isize {
                    *to.offset(i * write) = *from.offset(i * read);
                }
            }
        }
    }
}

/// Step of each axis of a row-major tensor.
pub(crate) fn steps(dims: &[usize]) -> SmallVec<[isize; 6]> {
    let mut steps = SmallVec::from_elem(0, dims.len());
    let mut step = 1isize;
    for (own, &len) in steps.iter_mut().zip(dims).rev() {
        *own = step;
        step = step.saturating_mul(isize::try_from(len).unwrap_or(isize::MAX));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slices `k` along the middle axis of `[5, 7, n]`, copied one element at a time and by a `StridedCopy`.
    fn slices_match<T: Pod + Send + Sync + PartialEq + std::fmt::Debug>(
        n: usize,
        of: fn(usize) -> T,
    ) {
        let x: Vec<T> = (0..5 * 7 * n).map(of).collect();
        for k in 0..7 {
            let axis = |len, from, to| CopyAxis { len, from, to };
            let (step, row) = (n as isize, 7 * n as isize);
            let axes = [axis(5, row, step), axis(n, 1, 1)];
            let copy = StridedCopy::new(k * n, 0, &axes).unwrap();
            assert_eq!(copy.groups.is_some(), [2, 4, 8, 16].contains(&n), "{n}");
            let mut out = vec![of(0); 5 * n];
            copy.run(&Cpu::new(1), &x, &mut out).unwrap();
            let expected = (0..5).flat_map(|i| x[(i * 7 + k) * n..][..n].to_vec());
            assert_eq!(out, expected.collect::<Vec<T>>(), "slice {k} of {n}");
        }
    }

    #[test]
    fn short_groups_of_elements_of_any_size_are_copied() {
        for n in [1, 2, 3, 4, 6, 8, 16, 32] {
            slices_match::<u8>(n, |i| i as u8);
            slices_match::<u16>(n, |i| i as u16);
            slices_match::<u32>(n, |i| i as u32);
            slices_match::<u64>(n, |i| i as u64);
        }
    }

    #[test]
    fn a_group_that_is_not_aligned_is_copied_by_elements() {
        let axes = [(3, 4, 2), (2, 1, 1)].map(|(len, from, to)| CopyAxis { len, from, to });
        let copy = StridedCopy::new(0, 0, &axes).unwrap();
        let words: [u16; 8] =
            std::array::from_fn(|i| u16::from_ne_bytes([2 * i as u8, 2 * i as u8 + 1]));
        let x: &[u8] = bytemuck::cast_slice(&words);
        // Begin and length of the source: both even, then an odd one each.
        for (begin, len, grouped) in [(0, 12, true), (1, 12, false), (0, 11, false)] {
            let part = &x[begin..begin + len];
            let mut to = [0u16; 3];
            let out: &mut [u8] = bytemuck::cast_slice_mut(&mut to);
            assert_eq!(copy.run_groups(&Cpu::new(1), part, out).unwrap(), grouped);
            copy.run(&Cpu::new(1), part, out).unwrap();
            let b = begin as u8;
            assert_eq!(out, [b, b + 1, b + 4, b + 5, b + 8, b + 9]);
        }
    }
}
