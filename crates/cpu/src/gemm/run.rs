//! Runs the tasks of a plan, each block after block, tile after tile.

use bytemuck::Pod;

use super::block::{OperandSide, in_line};
use super::packed::{Next, Packed};
use super::task::{GemmPlan, GemmTask};
use super::{Element, Gemm};
use crate::micro_kernel::{Ahead, Tile, Tiled};
use crate::scratch::{Disjoint, Scratch, for_lanes, part};
use crate::{Cpu, Epilogue};

/// Maximum number of columns of a task that reads its rows of `A` where they lie: with more, a copy pays.
const MAX_DIRECT_COLS: usize = 128;
/// Bytes that are a multiple of this apart are in the same set of the first-level cache.
const CACHE_SET_STRIDE: usize = 4096;

/// Returns the prefetch of tile number `call` of so many that read the same rows of `A`, which lie one after the other:
/// lines of the rows after them, while it runs along `len` elements.
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

/// Runs the tasks of a plan.
pub(super) fn run_tasks<T: Element>(
    cpu: Cpu<'_>,
    p: &Gemm,
    plan: &GemmPlan<T::Sum>,
    operands: [&[T]; 2],
    epilogue: Epilogue<'_, T::Sum>,
    c: &mut [T],
    scratch: &mut [u8],
) {
    let c = Disjoint::new(c);
    for_lanes(
        cpu.pool,
        plan.tasks(),
        scratch,
        plan.lane(p.transpose_a),
        &|task, scratch| {
            let task = GemmTask::new(cpu.isa, p, plan, task);
            task.run(operands, epilogue, &c, scratch);
        },
    );
}

impl<S: Tiled + Pod + Send + Sync> GemmTask<'_, S> {
    pub(super) fn run<T: Element<Sum = S>>(
        &self,
        operands: [&[T]; 2],
        epilogue: Epilogue<'_, S>,
        c: &Disjoint<'_, T>,
        scratch: &mut [u8],
    ) {
        let GemmPlan { tiles, .. } = *self.plan;
        let mut scratch = Scratch::new(scratch);
        let [a_len, b_len, c_len, epilogue_len] = self.plan.packed(self.p.transpose_a);
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
            .padded(scratch.take(epilogue_len));
        let a_stride = self.plan.a_stride(self.p.transpose_a);
        let direct = self.reads_a_directly::<T>();
        let (row_tiles, panels) = (
            self.rows.div_ceil(tiles.rows()),
            self.cols.div_ceil(tiles.cols()),
        );
        let start = self.result * self.plan.many.steps[2] + self.row * self.p.n + self.col;
        // An operand of the next block is copied meanwhile, or at least asked for.
        let copies = !self.plan.prepacked || (self.plan.meanwhile[0] && !direct);
        let mut next = self.block(operands, 0);
        for number in 1.. {
            let Some(block) = next else { break };
            next = self.block(operands, number);
            let inner = block.inner;
            packed.turn(self, block, direct);
            let from_a = match T::as_sums(block.a).filter(|_| direct) {
                Some(a) => &a[self.row * self.p.k + block.at..],
                None => &*packed.now[OperandSide::A as usize],
            };
            let from_b = match T::as_sums(block.b).filter(|_| self.plan.prepacked) {
                Some(b) => &b[block.at * self.plan.padded_cols() + self.col * inner..],
                None => &*packed.now[OperandSide::B as usize],
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
                    let asked = next.filter(|_| copies);
                    let asked = asked.map(|next| (next, self.share(next, direct, call)));
                    let tile = Tile {
                        a: from_a[row * a_row..].as_ptr(),
                        offsets: &[0],
                        len: inner,
                        a_row,
                        a_col,
                        b: from_b[col * inner..].as_ptr(),
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
                    // SAFETY: the packed operands hold `inner` whole rows, the epilogue's lists whole panels, and `A`, where it is read directly, these rows
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

    /// `true` if the rows of `A` are read where they lie: there are few columns to multiply a copy with, and a tile's
    /// rows are not all in the same sets of the cache.
    fn reads_a_directly<T: Element<Sum = S>>(&self) -> bool {
        let own = T::as_sums(&[]).is_some();
        let apart = !(self.p.k * size_of::<S>()).is_multiple_of(CACHE_SET_STRIDE);
        own && apart && !self.p.transpose_a && self.cols <= MAX_DIRECT_COLS
    }
}
