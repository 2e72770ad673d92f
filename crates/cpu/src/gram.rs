//! Gram matrices of tall matrices: `Z' Z`, summed in `f64`, in one pass over the rows.
//!
//! `Z` has a column of ones, the columns of `x` and those of `y`, less a shift each: the matrix that the normal equations
//! of a linear regression are made of. Blocks of rows are packed once, as panels that fit the first-level cache, and both
//! operands of a tile are read from them. Only the lower triangle is computed. Products are made in `f64`, or in `f32` at
//! twice the speed: then the sums of some rows are in `f32` too, and only these are added in `f64`.
//!
//! ```
//! use thalweg_cpu::gram::{Gram, GramInputs, gram};
//! use thalweg_cpu::{Cpu, Isa, ThreadPool};
//!
//! let pool = ThreadPool::new(1);
//! let cpu = Cpu { pool: &pool, isa: Isa::detect() };
//! let shape = Gram { rows: 2, x: 1, y: 1 };
//! let inputs = GramInputs { x: &[1.0f32, 2.0], y: &[3.0, 5.0], weights: None, shift: &[0.0, 0.0] };
//! let mut out = [0.0; 9];
//! let mut scratch = vec![0; shape.scratch::<f64>(cpu.isa, 1).unwrap()];
//! gram::<_, f64>(cpu, &shape, &inputs, &mut out, &mut scratch);
//! // The rows of Z are (1, 1, 3) and (1, 2, 5).
//! assert_eq!(out, [2.0, 3.0, 8.0, 3.0, 5.0, 13.0, 8.0, 13.0, 34.0]);
//! ```

use crate::micro_kernel::{Ahead, Tile, Tiled, Tiles};
use crate::number::Wide;
use crate::scratch::{Disjoint, Scratch, for_chunks, for_lanes, lanes_scratch, part};
use crate::{Cpu, Epilogue, Isa, Vectorize};

/// Rows of a block: a panel of them fits the first-level cache.
const BLOCK_ROWS: usize = 128;
/// The most rows whose products are summed in their own type.
const FOLD_ROWS: usize = 8 * BLOCK_ROWS;
/// The fewest rows of a task.
const MIN_TASK_ROWS: usize = FOLD_ROWS;
/// Bytes of a cache line.
const LINE: usize = 64;
/// The most tasks, and the most bytes of their sums. Two tasks are allowed whatever they take.
const MAX_TASKS: usize = 32;
const MAX_SUM_BYTES: usize = 256 << 20;

/// The shape of a Gram matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gram {
    /// Rows of `x` and `y`.
    pub rows: usize,
    /// Columns of `x`.
    pub x: usize,
    /// Columns of `y`.
    pub y: usize,
}

/// The matrix whose Gram matrix is computed.
pub struct GramInputs<'a, T> {
    /// `[rows, x]`.
    pub x: &'a [T],
    /// `[rows, y]`.
    pub y: &'a [T],
    /// A weight of each row, at least 0: its products count so many times.
    pub weights: Option<&'a [T]>,
    /// Subtracted from each row: from the columns of `x`, then from those of `y`.
    pub shift: &'a [f64],
}

impl Gram {
    /// Columns of `Z`, and the rows and columns of the result.
    pub fn columns(&self) -> usize {
        1 + self.x + self.y
    }

    /// Bytes of scratch memory for products in `P`; `None` where they cannot be counted.
    pub fn scratch<P: Tiled>(&self, isa: Isa, threads: usize) -> Option<usize> {
        let plan = GramPlan::<P>::of(isa, self);
        let sums = plan.sum_len()?.checked_mul(plan.tasks)?;
        plan.panels.checked_mul(plan.panel_len())?;
        sums.checked_mul(size_of::<f64>())?
            .checked_add(lanes_scratch(plan.tasks, threads, plan.lane_scratch()))?
            .checked_add(Scratch::bytes::<f64>(0))
    }
}

/// The division of a Gram matrix into panels of columns and tasks of rows. Tasks depend on the shape alone.
struct GramPlan<P: 'static> {
    tiles: Tiles<P>,
    /// Columns of a panel.
    width: usize,
    panels: usize,
    tasks: usize,
}

impl<P: Tiled> GramPlan<P> {
    fn of(isa: Isa, g: &Gram) -> Self {
        let tiles = P::tiles(isa);
        let width = tiles.cols();
        let mut plan = GramPlan {
            tiles,
            width,
            panels: g.columns().div_ceil(width),
            tasks: 1,
        };
        let bytes = plan
            .sum_len()
            .map_or(usize::MAX, |len| len.saturating_mul(8));
        let most = (MAX_SUM_BYTES / bytes.max(1)).clamp(2, MAX_TASKS);
        plan.tasks = (g.rows / MIN_TASK_ROWS).clamp(1, most);
        plan
    }

