//! Tasks of products. A task runs along the inner dimension in blocks that fit the first-level cache, copies its part of
//! each operand into scratch (`copy`), unless it reads `A` where it lies, and adds block after block to its part of `C`,
//! always in the same order.

use bytemuck::Pod;

use super::copy::{Block, in_line};
use super::cuts::Results;
use super::packed::{Next, Packed, Side};
use super::{Element, Many, Product};
use crate::Epilogue;
use crate::Isa;
use crate::scratch::{Disjoint, Scratch, part};
use crate::tile::{Ahead, Tile, Tiled, Tiles};

/// The longest block of the inner dimension: with it, a panel of `B` and a tile's rows of `A` fit the first-level cache,
/// or nearly.
const INNER: usize = 256;
/// The most columns of a task that reads its rows of `A` where they lie: with more, a copy pays.
const DIRECT: usize = 128;
/// Bytes that are a multiple of this apart are in the same set of the first-level cache.
const SETS: usize = 4096;
/// Bytes of a page of memory, at whose end the processor's own fetching ends.
const PAGE: usize = 4096;

/// How products are cut up. What is summed, and in which order, depends on the shape and the tiles alone; into how
/// many tasks, on the threads too.
#[derive(Clone, Copy)]
pub(super) struct Plan<T: 'static> {
    pub tiles: Tiles<T>,
    many: Many,
    row_tasks: usize,
    col_tasks: usize,
    task_rows: usize,
    /// In panels.
    task_panels: usize,
    panels: usize,
    /// Of each product that is summed.
    blocks: usize,
    inner: usize,
    /// By operand: whether a block is copied while the one before it is multiplied. It is where rows are so far apart that
    /// the processor does not fetch the next of them by itself, and that those of a block may share a few sets of each
    /// cache; what is copied at once otherwise takes less room.
    pub meanwhile: [bool; 2],
    /// Numbers of each row of a transposed `B` that are copied at once: a cache line, or, if they are widened, all of a
    /// block.
    pub turned: usize,
}

impl<S: Tiled> Plan<S> {
    pub(super) fn of<T: Element<Sum = S>>(
        isa: Isa,
        threads: usize,
        p: &Product,
        many: Many,
    ) -> Self {
        let (tiles, widened) = (S::tiles(isa), T::as_sums(&[]).is_none());
        let panels = p.n.div_ceil(tiles.cols());
        let results = Results {
            number: many.results().0,
            m: p.m,
            panels,
        };
        let (row_tasks, col_tasks) = results.cuts(&tiles, threads);
        let blocks = p.k.div_ceil(INNER);
        let rows = [
            if p.transpose_a { p.m } else { p.k },
            if p.transpose_b { p.k } else { p.n },
        ];
        let several = blocks * many.results().1 > 1;
        Plan {
            tiles,
            many,
            row_tasks,
            col_tasks,
            task_rows: p.m.div_ceil(row_tasks),
            task_panels: panels.div_ceil(col_tasks),
            panels,
            blocks,
            inner: p.k.div_ceil(blocks.max(1)),
            meanwhile: rows.map(|row| several && !widened && row * size_of::<S>() >= PAGE),
            turned: if widened { INNER } else { in_line::<S>() },
        }
    }

    pub(super) fn tasks(&self) -> usize {
        self.many.results().0 * self.row_tasks * self.col_tasks
    }

    /// From a row of packed `A` to the next: not a power of two, which would put all rows into the same cache sets.
    pub(super) fn a_stride(&self, transposed: bool) -> usize {
        (if transposed {
            self.task_rows
        } else {
            self.inner
        })
        .next_multiple_of(16)
            + 16
    }

