//! Copies of a task's operands: its rows and columns of a block of the inner dimension, widened to the type of its
//! sums, in the order in which tiles read them.
//!
//! A block whose rows lie near each other is copied just before it is multiplied. A block whose rows are far apart is
//! copied during the multiplication of the block before it: one part after each tile. The tile prefetches the lines of
//! that part, or most of them. So they are used before many others are loaded, though all lines of the block may share a
//! few sets of each cache.

use std::ops::Range;

use bytemuck::Pod;

use super::Element;
use super::block::{Block, OperandSide, in_line};
use super::task::GemmTask;
use crate::Vectorize;
use crate::micro_kernel::{Ahead, Tiled};
use crate::scratch::part;
use crate::transpose::{Rows, transpose};

/// The memory layout of a block of an operand. A unit of it is copied at once: a part of a row, or, of a transposed
/// `B`, of as many rows as a tile has columns, for a cache line of each.
struct Units {
    /// Number of units.
    count: usize,
    /// Cache lines of one, and from one to the next, in elements.
    lines: usize,
    line: usize,
    /// Offset of the first in its operand, and distance to the next of the same panel.
    first: usize,
    step: usize,
}

impl<S: Tiled + Pod + Send + Sync> GemmTask<'_, S> {
    /// Returns the layout of a block of an operand.
    fn units<T: Element>(&self, side: OperandSide, block: Block<'_, T>) -> Units {
        let (p, in_line, Block { at, inner, .. }) = (self.p, in_line::<S>(), block);
        let rows = |count: usize, numbers: usize, first: usize, step: usize| Units {
            count,
            // Where rows do not begin with a line, they end in one more.
            lines: numbers.div_ceil(in_line)
                + usize::from(![first, step].iter().all(|at| at.is_multiple_of(in_line))),
            line: in_line,
            first,
            step,
        };
        match (side, p.transpose_a, p.transpose_b) {
            (OperandSide::A, false, _) => rows(self.rows, inner, self.row * p.k + at, p.k),
            (OperandSide::A, true, _) => rows(inner, self.rows, at * p.m + self.row, p.m),
            (OperandSide::B, _, false) => rows(inner, self.cols, at * p.n + self.col, p.n),
            (OperandSide::B, _, true) => {
                let width = self.plan.tiles.cols();
                Units {
                    count: self.cols.div_ceil(width) * inner.div_ceil(self.plan.turned),
                    lines: width.min(self.cols),
                    line: p.k,
                    first: self.col * p.k + at,
                    step: self.plan.turned,
                }
            }
        }
    }

    /// Returns the number of units of a block of an operand.
    pub(super) fn count<T: Element>(&self, side: OperandSide, block: Block<'_, T>) -> usize {
        self.units(side, block).count
    }

    /// Returns the offset of a unit in its operand, in a block of this length.
    fn place(&self, side: OperandSide, lie: &Units, inner: usize, unit: usize) -> usize {
        if side == OperandSide::B && self.p.transpose_b {
            let (panel, chunk) = self.chunk(inner, unit);
            return lie.first + panel * self.plan.tiles.cols() * self.p.k + chunk;
        }
        lie.first + unit * lie.step
    }

    /// Returns, for a unit of a transposed `B`, its panel and its start in the block's part of the inner dimension.
    fn chunk(&self, inner: usize, unit: usize) -> (usize, usize) {
        let chunks = inner.div_ceil(self.plan.turned);
        (unit / chunks, unit % chunks * self.plan.turned)
    }

    /// Returns the lines of a block that tile number `call` of so many prefetches: those of units of one operand. Of an
    /// `A` that is copied at once, none.
    pub(super) fn share<T: Element>(
        &self,
        block: Block<'_, T>,
        direct: bool,
        (call, calls): (usize, usize),
    ) -> (OperandSide, Range<usize>) {
        let [a, b] = [OperandSide::A, OperandSide::B].map(|side| self.units(side, block));
        let [of_a, of_b] = [
            if self.plan.meanwhile[OperandSide::A as usize] && !direct {
                a.count * a.lines
            } else {
                0
            },
            match self.plan.prepacked {
                true => 0,
                false => b.count * b.lines,
            },
        ];
        let for_a = calls * of_a / (of_a + of_b);
        let (side, (first, count)) = if call < for_a {
            (OperandSide::A, part(a.count, for_a, call))
        } else {
            (OperandSide::B, part(b.count, calls - for_a, call - for_a))
        };
        (side, first..first + count)
    }

    /// Returns the prefetch of a tile while it runs along `len` elements: the lines of these units.
    pub(super) fn ahead<T: Element<Sum = S>>(
        &self,
        block: Block<'_, T>,
        (side, units): &(OperandSide, Range<usize>),
        len: usize,
    ) -> Ahead<S> {
        let from = match side {
            OperandSide::A => block.a,
            OperandSide::B => block.b,
        };
        let (Some(from), false) = (T::as_sums(from), units.is_empty()) else {
            return Ahead::NONE;
        };
        let lie = self.units(*side, block);
        let first = self.place(*side, &lie, block.inner, units.start);
        Ahead {
            at: from.as_ptr().wrapping_add(first),
            step: lie.line,
            run: lie.lines,
            next: lie.step.wrapping_sub((lie.lines - 1) * lie.line),
            every: (len / (units.len() * lie.lines)).max(1),
        }
    }

    /// Copies a block of `B` into panels.
    pub(super) fn copy_b<T: Element<Sum = S>>(&self, block: Block<'_, T>, to: &mut [S]) {
        let all = self.count(OperandSide::B, block);
        self.copy(block, OperandSide::B, 0..all, to);
    }

    /// Copies units of a block to where a whole block of that operand has room.
    pub(super) fn copy<T: Element<Sum = S>>(
        &self,
        block: Block<'_, T>,
        side: OperandSide,
        units: Range<usize>,
        to: &mut [S],
    ) {
        let (inner, lie) = (block.inner, self.units(side, block));
        for unit in units {
            let start = self.place(side, &lie, inner, unit);
            match (side, self.p.transpose_b) {
                (OperandSide::A, _) => {
                    let len = if self.p.transpose_a { self.rows } else { inner };
                    let row = unit * self.plan.a_stride(self.p.transpose_a);
                    T::widen(&block.a[start..][..len], &mut to[row..][..len]);
                }
                (OperandSide::B, false) => {
                    self.copy_row(&block.b[start..][..self.cols], unit, inner, to);
                }
                (OperandSide::B, true) => self.copy_turned(block.b, start, unit, inner, to),
            }
        }
    }

    /// Copies row `i` of a block of `B` into panels, each `inner` rows of a tile's width.
    fn copy_row<T: Element<Sum = S>>(&self, row: &[T], i: usize, inner: usize, to: &mut [S]) {
        let width = self.plan.tiles.cols();
        let (panel, to) = (inner * width, &mut to[i * width..]);
        let whole = T::as_sums(row).map_or(0, |row| {
            let to = &mut *to;
            self.isa.run(Panels {
                row,
                width,
                to,
                panel,
            })
        });
        for (p, from) in row.chunks(width).enumerate().skip(whole) {
            let to = &mut to[p * panel..][..width];
            T::widen(from, &mut to[..from.len()]);
            to[from.len()..].fill(S::zeroed());
        }
    }

    /// Copies a unit of a transposed `B`, which begins at `start`, into its panel.
    fn copy_turned<T: Element<Sum = S>>(
        &self,
        b: &[T],
        start: usize,
        unit: usize,
        inner: usize,
        to: &mut [S],
    ) {
        let width = self.plan.tiles.cols();
        let (panel, first) = self.chunk(inner, unit);
        let len = self.plan.turned.min(inner - first);
        let cols = width.min(self.cols - panel * width);
        let to = &mut to[(panel * inner + first) * width..][..len * width];
        if cols < width {
            to.fill(S::zeroed());
        }
        let stride = self.p.k;
        if let Some(b) = T::as_sums(b) {
            let from = Rows { start, stride };
            let rows = Rows {
                start: 0,
                stride: width,
            };
            transpose(self.isa, (cols, len), (b, from), (to, rows));
            return;
        }
        for j in 0..cols {
            for (i, x) in b[start + j * stride..][..len].iter().enumerate() {
                T::widen(
                    std::slice::from_ref(x),
                    std::slice::from_mut(&mut to[i * width + j]),
                );
            }
        }
    }
}

/// A row of `B`, to be copied into panels.
struct Panels<'a, S> {
    row: &'a [S],
    width: usize,
    to: &'a mut [S],
    /// From a panel to the next.
    panel: usize,
}

impl<S: Pod> Vectorize for Panels<'_, S> {
    /// Number of whole panels that were copied.
    type Out = usize;

    #[inline(always)]
    fn run(self) -> usize {
        // With a width that is known here, a part's copy is a few vectors and no call.
        match self.width {
            4 => self.whole::<4>(),
            8 => self.whole::<8>(),
            16 => self.whole::<16>(),
            32 => self.whole::<32>(),
            _ => 0,
        }
    }
}

impl<S: Pod> Panels<'_, S> {
    #[inline(always)]
    fn whole<const W: usize>(self) -> usize {
        let parts = self.row.as_chunks::<W>().0;
        for (from, to) in parts.iter().zip(self.to.chunks_mut(self.panel)) {
            to[..W].copy_from_slice(from);
        }
        parts.len()
    }
}
