//! Tasks of products. A task runs along the inner dimension in blocks that fit the first-level cache, copies its part of
//! each operand into scratch, widened to the type of its sums and in the order in which tiles read it, unless it reads
//! `A` where it lies, and adds block after block to its part of `C`, always in the same order.

use bytemuck::Pod;

use super::{Element, Many, Product};
use crate::cpu::Epilogue;
use crate::cpu::par::{Disjoint, Scratch, part};
use crate::cpu::tile::{Ahead, Finish, Tile, Tiled, Tiles};
use crate::cpu::transpose::{Rows, transpose};
use thalweg_device::Isa;

/// The longest block of the inner dimension: with it, a panel of `B` and a tile's rows of `A` fit the first-level cache,
/// or nearly.
const INNER: usize = 256;
/// The most columns of a task that reads its rows of `A` where they lie: with more, a copy pays.
const DIRECT: usize = 128;
/// Bytes that are a multiple of this apart are in the same set of the first-level cache.
const SETS: usize = 4096;
/// Bytes of a cache line.
const LINE: usize = 64;
/// The most rows and columns of `C` in a task of `f32`: what it has packed fits the second-level cache.
const TASK_ROWS: usize = 256;
const TASK_COLS: usize = 256;
/// Tasks for each thread, at least, where the product is large enough.
const EACH: usize = 4;

/// How products are cut up. What is summed, and in which order, depends on the shape and the tiles alone; into how
/// many tasks, on the threads too.
#[derive(Clone, Copy)]
pub(super) struct Plan<T: 'static> {
    tiles: Tiles<T>,
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
}

impl<T> Plan<T> {
    pub(super) fn new(tiles: Tiles<T>, threads: usize, p: &Product, many: Many) -> Self {
        let panels = p.n.div_ceil(tiles.cols());
        let (results, _) = many.results();
        let narrower = size_of::<T>() / size_of::<f32>();
        let mut row_tasks = p.m.div_ceil(TASK_ROWS / narrower);
        let mut col_tasks = p.n.div_ceil(TASK_COLS / narrower);
        // What a task copies of one operand it uses as often as it has rows, or columns, of the other: the longer side
        // is cut first.
        let wanted = if threads == 1 { 1 } else { threads * EACH };
        while row_tasks * col_tasks * results < wanted {
            let rows = p.m.div_ceil(row_tasks.max(1));
            let cols = panels.div_ceil(col_tasks.max(1)) * tiles.cols();
            if rows >= cols && rows > 2 * tiles.rows() {
                row_tasks += 1;
            } else if cols > tiles.cols() {
                col_tasks += 1;
            } else if rows > 2 * tiles.rows() {
                row_tasks += 1;
            } else {
                break;
            }
        }
        let blocks = p.k.div_ceil(INNER);
        Plan {
            tiles,
            many,
            row_tasks,
            col_tasks,
            task_rows: p.m.div_ceil(row_tasks.max(1)),
            task_panels: panels.div_ceil(col_tasks.max(1)),
            panels,
            blocks,
            inner: p.k.div_ceil(blocks.max(1)),
        }
    }

    pub(super) fn tasks(&self) -> usize {
        self.many.results().0 * self.row_tasks * self.col_tasks
    }

    /// From a row of packed `A` to the next: not a power of two, which would put all rows into the same cache sets.
    fn a_stride(&self, transposed: bool) -> usize {
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
        self.packed(transpose_a)
            .map(Scratch::bytes::<T>)
            .iter()
            .sum()
    }
}

/// A block of the inner dimension of one product.
#[derive(Clone, Copy)]
struct Block<'a, T> {
    a: &'a [T],
    b: &'a [T],
    /// Where it begins, and how long it is.
    at: usize,
    inner: usize,
}

/// One task: its rows and columns of `C`.
pub(super) struct Task<'a, T: 'static> {
    isa: Isa,
    p: &'a Product,
    plan: &'a Plan<T>,
    /// Which of the matrices `C`.
    result: usize,
    row: usize,
    rows: usize,
    col: usize,
    cols: usize,
}

