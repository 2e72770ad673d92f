//! The number of tasks of a GEMM: a task multiplies its copy of one operand with all its rows, or columns, of the
//! other, so few tasks copy little; and the threads should end together.

use crate::micro_kernel::Tiles;

/// Maximum number of rows and columns of `C` in a task of `f32`: its copy fits a second-level cache of a megabyte, or
/// nearly where the next block is copied meanwhile.
const MAX_TASK_ROWS: usize = 256;
const MAX_TASK_COLS: usize = 256;
/// Multiplications that take as long as the copy of a number, of `A` and of `B`: measured, of GEMMs of a hundred to a
/// thousand rows and columns that were cut in several ways.
const COPY_COST_A: f64 = 28.0;
const COPY_COST_B: f64 = 14.0;

/// The results to cut: so many of `m` rows, of panels that are as wide as a tile.
#[derive(Clone, Copy)]
pub(super) struct Results {
    pub number: usize,
    pub m: usize,
    pub panels: usize,
}

impl Results {
    /// Returns the number of parts of the rows and of the panels of each for this number of threads: at least one.
    pub(super) fn cuts<T>(self, tiles: &Tiles<T>, threads: usize) -> (usize, usize) {
        let narrower = size_of::<T>() / size_of::<f32>();
        let fewest_rows = self.m.div_ceil(MAX_TASK_ROWS / narrower).max(1);
        let fewest_cols = (self.panels * tiles.cols()).div_ceil(MAX_TASK_COLS / narrower);
        // So many tasks by thread, or more where they would be too large.
        let candidates = |each: usize| {
            let wanted = match threads {
                0 | 1 => 1,
                _ => (threads * each).div_ceil(self.number.max(1)),
            };
            let most_rows = wanted
                .min(self.m.div_ceil(2 * tiles.rows()))
                .max(fewest_rows);
            (fewest_rows..=most_rows).map(move |rows| {
                let cols = wanted.div_ceil(rows).max(fewest_cols);
                (rows, cols.clamp(1, self.panels.max(1)))
            })
        };
        let all = [1, 2, 4].into_iter().flat_map(candidates);
        let cost = |&cuts: &(usize, usize)| self.cost(cuts, tiles.cols(), threads);
        all.min_by(|a, b| cost(a).total_cmp(&cost(b)))
            .unwrap_or((fewest_rows, 1))
    }

    /// Returns the work of a thread for each step of the inner dimension, in multiplications: its rounds of tasks, as
    /// large as the largest, and half of one that all but the last to end wait for, as threads are not equally fast.
    fn cost(self, (rows, cols): (usize, usize), width: usize, threads: usize) -> f64 {
        let of_m = self.m.div_ceil(rows) as f64;
        let of_n = (self.panels.div_ceil(cols) * width) as f64;
        let task = of_m * of_n + COPY_COST_A * of_m + COPY_COST_B * of_n;
        let threads = threads.max(1);
        let rounds = (self.number * rows * cols).div_ceil(threads) as f64;
        let waits = 0.5 * (threads - 1) as f64 / threads as f64;
        (rounds + waits) * task
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::micro_kernel::Tiled;

    #[test]
    fn the_last_round_of_equal_tasks_leaves_hardly_a_thread_idle() {
        for isa in Isa::available() {
            let tiles = f32::tiles(isa);
            for threads in [2, 3, 4, 8, 64] {
                for rows in [2, 3, 5] {
                    let m = rows * 2 * tiles.rows() * threads;
                    let results = Results {
                        number: 1,
                        m,
                        panels: 1,
                    };
                    let (rows, cols) = results.cuts(&tiles, threads);
                    let (tasks, rounds) = (rows * cols, (rows * cols).div_ceil(threads));
                    assert!(
                        10 * tasks >= 9 * rounds * threads,
                        "{isa:?} {m} {threads}: {tasks}"
                    );
                }
            }
        }
    }

    #[test]
    fn no_task_is_larger_than_a_cache_and_none_is_empty() {
        for isa in Isa::available() {
            let tiles = f32::tiles(isa);
            for (number, m, panels) in [(1, 1, 1), (1, 0, 3), (1, 3, 0), (7, 100, 4), (1, 9999, 99)]
            {
                for threads in [0, 1, 2, 5, 200] {
                    let results = Results { number, m, panels };
                    let (rows, cols) = results.cuts(&tiles, threads);
                    assert!(m.div_ceil(rows) <= MAX_TASK_ROWS);
                    assert!(panels.div_ceil(cols) * tiles.cols() <= MAX_TASK_COLS);
                    assert!(rows <= m.max(1) && cols <= panels.max(1));
                }
            }
        }
    }
}