    /// Bytes of the packed rows of a task, and of their sums.
    fn lane_scratch(&self) -> usize {
        Scratch::bytes::<P>(self.panels * self.panel_len())
            + Scratch::bytes::<P>(self.stride() * self.stride())
    }

    /// Elements of a row of sums.
    fn stride(&self) -> usize {
        self.panels * self.width
    }

    /// Elements of the sums of a task.
    fn sum_len(&self) -> Option<usize> {
        self.stride().checked_mul(self.stride())
    }

    fn panel_len(&self) -> usize {
        BLOCK_ROWS * self.width
    }

    /// Rows of a tile: a part of a panel's columns, as a tile reads its rows from one panel.
    fn tile_rows(&self) -> usize {
        let most = self.tiles.rows();
        (1..=self.width)
            .rev()
            .find(|rows| *rows <= most && self.width.is_multiple_of(*rows))
            .unwrap_or(1)
    }
}

/// Computes the Gram matrix: `out` is `[1 + x + y, 1 + x + y]`, of the column of ones, `x` and `y`. Products are made in `P`,
/// and those of up to 1024 rows are summed in it; the rest of the sums is taken in `f64`. They are the same on any number of
/// threads.
///
/// # Panics
/// If a slice is not as long as `g` says, or the scratch is too small.
pub fn gram<T: Wide, P: Wide + Tiled>(
    cpu: Cpu<'_>,
    g: &Gram,
    inputs: &GramInputs<'_, T>,
    out: &mut [f64],
    scratch: &mut [u8],
) {
    assert!(
        inputs.x.len() == g.rows * g.x
            && inputs.y.len() == g.rows * g.y
            && inputs.weights.is_none_or(|w| w.len() == g.rows)
            && inputs.shift.len() == g.x + g.y
            && out.len() == g.columns() * g.columns(),
        "operands do not fit {g:?}"
    );
    let plan = GramPlan::<P>::of(cpu.isa, g);
    let sum_len = plan.stride() * plan.stride();
    let mut scratch = Scratch::new(scratch);
    let sums = scratch.take::<f64>(plan.tasks * sum_len);
    let parts = Disjoint::new(sums);
    let lane = plan.lane_scratch();
    for_lanes(cpu.pool, plan.tasks, scratch.rest(), lane, &|task, lane| {
        // SAFETY: each task runs once, and its sums are its own.
        let sums = unsafe { parts.slice(task * sum_len, sum_len) };
        add_task(&plan, cpu.isa, g, inputs, (task, lane), sums);
    });
    let total: &[f64] = sums;
    for_chunks(cpu.pool, out, g.columns(), &|i, row| {
        for (j, sum) in row.iter_mut().enumerate() {
            // In a panel, the columns of `x` come first: they lie as in memory.
            let (a, b) = (packed_column(g, i), packed_column(g, j));
            let at = a.max(b) * plan.stride() + a.min(b);
            let parts = total.iter().skip(at).step_by(sum_len).take(plan.tasks);
            *sum = parts.sum();
        }
    });
}

/// Sums the products of the rows of a task.
fn add_task<T: Wide, P: Wide + Tiled>(
    plan: &GramPlan<P>,
    isa: Isa,
    g: &Gram,
    inputs: &GramInputs<'_, T>,
    (task, lane): (usize, &mut [u8]),
    sums: &mut [f64],
) {
    let mut lane = Scratch::new(lane);
    let packed = lane.take::<P>(plan.panels * plan.panel_len());
    let products = lane.take::<P>(sums.len());
    sums.fill(0.0);
    products.fill(P::ZERO);
    // Columns behind `y` fill the last panels: their products are not read, and numbers of any kind would be slow.
    packed[g.columns() / plan.width * plan.panel_len()..].fill(P::ZERO);
    let (first, rows) = part(g.rows, plan.tasks, task);
    let end = first + rows;
    for fold in (first..end).step_by(FOLD_ROWS) {
        for at in (fold..end.min(fold + FOLD_ROWS)).step_by(BLOCK_ROWS) {
            let rows = BLOCK_ROWS.min(end - at);
            isa.run(PackBlock {
                g,
                inputs,
                at,
                rows,
                width: plan.width,
                packed: &mut *packed,
            });
            let next = inputs.x[(at + rows) * g.x..].as_ptr();
            add_block(plan, g, packed, (rows, next), products);
        }
        for (sum, product) in sums.iter_mut().zip(&mut *products) {
            *sum += product.to_f64();
            *product = P::ZERO;
        }
    }
}