    fn packed(&self, transpose_a: bool) -> [usize; 4] {
        let a_rows = if transpose_a {
            self.inner
        } else {
            self.task_rows
        };
        [
            a_rows * self.a_stride(transpose_a),
            self.inner * self.task_panels * self.tiles.cols(),
            // For types whose sums are wider, the task's part of `C`.
            self.task_rows * self.task_panels * self.tiles.cols(),
            // Its biases, in whole panels.
            self.task_panels * self.tiles.cols(),
        ]
    }

    pub(super) fn lane(&self, transpose_a: bool) -> usize {
        let [a, b, c, bias] = self.packed(transpose_a);
        let next = self.lens_of_next([a, b]);
        let all = [a, b, c, bias, next[0], next[1]];
        all.map(Scratch::bytes::<S>).iter().sum()
    }

    /// Room for the operands of the next block, of those that are copied meanwhile.
    fn lens_of_next(&self, lens: [usize; 2]) -> [usize; 2] {
        [0, 1].map(|side| if self.meanwhile[side] { lens[side] } else { 0 })
    }
}

/// One task: its rows and columns of `C`.
pub(super) struct Task<'a, T: 'static> {
    pub isa: Isa,
    pub p: &'a Product,
    pub plan: &'a Plan<T>,
    /// Which of the matrices `C`.
    result: usize,
    pub row: usize,
    pub rows: usize,
    pub col: usize,
    pub cols: usize,
}

/// What tile number `call` of so many that read the same rows of `A`, which lie one after the other, brings near of the
/// rows after them while it runs along `len` elements.
fn rows_ahead<S>(
    next: &[S],
    numbers: usize,
    len: usize,
    (call, calls): (usize, usize),
) -> Ahead<S> {
    let in_line = in_line::<S>();
    let (first, count) = part(numbers.div_ceil(in_line), calls, call);
    Ahead::lines(
        next.as_ptr().wrapping_add(first * in_line),
        in_line,
        (len / count.max(1)).max(1),
    )
}

impl<'a, S: Tiled + Pod + Send + Sync> Task<'a, S> {
    pub(super) fn new(isa: Isa, p: &'a Product, plan: &'a Plan<S>, task: usize) -> Self {
        let each = plan.row_tasks * plan.col_tasks;
        let (result, task) = (task / each, task % each);
        // Neighbours in time share their columns of `B`, the operand that is read from farther away.
        let (row, rows) = part(p.m, plan.row_tasks, task % plan.row_tasks);
        let (panel, panels) = part(plan.panels, plan.col_tasks, task / plan.row_tasks);
        let col = panel * plan.tiles.cols();
        let cols = (panels * plan.tiles.cols()).min(p.n - col);
        Task {
            isa,
            p,
            plan,
            result,
            row,
            rows,
            col,
            cols,
        }
    }

