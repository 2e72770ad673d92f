//! Tasks of GEMMs. A task runs along the inner dimension in blocks that fit the first-level cache, copies its part of
//! each operand into scratch (`copy`), unless it reads `A` where it lies, and adds block after block to its part of `C`,
//! always in the same order.

use bytemuck::Pod;

use super::block::{Block, in_line};
use super::task_grid::Results;
use super::{Element, Gemm, GemmBatch};
use crate::micro_kernel::{Tiled, Tiles};
use crate::scratch::{Scratch, part};
use crate::{Epilogue, Isa};

/// The longest block of the inner dimension: with it, a panel of `B` and a tile's rows of `A` fit the first-level cache,
/// or nearly.
const MAX_INNER: usize = 256;
/// Bytes of a page of memory, at whose end the processor's own fetching ends.
const PAGE_BYTES: usize = 4096;

/// The division of GEMMs into tasks. The terms of sums, and their order, depend on the shape and the tiles alone; the
/// number of tasks, on the threads too.
#[derive(Clone, Copy)]
pub(super) struct GemmPlan<T: 'static> {
    pub tiles: Tiles<T>,
    pub many: GemmBatch,
    row_tasks: usize,
    col_tasks: usize,
    task_rows: usize,
    /// In panels.
    task_panels: usize,
    panels: usize,
    /// `true` if all columns fill whole vectors: the epilogue's lists are then read where they are.
    whole_vectors: bool,
    /// Of each GEMM that is summed.
    blocks: usize,
    inner: usize,
    /// By operand: `true` if a block is copied while the one before it is multiplied. It is where rows are so far apart
    /// that the processor does not fetch the next of them by itself, and that those of a block may share a few sets of
    /// each cache; a copy at once otherwise takes less room.
    pub meanwhile: [bool; 2],
    /// Numbers of each row of a transposed `B` that are copied at once: a cache line, or, if they are widened, all of a
    /// block.
    pub turned: usize,
    /// `true` if all of `B` lies in panels already.
    pub prepacked: bool,
}

impl<S: Tiled> GemmPlan<S> {
    pub(super) fn of<T: Element<Sum = S>>(
        isa: Isa,
        threads: usize,
        p: &Gemm,
        many: GemmBatch,
    ) -> Self {
        let (tiles, widened) = (S::tiles(isa), T::as_sums(&[]).is_none());
        let panels = p.n.div_ceil(tiles.cols());
        let results = Results {
            number: many.results().0,
            m: p.m,
            panels,
        };
        let (row_tasks, col_tasks) = results.cuts(&tiles, threads);
        let blocks = p.k.div_ceil(MAX_INNER);
        let rows = [
            if p.transpose_a { p.m } else { p.k },
            if p.transpose_b { p.k } else { p.n },
        ];
        let several = blocks * many.results().1 > 1;
        GemmPlan {
            tiles,
            many,
            row_tasks,
            col_tasks,
            task_rows: p.m.div_ceil(row_tasks),
            task_panels: panels.div_ceil(col_tasks),
            panels,
            whole_vectors: p.n.is_multiple_of(tiles.lanes()),
            blocks,
            inner: p.k.div_ceil(blocks.max(1)),
            meanwhile: rows.map(|row| several && !widened && row * size_of::<S>() >= PAGE_BYTES),
            turned: if widened { MAX_INNER } else { in_line::<S>() },
            prepacked: false,
        }
    }

    /// The same plan for a `B` that lies in panels.
    pub(super) fn of_prepacked(self) -> Self {
        GemmPlan {
            prepacked: true,
            meanwhile: [self.meanwhile[0], false],
            ..self
        }
    }

    /// Columns of all panels.
    pub(super) fn padded_cols(&self) -> usize {
        self.panels * self.tiles.cols()
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

    pub(super) fn packed(&self, transpose_a: bool) -> [usize; 4] {
        let a_rows = if transpose_a {
            self.inner
        } else {
            self.task_rows
        };
        [
            a_rows * self.a_stride(transpose_a),
            match self.prepacked {
                true => 0,
                false => self.inner * self.task_panels * self.tiles.cols(),
            },
            // For types whose sums are wider, the task's part of `C`.
            self.task_rows * self.task_panels * self.tiles.cols(),
            // The lists of its epilogue, in whole panels.
            match self.whole_vectors {
                true => 0,
                false => Epilogue::<S>::room(self.task_panels * self.tiles.cols()),
            },
        ]
    }

    pub(super) fn lane(&self, transpose_a: bool) -> usize {
        let [a, b, c, epilogue] = self.packed(transpose_a);
        let next = self.lens_of_next([a, b]);
        let all = [a, b, c, epilogue, next[0], next[1]];
        all.map(Scratch::bytes::<S>).iter().sum()
    }

    /// Room for the operands of the next block, of those that are copied meanwhile.
    pub(super) fn lens_of_next(&self, lens: [usize; 2]) -> [usize; 2] {
        [0, 1].map(|side| if self.meanwhile[side] { lens[side] } else { 0 })
    }
}

/// One task: its rows and columns of `C`.
pub(super) struct GemmTask<'a, T: 'static> {
    pub isa: Isa,
    pub p: &'a Gemm,
    pub plan: &'a GemmPlan<T>,
    /// Number of the matrix `C`.
    pub result: usize,
    pub row: usize,
    pub rows: usize,
    pub col: usize,
    pub cols: usize,
}

impl<'a, S: Tiled + Pod + Send + Sync> GemmTask<'a, S> {
    pub(super) fn new(isa: Isa, p: &'a Gemm, plan: &'a GemmPlan<S>, task: usize) -> Self {
        let each = plan.row_tasks * plan.col_tasks;
        let (result, task) = (task / each, task % each);
        // Neighbours in time share their columns of `B`, the operand that is read from farther away.
        let (row, rows) = part(p.m, plan.row_tasks, task % plan.row_tasks);
        let (panel, panels) = part(plan.panels, plan.col_tasks, task / plan.row_tasks);
        let col = panel * plan.tiles.cols();
        let cols = (panels * plan.tiles.cols()).min(p.n - col);
        GemmTask {
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

    /// The task of all of a single result.
    pub(super) fn whole(isa: Isa, p: &'a Gemm, plan: &'a GemmPlan<S>) -> Self {
        GemmTask {
            isa,
            p,
            plan,
            result: 0,
            row: 0,
            rows: p.m,
            col: 0,
            cols: p.n,
        }
    }

    /// Returns block `i`: its operands, and its part of the inner dimension.
    pub(super) fn block<'m, T>(&self, [a, b]: [&'m [T]; 2], i: usize) -> Option<Block<'m, T>> {
        let GemmPlan { many, blocks, .. } = *self.plan;
        let (summed, block) = (i / blocks, i % blocks);
        if summed >= many.results().1 {
            return None;
        }
        let (at, inner) = part(self.p.k, blocks, block);
        let gemm = self.result + summed;
        Some(Block {
            a: &a[gemm * many.steps[0]..],
            b: match self.plan.prepacked {
                true => b,
                false => &b[gemm * many.steps[1]..],
            },
            at,
            inner,
        })
    }
}