/// The place of a column of `Z` among packed columns: `x`, ones, `y`.
fn packed_column(g: &Gram, column: usize) -> usize {
    match column {
        0 => g.x,
        c if c <= g.x => c - 1,
        c => c,
    }
}

/// Packs rows into panels; each panel has the rows of a few columns, one after the other.
struct PackBlock<'a, T, P> {
    g: &'a Gram,
    inputs: &'a GramInputs<'a, T>,
    at: usize,
    rows: usize,
    width: usize,
    packed: &'a mut [P],
}

impl<T: Wide, P: Wide> Vectorize for PackBlock<'_, T, P> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        match self.width {
            32 => self.pack::<32>(),
            16 => self.pack::<16>(),
            8 => self.pack::<8>(),
            _ => self.pack::<4>(),
        }
    }
}

impl<T: Wide, P: Wide> PackBlock<'_, T, P> {
    /// Packs panel by panel, so that the shift of a panel stays in registers.
    #[inline(always)]
    fn pack<const WIDTH: usize>(self) {
        let PackBlock { g, inputs, .. } = self;
        let panels = self.packed.as_chunks_mut::<WIDTH>().0;
        let (x_shift, y_shift) = inputs.shift.split_at(g.x);
        let x = &inputs.x[self.at * g.x..];
        let x_panels = panels.chunks_mut(BLOCK_ROWS).zip(x_shift.chunks(WIDTH));
        for (panel, (to, shift)) in x_panels.enumerate() {
            let shift: [P; WIDTH] =
                std::array::from_fn(|i| shift.get(i).map_or(P::ZERO, |s| P::from_f64(*s)));
            for (row, to) in to[..self.rows].iter_mut().enumerate() {
                let from = &x[row * g.x + panel * WIDTH..];
                // A row that ends within the panel is read on into the next: these places are overwritten, or not read.
                let from: [T; WIDTH] = match from.first_chunk() {
                    Some(from) => *from,
                    None => padded(from),
                };
                *to = std::array::from_fn(|i| P::from_f64(from[i].to_f64()) - shift[i]);
            }
        }
        let y = &inputs.y[self.at * g.y..];
        for i in 0..=g.y {
            let (panel, place) = ((g.x + i) / WIDTH, (g.x + i) % WIDTH);
            let to = panels[panel * BLOCK_ROWS..][..self.rows].iter_mut();
            match i.checked_sub(1) {
                None => to.for_each(|to| to[place] = P::ONE),
                Some(i) => to.zip(y.chunks_exact(g.y)).for_each(|(to, y)| {
                    to[place] = P::from_f64(y[i].to_f64()) - P::from_f64(y_shift[i]);
                }),
            }
        }
        if let Some(weights) = inputs.weights {
            for panel in panels.chunks_mut(BLOCK_ROWS) {
                for (to, weight) in panel[..self.rows].iter_mut().zip(&weights[self.at..]) {
                    let root = P::from_f64(weight.to_f64()).sqrt();
                    to.iter_mut().for_each(|z| *z = *z * root);
                }
            }
        }
    }
}

/// The last numbers, with zeros behind them.
#[cold]
fn padded<T: Wide, const WIDTH: usize>(rest: &[T]) -> [T; WIDTH] {
    std::array::from_fn(|i| rest.get(i).copied().unwrap_or(T::ZERO))
}

