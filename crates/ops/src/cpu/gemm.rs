//! Products of matrices.
//!
//! `C` is cut into tasks by its shape alone. A task runs along the inner dimension in blocks that fit the first-level
//! cache, copies its part of each operand into scratch, widened to the type of its sums and in the order in which
//! tiles read it, and adds block after block to `C`, always in the same order.

use bytemuck::Pod;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::Cpu;
use super::par::{Disjoint, Scratch, for_chunks, for_lanes, lanes_scratch, part};
use super::tile::{Ahead, Finish, Tile, Tiled, Tiles};
use super::transpose::{Rows, transpose};
use thalweg_device::Isa;

/// The longest block of the inner dimension: with it, a panel of `B` and a tile's rows of `A` fit the first-level cache.
const INNER: usize = 160;
/// Bytes of a cache line.
const LINE: usize = 64;
/// The most rows of `C` in a task.
const TASK_ROWS: usize = 112;
/// Panels of `B` in a task, where there are enough of them for many threads, and where there are few.
const TASK_PANELS: [usize; 2] = [8, 4];

/// The shape of a product `C = A B`, with `C` of `m x n`; all matrices are dense and row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Rows of `C`.
    pub m: usize,
    /// Columns of `C`.
    pub n: usize,
    /// The inner dimension.
    pub k: usize,
    /// Whether `A` lies transposed, as `k x m` and not `m x k`.
    pub transpose_a: bool,
    /// Whether `B` lies transposed, as `n x k` and not `k x n`.
    pub transpose_b: bool,
}

/// A floating-point type of matrices, with the type that its products are summed in.
pub trait Element: Pod + Send + Sync {
    /// The type of the sums.
    type Sum: Tiled + thin::Fused;
    #[doc(hidden)]
    fn widen(from: &[Self], to: &mut [Self::Sum]);
    #[doc(hidden)]
    fn narrow(from: &[Self::Sum], to: &mut [Self]);
    /// The slice itself, where sums have its own type.
    #[doc(hidden)]
    fn as_sums(slice: &[Self]) -> Option<&[Self::Sum]>;
    /// As [`Element::as_sums`], to write.
    #[doc(hidden)]
    fn as_sums_mut(slice: &mut [Self]) -> Option<&mut [Self::Sum]>;
}

macro_rules! element {
    ($($own:ty),*; $($half:ty),*) => {
        $(impl Element for $own {
            type Sum = $own;
            fn widen(from: &[Self], to: &mut [$own]) {
                to.copy_from_slice(from);
            }
            fn narrow(from: &[$own], to: &mut [Self]) {
                to.copy_from_slice(from);
            }
            fn as_sums(slice: &[Self]) -> Option<&[$own]> {
                Some(slice)
            }
            fn as_sums_mut(slice: &mut [Self]) -> Option<&mut [$own]> {
                Some(slice)
            }
        })*
        $(impl Element for $half {
            type Sum = f32;
            fn widen(from: &[Self], to: &mut [f32]) {
                from.convert_to_f32_slice(to);
            }
            fn narrow(from: &[f32], to: &mut [Self]) {
                to.convert_from_f32_slice(from);
            }
            fn as_sums(_: &[Self]) -> Option<&[f32]> {
                None
            }
            fn as_sums_mut(_: &mut [Self]) -> Option<&mut [f32]> {
                None
            }
        })*
    };
}
element!(f32, f64; f16, bf16);

/// How a product is cut up. Depends on the shape and the tiles only.
#[derive(Clone, Copy)]
struct Plan<T: 'static> {
    tiles: Tiles<T>,
    row_tasks: usize,
    col_tasks: usize,
    task_rows: usize,
    /// In panels.
    task_panels: usize,
    panels: usize,
    blocks: usize,
    inner: usize,
}