/// What tile number `call` of so many that read the same rows of `A`, which lie one after the other, brings near of the
/// rows after them while it runs along `len` elements.
fn rows_ahead<S>(
    next: &[S],
    numbers: usize,
    len: usize,
    (call, calls): (usize, usize),
) -> Ahead<S> {
    let in_line = LINE / size_of::<S>();
    let (first, count) = part(numbers.div_ceil(in_line), calls, call);
    Ahead {
        at: next.as_ptr().wrapping_add(first * in_line),
        step: in_line,
        every: (len / count.max(1)).max(1),
    }
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
        let (packed_a, packed_b) = (scratch.take::<S>(a_len), scratch.take::<S>(b_len));
        let own = T::as_sums(&[]).is_some();
        let sums = scratch.take::<S>(if own { 0 } else { c_len });
        let biases = scratch.take::<S>(bias_len);
        if let Some(bias) = epilogue.bias {
            biases[..self.cols].copy_from_slice(&bias[self.col..][..self.cols]);
        }
        let a_stride = self.plan.a_stride(self.p.transpose_a);
        let row_tiles = self.rows.div_ceil(tiles.rows());
        let direct = self.reads_a_directly::<T>();
        let start = self.result * self.plan.many.steps[2] + self.row * self.p.n + self.col;
        let mut next = self.block(operands, 0);
        for number in 1.. {
            let Some(block) = next else { break };
            next = self.block(operands, number);
            let inner = block.inner;
            let from_a = match T::as_sums(block.a).filter(|_| direct) {
                Some(a) => &a[self.row * self.p.k + block.at..],
                None => {
                    self.pack_a(block, packed_a);
                    &*packed_a
                }
            };
            self.pack_b(block, packed_b);
            let panels = self.cols.div_ceil(tiles.cols());
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
                    let tile = Tile {
                        a: from_a[row * a_row..].as_ptr(),
                        offsets: &[0],
                        len: inner,
                        a_row,
                        a_col,
                        b: packed_b[col * inner..].as_ptr(),
                        b_row: tiles.cols(),
                        c,
                        c_row,
                        cols: tiles.cols().min(self.cols - col),
                        add: number > 1,
                        finish: match next {
                            Some(_) => Finish::NONE,
                            None => Finish {
                                bias: epilogue
                                    .bias
                                    .map_or(std::ptr::null(), |_| biases[col..].as_ptr()),
                                relu: epilogue.relu,
                            },
                        },
                        ahead: match next {
                            None if direct && inner == self.p.k => {
                                let next = &from_a[(row + rows) * a_row..];
                                rows_ahead(next, rows * inner, inner, (panel, panels))
                            }
                            _ => {
                                self.ahead(next, inner, (tile * panels + panel, row_tiles * panels))
                            }
                        },
                    };
                    // SAFETY: the packed operands hold `inner` whole rows, the biases whole panels, and `A`, where it is read directly, these rows
                    // of `k` numbers; `c` points to this task's part, in bounds by the lengths that `gemm_many` checked,
                    // and of type `S` because `T` is `S` when `own`.
                    unsafe { tiles.run(rows, &tile) };
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

    /// What tile number `call`, of so many of a block, brings near of the block of `B` after it, which lies in rows that
    /// are far apart: of some of them a cache line each, while it runs along `len` elements.
    fn ahead<T: Element<Sum = S>>(
        &self,
        next: Option<Block<'_, T>>,
        len: usize,
        (call, calls): (usize, usize),
    ) -> Ahead<S> {
        let Some(Block { b, at, inner, .. }) = next else {
            return Ahead::NONE;
        };
        let Some(b) = T::as_sums(b) else {
            return Ahead::NONE;
        };
        let (start, numbers, step, rows) = if self.p.transpose_b {
            (self.col * self.p.k + at, inner, self.p.k, self.cols)
        } else {
            (at * self.p.n + self.col, self.cols, self.p.n, inner)
        };
        let in_line = LINE / size_of::<S>();
        // A row that does not begin with a line ends in one more.
        let lines = numbers.div_ceil(in_line) + 1;
        let each = (calls / lines).max(1);
        let (line, among) = (call / each, call % each);
        let (first, count) = part(rows, each, among);
        if line >= lines || count == 0 {
            return Ahead::NONE;
        }
        let within = (line * in_line).min(numbers - 1);
        Ahead {
            at: b.as_ptr().wrapping_add(start + first * step + within),
            step,
            every: (len / count).max(1),
        }
    }

    /// Copies this task's rows of a block of `A`, in the direction in which they lie.
    fn pack_a<T: Element<Sum = S>>(&self, block: Block<'_, T>, to: &mut [S]) {
        let Block { a, at, inner, .. } = block;
        let stride = self.plan.a_stride(self.p.transpose_a);
        let (count, len) = if self.p.transpose_a {
            (inner, self.rows)
        } else {
            (self.rows, inner)
        };
        for (i, row) in to.chunks_mut(stride).take(count).enumerate() {
            let start = if self.p.transpose_a {
                (at + i) * self.p.m + self.row
            } else {
                (self.row + i) * self.p.k + at
            };
            T::widen(&a[start..start + len], &mut row[..len]);
        }
    }

    /// Copies this task's columns of a block of `B` into panels, each `inner` rows of a tile's width.
    fn pack_b<T: Element<Sum = S>>(&self, block: Block<'_, T>, to: &mut [S]) {
        let Block { b, at, inner, .. } = block;
        let width = self.plan.tiles.cols();
        if !self.p.transpose_b {
            for i in 0..inner {
                let start = (at + i) * self.p.n + self.col;
                let row = &b[start..start + self.cols];
                for (panel, from) in row.chunks(width).enumerate() {
                    let start = panel * inner * width + i * width;
                    let to = &mut to[start..start + width];
                    T::widen(from, &mut to[..from.len()]);
                    to[from.len()..].fill(S::zeroed());
                }
            }
            return;
        }
        for (panel, to) in to
            .chunks_mut(inner * width)
            .take(self.cols.div_ceil(width))
            .enumerate()
        {
            let col = panel * width;
            let cols = width.min(self.cols - col);
            if cols < width {
                to.fill(S::zeroed());
            }
            let from_rows = Rows {
                start: (self.col + col) * self.p.k + at,
                stride: self.p.k,
            };
            if let Some(b) = T::as_sums(b) {
                transpose(
                    self.isa,
                    (cols, inner),
                    (b, from_rows),
                    (
                        to,
                        Rows {
                            start: 0,
                            stride: width,
                        },
                    ),
                );
            } else {
                for j in 0..cols {
                    let from = from_rows.start + j * from_rows.stride;
                    for (i, x) in b[from..from + inner].iter().enumerate() {
                        T::widen(
                            std::slice::from_ref(x),
                            std::slice::from_mut(&mut to[i * width + j]),
                        );
                    }
                }
            }
        }
    }
}