    /// Where block `i` lies: its operands, and its part of the inner dimension.
    fn block<'m, T>(&self, [a, b]: [&'m [T]; 2], i: usize) -> Option<Block<'m, T>> {
        let Plan { many, blocks, .. } = *self.plan;
        let (summed, block) = (i / blocks, i % blocks);
        if summed >= many.results().1 {
            return None;
        }
        let (at, inner) = part(self.p.k, blocks, block);
        let product = self.result + summed;
        Some(Block {
            a: &a[product * many.steps[0]..],
            b: &b[product * many.steps[1]..],
            at,
            inner,
        })
    }

    pub(super) fn run<T: Element<Sum = S>>(
        &self,
        operands: [&[T]; 2],
        epilogue: Epilogue<'_, S>,
        c: &Disjoint<'_, T>,
        scratch: &mut [u8],
    ) {
        let Plan { tiles, .. } = *self.plan;
        let mut scratch = Scratch::new(scratch);
        let [a_len, b_len, c_len, bias_len] = self.plan.packed(self.p.transpose_a);
        let lens = [a_len, b_len];
        let mut packed = Packed {
            now: lens.map(|len| scratch.take(len)),
            next: Next {
                to: self.plan.lens_of_next(lens).map(|len| scratch.take(len)),
                copied: [0; 2],
            },
        };
        let own = T::as_sums(&[]).is_some();
        let sums = scratch.take::<S>(if own { 0 } else { c_len });
        let epilogue = epilogue
            .channels(self.col..self.col + self.cols)
            .padded(scratch.take(bias_len));
        let a_stride = self.plan.a_stride(self.p.transpose_a);
        let direct = self.reads_a_directly::<T>();
        let (row_tiles, panels) = (
            self.rows.div_ceil(tiles.rows()),
            self.cols.div_ceil(tiles.cols()),
        );
        let start = self.result * self.plan.many.steps[2] + self.row * self.p.n + self.col;
        let mut next = self.block(operands, 0);
        for number in 1.. {
            let Some(block) = next else { break };
            next = self.block(operands, number);
            let inner = block.inner;
            packed.turn(self, block, direct);
            let from_a = match T::as_sums(block.a).filter(|_| direct) {
                Some(a) => &a[self.row * self.p.k + block.at..],
                None => &*packed.now[Side::A as usize],
            };
            for tile in 0..row_tiles {
                let (row, rows) = part(self.rows, row_tiles, tile);
                for panel in 0..panels {
                    let col = panel * tiles.cols();
                    let (c, c_row) = if own {
                        (
                            c.pointer(start + row * self.p.n + col).cast::<S>(),
                            self.p.n,
                        )
                    } else {
                        (sums[row * self.cols + col..].as_mut_ptr(), self.cols)
                    };
                    let (a_row, a_col) = match (self.p.transpose_a, direct) {
                        (true, _) => (1, a_stride),
                        (false, true) => (self.p.k, 1),
                        (false, false) => (a_stride, 1),
                    };
                    let call = (tile * panels + panel, row_tiles * panels);
                    let asked = next.map(|next| (next, self.share(next, direct, call)));
                    let tile = Tile {
                        a: from_a[row * a_row..].as_ptr(),
                        offsets: &[0],
                        len: inner,
                        a_row,
                        a_col,
                        b: packed.now[Side::B as usize][col * inner..].as_ptr(),
                        b_row: tiles.cols(),
                        c,
                        c_row,
                        cols: tiles.cols().min(self.cols - col),
                        add: number > 1,
                        epilogue: match next {
                            Some(_) => Epilogue::NONE,
                            None => epilogue.channels(col..),
                        },
                        ahead: match &asked {
                            Some((next, share)) => self.ahead(*next, share, inner),
                            None if direct && inner == self.p.k => {
                                let next = &from_a[(row + rows) * a_row..];
                                rows_ahead(next, rows * inner, inner, (panel, panels))
                            }
                            None => Ahead::NONE,
                        },
                    };
                    // SAFETY: the packed operands hold `inner` whole rows, the biases whole panels, and `A`, where it is read directly, these rows
                    // of `k` numbers; `c` points to this task's part, in bounds by the lengths that `gemm_many` checked,
                    // and of type `S` because `T` is `S` when `own`.
                    unsafe { tiles.run(rows, &tile) };
                    if let Some((next, share)) = asked {
                        packed.next.add(self, next, share);
                    }
                }
            }
        }
        if !own {
            for (i, row) in sums.chunks_exact(self.cols).take(self.rows).enumerate() {
                // SAFETY: rows of this task's part of `C`.
                T::narrow(row, unsafe { c.slice(start + i * self.p.n, self.cols) });
            }
        }
    }

    /// Whether the rows of `A` are read where they lie: there are few columns to multiply a copy with, and a tile's rows
    /// are not all in the same sets of the cache.
    fn reads_a_directly<T: Element<Sum = S>>(&self) -> bool {
        let own = T::as_sums(&[]).is_some();
        let apart = !(self.p.k * size_of::<S>()).is_multiple_of(SETS);
        own && apart && !self.p.transpose_a && self.cols <= DIRECT
    }
}