impl<T> Plan<T> {
    fn new(tiles: Tiles<T>, p: &Product) -> Self {
        let panels = p.n.div_ceil(tiles.cols());
        let row_tasks = p.m.div_ceil(TASK_ROWS);
        let wide = TASK_PANELS[usize::from(row_tasks * panels.div_ceil(TASK_PANELS[0]) < 16)];
        let col_tasks = panels.div_ceil(wide);
        let blocks = p.k.div_ceil(INNER);
        Plan {
            tiles,
            row_tasks,
            col_tasks,
            task_rows: p.m.div_ceil(row_tasks.max(1)),
            task_panels: panels.div_ceil(col_tasks.max(1)),
            panels,
            blocks,
            inner: p.k.div_ceil(blocks.max(1)),
        }
    }

    fn tasks(&self) -> usize {
        self.row_tasks * self.col_tasks
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

    fn packed(&self, transpose_a: bool) -> [usize; 3] {
        let a_rows = if transpose_a {
            self.inner
        } else {
            self.task_rows
        };
        [
            a_rows * self.a_stride(transpose_a),
            self.inner * self.task_panels * self.tiles.cols(),
            // For types whose sums are wider, the task's part of `C`, and one row of `B` before it is spread.
            self.task_rows * self.task_panels * self.tiles.cols(),
        ]
    }

    fn lane(&self, transpose_a: bool) -> usize {
        self.packed(transpose_a)
            .map(Scratch::bytes::<T>)
            .iter()
            .sum()
    }
}

/// The scratch that [`gemm`] needs on this many threads, in bytes.
pub fn gemm_scratch<T: Element>(isa: Isa, threads: usize, product: &Product) -> usize {
    if let Some(plan) = thin::Plan::new::<T>(isa, product) {
        return plan.scratch::<T>(product);
    }
    let plan = Plan::new(T::Sum::tiles(isa), product);
    lanes_scratch(plan.tasks(), threads, plan.lane(product.transpose_a))
}

/// `c = a b`. Sums are taken in [`Element::Sum`], in the order of the inner dimension, fused where the machine does.
///
/// # Panics
/// If a slice is not as long as the shape says, or the scratch is too small.
pub fn gemm<T: Element>(
    cpu: Cpu<'_>,
    p: &Product,
    a: &[T],
    b: &[T],
    c: &mut [T],
    scratch: &mut [u8],
) {
    assert!(
        a.len() == p.m * p.k && b.len() == p.k * p.n && c.len() == p.m * p.n,
        "operands do not fit {p:?}"
    );
    if p.k == 0 {
        return for_chunks(cpu.pool, c, 1 << 16, &|_, part| part.fill(T::zeroed()));
    }
    if let Some(plan) = thin::Plan::new::<T>(cpu.isa, p)
        && let (Some(a), Some(b), Some(c)) = (T::as_sums(a), T::as_sums(b), T::as_sums_mut(c))
    {
        return plan.run(cpu, p, (a, b), c, scratch);
    }
    let plan = Plan::new(T::Sum::tiles(cpu.isa), p);
    let c = Disjoint::new(c);
    for_lanes(
        cpu.pool,
        plan.tasks(),
        scratch,
        plan.lane(p.transpose_a),
        &|task, scratch| {
            Task::new(cpu.isa, p, &plan, task).run(a, b, &c, scratch);
        },
    );
}

/// One task: its rows and columns of `C`.
struct Task<'a, T: 'static> {
    isa: Isa,
    p: &'a Product,
    plan: &'a Plan<T>,
    row: usize,
    rows: usize,
    col: usize,
    cols: usize,
}

impl<'a, S: Tiled + Pod + Send + Sync> Task<'a, S> {
    fn new(isa: Isa, p: &'a Product, plan: &'a Plan<S>, task: usize) -> Self {
        // Neighbours in time share their columns of `B`, the operand that is read from farther away.
        let (row, rows) = part(p.m, plan.row_tasks, task % plan.row_tasks);
        let (panel, panels) = part(plan.panels, plan.col_tasks, task / plan.row_tasks);
        let col = panel * plan.tiles.cols();
        let cols = (panels * plan.tiles.cols()).min(p.n - col);
        Task {
            isa,
            p,
            plan,
            row,
            rows,
            col,
            cols,
        }
    }