/// Adds the products of a packed block to the lower triangle of the sums. Fetches the rows of the next block meanwhile.
fn add_block<T, P: Tiled>(
    plan: &GramPlan<P>,
    g: &Gram,
    packed: &[P],
    (rows, next): (usize, *const T),
    sums: &mut [P],
) {
    let GramPlan {
        width,
        panels,
        tiles,
        ..
    } = plan;
    let (width, panels) = (*width, *panels);
    let (stride, tile_rows) = (plan.stride(), plan.tile_rows());
    let line = LINE / size_of::<P>();
    for i in 0..panels {
        let columns = width.min(g.columns() - i * width);
        for from in (0..columns).step_by(tile_rows) {
            let a = &packed[i * plan.panel_len() + from..];
            let count = tile_rows.min(columns - from);
            for j in 0..=i {
                // On the diagonal, columns behind the tile's last row are the other triangle's.
                let cols = if j < i {
                    width
                } else {
                    (from + count).min(columns)
                };
                let c = &mut sums[(i * width + from) * stride + j * width..];
                // The tile of a panel's last rows fetches a line for each row, from where the panel's share of them begins.
                let ahead = match j == i && from + count == columns {
                    true => Ahead::lines(next.wrapping_add(i * rows * width).cast(), line, 1),
                    false => Ahead::NONE,
                };
                let tile = Tile {
                    a: a.as_ptr(),
                    offsets: &[0],
                    len: rows,
                    a_row: 1,
                    a_col: width,
                    b: packed[j * plan.panel_len()..].as_ptr(),
                    b_row: width,
                    c: c.as_mut_ptr(),
                    c_row: stride,
                    cols,
                    add: true,
                    epilogue: Epilogue::NONE,
                    ahead,
                };
                // SAFETY: both panels hold `rows` rows of `width` elements, and `a` begins `count` or more elements before
                // the end of a row; the sums hold these rows, as `stride` is the width of all panels.
                unsafe { tiles.run(count, &tile) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadPool;

    /// Numbers without a pattern, between -1 and 1.
    fn numbers(n: usize, seed: u64) -> Vec<f64> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..n)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
            })
            .collect()
    }

    fn naive(g: &Gram, i: &GramInputs<'_, f64>) -> Vec<f64> {
        let q = g.columns();
        let mut out = vec![0.0; q * q];
        for r in 0..g.rows {
            let x = i.x[r * g.x..][..g.x].iter();
            let values = x.chain(&i.y[r * g.y..][..g.y]).zip(i.shift);
            let z: Vec<f64> = [1.0]
                .into_iter()
                .chain(values.map(|(v, s)| v - s))
                .collect();
            let w = i.weights.map_or(1.0, |w| w[r]);
            (0..q * q).for_each(|at| out[at] += w * z[at / q] * z[at % q]);
        }
        out
    }

    #[test]
    fn a_gram_matrix_is_the_sum_over_rows_on_all_instruction_sets_and_any_number_of_threads() {
        for (rows, x, y) in [
            (0, 3, 1),
            (1, 1, 1),
            (5, 0, 0),
            (3, 7, 2),
            (130, 15, 1),
            (257, 16, 0),
            (1025, 33, 3),
            (5000, 5, 1),
        ] {
            let g = Gram { rows, x, y };
            let (xs, ys) = (numbers(rows * x, 1), numbers(rows * y, 2));
            let weights: Vec<f64> = numbers(rows, 3).iter().map(|w| w.abs()).collect();
            let shift = numbers(x + y, 4);
            for weights in [None, Some(&*weights)] {
                let inputs = GramInputs {
                    x: &xs,
                    y: &ys,
                    weights,
                    shift: &shift,
                };
                let wanted = naive(&g, &inputs);
                for isa in Isa::available() {
                    let mut all = Vec::new();
                    for threads in [1, 3] {
                        let pool = ThreadPool::new(threads);
                        let mut out = vec![f64::NAN; g.columns() * g.columns()];
                        let mut scratch = vec![0xff; g.scratch::<f64>(isa, threads).unwrap()];
                        gram::<_, f64>(
                            Cpu { pool: &pool, isa },
                            &g,
                            &inputs,
                            &mut out,
                            &mut scratch,
                        );
                        for (found, wanted) in out.iter().zip(&wanted) {
                            let tolerance = 1e-13 * (1.0 + rows as f64);
                            assert!(
                                (found - wanted).abs() <= tolerance,
                                "{g:?} {isa:?}: {found} {wanted}"
                            );
                        }
                        let mut narrow = vec![0.0; out.len()];
                        let mut scratch = vec![0xff; g.scratch::<f32>(isa, threads).unwrap()];
                        let cpu = Cpu { pool: &pool, isa };
                        gram::<_, f32>(cpu, &g, &inputs, &mut narrow, &mut scratch);
                        for (found, wanted) in narrow.iter().zip(&wanted) {
                            let tolerance = 3e-7 * (1.0 + rows as f64);
                            assert!((found - wanted).abs() <= tolerance, "{g:?} {isa:?}");
                        }
                        all.push(out);
                    }
                    assert_eq!(all[0], all[1], "{g:?} {isa:?}");
                }
            }
        }
    }

    #[test]
    fn narrow_numbers_are_summed_in_f64() {
        // In `f32`, the sum would stay at 2^24.
        let rows = (1 << 24) / 1024 + 10;
        let g = Gram { rows, x: 1, y: 0 };
        let x = vec![32.0f32; rows];
        let inputs = GramInputs {
            x: &x,
            y: &[],
            weights: None,
            shift: &[0.0],
        };
        let pool = ThreadPool::new(2);
        let cpu = Cpu {
            pool: &pool,
            isa: Isa::detect(),
        };
        let mut out = [0.0; 4];
        let mut scratch = vec![0; g.scratch::<f64>(cpu.isa, 2).unwrap()];
        gram::<_, f64>(cpu, &g, &inputs, &mut out, &mut scratch);
        assert_eq!(out[3], 1024.0 * rows as f64);
    }
}