    fn run<T: Element<Sum = S>>(&self, a: &[T], b: &[T], c: &Disjoint<'_, T>, scratch: &mut [u8]) {
        let Plan { tiles, .. } = *self.plan;
        let mut scratch = Scratch::new(scratch);
        let [a_len, b_len, c_len] = self.plan.packed(self.p.transpose_a);
        let (packed_a, packed_b) = (scratch.take::<S>(a_len), scratch.take::<S>(b_len));
        let own = T::as_sums(&[]).is_some();
        let sums = scratch.take::<S>(if own { 0 } else { c_len });
        let a_stride = self.plan.a_stride(self.p.transpose_a);
        let row_tiles = self.rows.div_ceil(tiles.rows());
        for block in 0..self.plan.blocks {
            let (at, inner) = part(self.p.k, self.plan.blocks, block);
            self.pack_a(a, at, inner, packed_a);
            self.pack_b(b, at, inner, packed_b);
            let panels = self.cols.div_ceil(tiles.cols());
            for tile in 0..row_tiles {
                let (row, rows) = part(self.rows, row_tiles, tile);
                for panel in 0..panels {
                    let col = panel * tiles.cols();
                    let (c, c_row) = if own {
                        (
                            c.pointer((self.row + row) * self.p.n + self.col + col)
                                .cast::<S>(),
                            self.p.n,
                        )
                    } else {
                        (sums[row * self.cols + col..].as_mut_ptr(), self.cols)
                    };
                    let (a_row, a_col) = if self.p.transpose_a {
                        (1, a_stride)
                    } else {
                        (a_stride, 1)
                    };
                    let tile = Tile {
                        a: packed_a[row * a_row..].as_ptr(),
                        offsets: &[0],
                        len: inner,
                        a_row,
                        a_col,
                        b: packed_b[col * inner..].as_ptr(),
                        b_row: tiles.cols(),
                        c,
                        c_row,
                        cols: tiles.cols().min(self.cols - col),
                        add: block > 0,
                        finish: Finish::NONE,
                        ahead: self.ahead(b, block + 1, tile * panels + panel),
                    };
                    // SAFETY: the packed operands hold `inner` whole rows; `c` points to this task's part, in bounds by
                    // the lengths that `gemm` checked, and of type `S` because `T` is `S` when `own`.
                    unsafe { tiles.run(rows, &tile) };
                }
            }
        }
        if !own {
            for (i, row) in sums.chunks_exact(self.cols).take(self.rows).enumerate() {
                // SAFETY: rows of this task's part of `C`.
                T::narrow(row, unsafe {
                    c.slice((self.row + i) * self.p.n + self.col, self.cols)
                });
            }
        }
    }

    /// What tile number `call` of a block brings near of the block of `B` after it, which lies in rows that are far
    /// apart: one cache line of each.
    fn ahead<T: Element<Sum = S>>(&self, b: &[T], block: usize, call: usize) -> Ahead<S> {
        if block >= self.plan.blocks {
            return Ahead::NONE;
        }
        let Some(b) = T::as_sums(b) else {
            return Ahead::NONE;
        };
        let (at, inner) = part(self.p.k, self.plan.blocks, block);
        let (start, len, step, count) = if self.p.transpose_b {
            (self.col * self.p.k + at, inner, self.p.k, self.cols)
        } else {
            (at * self.p.n + self.col, self.cols, self.p.n, inner)
        };
        let within = call * (LINE / size_of::<S>());
        // A row that does not begin with a line ends in one more.
        if within >= len + LINE / size_of::<S>() {
            return Ahead::NONE;
        }
        let at = b.as_ptr().wrapping_add(start + within.min(len - 1));
        Ahead { at, step, count }
    }

    /// Copies this task's rows of a block of `A`, in the direction in which they lie.
    fn pack_a<T: Element<Sum = S>>(&self, a: &[T], at: usize, inner: usize, to: &mut [S]) {
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
    fn pack_b<T: Element<Sum = S>>(&self, b: &[T], at: usize, inner: usize, to: &mut [S]) {
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

mod thin;

#[cfg(test)]
mod tests;
