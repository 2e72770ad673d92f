//! Nearest centroids: the centroid of the smallest squared distance for each row, in one pass over the rows.
//!
//! A block of rows is multiplied with all centroids while it is in the first-level cache. The product ranks the centroids
//! (`|c|^2 - 2 x c` differs from the squared distance by a term of the row alone); the squared distance of the nearest is
//! then summed from differences, so that it does not cancel. The same pass can sum the rows of each cluster.
//!
//! ```
//! use thalweg_cpu::centroids::{Centroids, ClusterSums, nearest_centroids};
//! use thalweg_cpu::{Cpu, Isa, ThreadPool};
//!
//! let pool = ThreadPool::new(1);
//! let cpu = Cpu { pool: &pool, isa: Isa::detect() };
//! let shape = Centroids { rows: 3, dims: 1, clusters: 2 };
//! let (x, centroids) = ([0.0f32, 9.0, 11.0], [1.0, 10.0]);
//! let (mut nearest, mut distances) = ([0; 3], [0.0; 3]);
//! let (mut sums, mut counts, mut inertia) = ([0.0; 2], [0.0; 2], 0.0);
//! let clusters =
//!     ClusterSums { weights: None, sums: &mut sums, counts: &mut counts, inertia: &mut inertia };
//! let mut scratch = vec![0; shape.scratch::<f32>(cpu.isa, 1).unwrap()];
//! nearest_centroids(
//!     cpu, &shape, [&x, &centroids], (&mut nearest, &mut distances), Some(clusters), &mut scratch,
//! );
//! assert_eq!((nearest, distances), ([0, 1, 1], [1.0, 1.0, 1.0]));
//! assert_eq!((sums, counts, inertia), ([0.0, 20.0], [1.0, 2.0], 3.0));
//! ```

use crate::micro_kernel::{Ahead, Tile, Tiled};
use crate::number::Wide;
use crate::scratch::{Disjoint, Scratch, for_lanes, lanes_scratch, part};
use crate::{Cpu, Epilogue, Isa, Vectorize};

/// Rows of a block: their products with the centroids stay in the cache.
const BLOCK_ROWS: usize = 56;
/// The fewest rows of a task.
const MIN_TASK_ROWS: usize = 512;
/// The most tasks, and the most elements of their sums. Two tasks are allowed whatever they take.
const MAX_TASKS: usize = 64;
const MAX_SUMS: usize = 8 << 20;
/// Partial sums of a squared distance.
const LANES: usize = 8;

/// The shape of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Centroids {
    /// Rows to find the nearest centroids of.
    pub rows: usize,
    /// Columns of rows and centroids.
    pub dims: usize,
    /// Centroids, at least one.
    pub clusters: usize,
}

/// The sums over the rows of each cluster.
pub struct ClusterSums<'a, T> {
    /// A weight of each row, at least 0.
    pub weights: Option<&'a [T]>,
    /// The weighted sum of the rows, `[clusters, dims]`.
    pub sums: &'a mut [f64],
    /// The sum of the weights, `[clusters]`.
    pub counts: &'a mut [f64],
    /// The weighted sum of the squared distances.
    pub inertia: &'a mut f64,
}

impl Centroids {
    /// Bytes of scratch memory; `None` where they cannot be counted.
    pub fn scratch<T: Tiled>(&self, isa: Isa, threads: usize) -> Option<usize> {
        let width = T::tiles(isa).cols();
        let columns = self.clusters.checked_next_multiple_of(width)?;
        let packed = columns
            .checked_mul(self.dims + 2)?
            .checked_mul(size_of::<T>())?;
        let sums = self
            .tasks()
            .checked_mul(self.sum_len()?)?
            .checked_mul(size_of::<f64>())?;
        let lane = Scratch::bytes::<T>(columns.checked_mul(BLOCK_ROWS)?);
        packed
            .checked_add(sums)?
            .checked_add(lanes_scratch(self.tasks(), threads, lane))?
            .checked_add(Scratch::bytes::<f64>(self.clusters))?
            .checked_add(4 * Scratch::bytes::<T>(0))
    }

    /// Elements of the sums of a task: of rows, of weights, and of distances.
    fn sum_len(&self) -> Option<usize> {
        self.clusters
            .checked_mul(self.dims.checked_add(1)?)?
            .checked_add(1)
    }

    /// Tasks; they depend on the shape alone, so that sums do.
    fn tasks(&self) -> usize {
        let most = MAX_SUMS / self.sum_len().unwrap_or(usize::MAX);
        (self.rows / MIN_TASK_ROWS).clamp(1, most.clamp(2, MAX_TASKS))
    }
}

/// Finds the nearest centroid of each row, the first of equal ones, and its squared distance, and sums the clusters where
/// asked for. Distances of rows with a NaN are NaN. Results are the same on any number of threads.
///
/// # Panics
/// If a slice is not as long as `g` says, there is no centroid, or the scratch is too small.
pub fn nearest_centroids<T: Wide + Tiled>(
    cpu: Cpu<'_>,
    g: &Centroids,
    [x, centroids]: [&[T]; 2],
    (nearest, distances): (&mut [i32], &mut [T]),
    clusters: Option<ClusterSums<'_, T>>,
    scratch: &mut [u8],
) {
    assert!(
        g.clusters > 0
            && x.len() == g.rows * g.dims
            && centroids.len() == g.clusters * g.dims
            && nearest.len() == g.rows
            && distances.len() == g.rows,
        "operands do not fit {g:?}"
    );
    let width = T::tiles(cpu.isa).cols();
    let columns = g.clusters.next_multiple_of(width);
    let mut scratch = Scratch::new(scratch);
    let panels = scratch.take::<T>(columns * g.dims);
    let biases = scratch.take::<T>(columns);
    let factors = scratch.take::<T>(columns);
    pack_centroids(
        g,
        centroids,
        width,
        panels,
        (biases, scratch.take(g.clusters)),
    );
    factors.fill(T::from_f64(-2.0));
    let search = Search {
        g,
        x,
        centroids,
        panels,
        biases,
        factors,
        columns,
    };

    let tasks = g.tasks();
    let weights = clusters.as_ref().and_then(|c| c.weights);
    let each = match &clusters {
        Some(_) => g.clusters * (g.dims + 1) + 1,
        None => 0,
    };
    let sums = scratch.take::<f64>(tasks * each);
    let parts = Disjoint::new(sums);
    let (nearest, distances) = (Disjoint::new(nearest), Disjoint::new(distances));
    let lane = Scratch::bytes::<T>(columns * BLOCK_ROWS);
    for_lanes(cpu.pool, tasks, scratch.rest(), lane, &|task, lane| {
        let scores = Scratch::new(lane).take::<T>(columns * BLOCK_ROWS);
        // SAFETY: each task runs once, and its sums and rows are its own.
        let sums = unsafe { parts.slice(task * each, each) };
        sums.fill(0.0);
        let (first, rows) = part(g.rows, tasks, task);
        for at in (first..first + rows).step_by(BLOCK_ROWS) {
            let rows = BLOCK_ROWS.min(first + rows - at);
            search.score(cpu.isa, at, rows, scores);
            // SAFETY: as above.
            let (nearest, distances) =
                unsafe { (nearest.slice(at, rows), distances.slice(at, rows)) };
            let weights = weights.map(|w| &w[at..at + rows]);
            cpu.isa.run(PickNearest {
                search: &search,
                at,
                scores,
                nearest,
                distances,
                weights,
                sums,
            });
        }
    });
    if let Some(clusters) = clusters {
        let sum_of = |i: usize| -> f64 { sums.iter().skip(i).step_by(each).sum() };
        let rows = g.clusters * g.dims;
        clusters
            .sums
            .iter_mut()
            .enumerate()
            .for_each(|(i, sum)| *sum = sum_of(i));
        clusters
            .counts
            .iter_mut()
            .enumerate()
            .for_each(|(i, sum)| *sum = sum_of(rows + i));
        *clusters.inertia = sum_of(each - 1);
    }
}

/// Packs centroids, less the first of them, as panels, and sums the terms that rank them beside the products. Without the
/// shift, products would be large where all rows are far from zero.
fn pack_centroids<T: Wide>(
    g: &Centroids,
    centroids: &[T],
    width: usize,
    panels: &mut [T],
    (biases, terms): (&mut [T], &mut [f64]),
) {
    // Centroids that fill the last panel are never the nearest.
    panels.fill(T::ZERO);
    biases.fill(T::from_f64(f64::INFINITY));
    terms.fill(0.0);
    for (c, centroid) in centroids.chunks_exact(g.dims.max(1)).enumerate() {
        for (p, (value, first)) in centroid.iter().zip(centroids).enumerate() {
            let shifted = *value - *first;
            panels[(c / width) * g.dims * width + p * width + c % width] = shifted;
            terms[c] += shifted.to_f64() * (shifted.to_f64() + 2.0 * first.to_f64());
        }
    }
    biases
        .iter_mut()
        .zip(terms)
        .for_each(|(bias, term)| *bias = T::from_f64(*term));
}

/// Centroids that are packed, and the rows to search them for.
struct Search<'a, T> {
    g: &'a Centroids,
    x: &'a [T],
    centroids: &'a [T],
    panels: &'a [T],
    biases: &'a [T],
    factors: &'a [T],
    /// Centroids, and those that fill the last panel.
    columns: usize,
}

impl<T: Wide + Tiled> Search<'_, T> {
    /// The scores of a block of rows, `[rows, columns]`.
    fn score(&self, isa: Isa, at: usize, rows: usize, scores: &mut [T]) {
        let (tiles, dims) = (T::tiles(isa), self.g.dims);
        let x = &self.x[at * dims..][..rows * dims];
        if dims == 0 {
            return scores.fill(T::ZERO);
        }
        for row in (0..rows).step_by(tiles.rows()) {
            for column in (0..self.columns).step_by(tiles.cols()) {
                let tile = Tile {
                    a: x[row * dims..].as_ptr(),
                    offsets: &[0],
                    len: dims,
                    a_row: dims,
                    a_col: 1,
                    b: self.panels[column * dims..].as_ptr(),
                    b_row: tiles.cols(),
                    c: scores[row * self.columns + column..].as_mut_ptr(),
                    c_row: self.columns,
                    cols: tiles.cols().min(self.g.clusters - column),
                    add: false,
                    epilogue: Epilogue {
                        scale: Some(&self.factors[column..]),
                        bias: Some(&self.biases[column..]),
                        ..Epilogue::NONE
                    },
                    ahead: Ahead::NONE,
                };
                // SAFETY: `x` has these rows, a panel has `dims` rows of a tile's width, scores have `columns` in each row,
                // and the lists are as long; all are whole panels.
                unsafe { tiles.run(tiles.rows().min(rows - row), &tile) };
            }
        }
    }
}

/// Picks the nearest centroid of each row of a block, and adds the row to its cluster's sums, where there are any.
struct PickNearest<'a, T> {
    search: &'a Search<'a, T>,
    at: usize,
    scores: &'a [T],
    nearest: &'a mut [i32],
    distances: &'a mut [T],
    weights: Option<&'a [T]>,
    sums: &'a mut [f64],
}

impl<T: Wide> Vectorize for PickNearest<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Search {
            g,
            x,
            centroids,
            columns,
            ..
        } = *self.search;
        let (cluster_sums, rest) = match self.sums.len() {
            0 => (&mut [][..], &mut [][..]),
            _ => self.sums.split_at_mut(g.clusters * g.dims),
        };
        let out = self.nearest.iter_mut().zip(&mut *self.distances);
        for (row, (nearest, distance)) in out.enumerate() {
            let scores = &self.scores[row * columns..][..g.clusters];
            let (mut best, mut found) = (scores[0], 0);
            for (c, score) in scores.iter().enumerate() {
                let closer = *score < best;
                best = if closer { *score } else { best };
                found = if closer { c } else { found };
            }
            *nearest = found as i32;
            let x = &x[(self.at + row) * g.dims..][..g.dims];
            *distance = squared_distance(x, &centroids[found * g.dims..][..g.dims]);
            if !rest.is_empty() {
                let to = &mut cluster_sums[found * g.dims..][..g.dims];
                let weight = self.weights.map_or(1.0, |w| w[row].to_f64());
                match self.weights {
                    None => to.iter_mut().zip(x).for_each(|(sum, x)| *sum += x.to_f64()),
                    Some(_) => to
                        .iter_mut()
                        .zip(x)
                        .for_each(|(sum, x)| *sum += weight * x.to_f64()),
                }
                rest[found] += weight;
                rest[g.clusters] += weight * distance.to_f64();
            }
        }
    }
}

/// The squared distance of two points.
#[inline(always)]
fn squared_distance<T: Wide>(a: &[T], b: &[T]) -> T {
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [T::ZERO; LANES];
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for i in 0..LANES {
            let apart = a[i] - b[i];
            sums[i] = sums[i] + apart * apart;
        }
    }
    let rest = a_rest.iter().zip(b_rest).fold(T::ZERO, |sum, (a, b)| {
        let apart = *a - *b;
        sum + apart * apart
    });
    sums.into_iter().fold(rest, |sum, part| sum + part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadPool;

    /// Rows on a grid, so that many distances are equal.
    fn points(rows: usize, dims: usize, offset: f64) -> Vec<f64> {
        let at = |i: usize| ((i * 7919 + i / 13) % 11) as f64 - 5.0 + offset;
        (0..rows * dims).map(at).collect()
    }

    fn search(
        g: &Centroids,
        x: &[f64],
        c: &[f64],
        weights: Option<&[f64]>,
        isa: Isa,
        threads: usize,
    ) -> (Vec<i32>, Vec<f64>, Vec<f64>) {
        let pool = ThreadPool::new(threads);
        let (mut nearest, mut distances) = (vec![-1; g.rows], vec![f64::NAN; g.rows]);
        let mut sums = vec![f64::NAN; g.clusters * (g.dims + 1) + 1];
        let (rows, rest) = sums.split_at_mut(g.clusters * g.dims);
        let (counts, inertia) = rest.split_at_mut(g.clusters);
        let clusters = ClusterSums {
            weights,
            sums: rows,
            counts,
            inertia: &mut inertia[0],
        };
        let mut scratch = vec![0xff; g.scratch::<f64>(isa, threads).unwrap()];
        let out = (&mut *nearest, &mut *distances);
        nearest_centroids(
            Cpu { pool: &pool, isa },
            g,
            [x, c],
            out,
            Some(clusters),
            &mut scratch,
        );
        (nearest, distances, sums)
    }

    #[test]
    fn the_nearest_centroid_is_the_first_of_those_with_the_smallest_distance() {
        for (rows, dims, clusters) in [
            (0, 2, 3),
            (1, 1, 1),
            (7, 0, 2),
            (57, 3, 9),
            (1500, 5, 17),
            (300, 40, 2),
        ] {
            let g = Centroids {
                rows,
                dims,
                clusters,
            };
            // Whole numbers: products and distances are exact.
            for offset in [0.0, 1e6] {
                let (x, c) = (points(rows, dims, offset), points(clusters, dims, offset));
                let weights: Vec<f64> = (0..rows).map(|i| (i % 3) as f64).collect();
                for weights in [None, Some(&*weights)] {
                    for (isa, threads) in Isa::available().flat_map(|isa| [(isa, 1), (isa, 3)]) {
                        let (nearest, distances, sums) = search(&g, &x, &c, weights, isa, threads);
                        let mut wanted = vec![0.0; sums.len()];
                        for r in 0..rows {
                            let apart = |k: usize| -> f64 {
                                (0..dims)
                                    .map(|p| (x[r * dims + p] - c[k * dims + p]).powi(2))
                                    .sum()
                            };
                            let best = (0..clusters)
                                .fold(0, |b, k| if apart(k) < apart(b) { k } else { b });
                            assert_eq!(
                                (nearest[r] as usize, distances[r]),
                                (best, apart(best)),
                                "{g:?} {isa:?} row {r}"
                            );
                            let w = weights.map_or(1.0, |w| w[r]);
                            (0..dims).for_each(|p| wanted[best * dims + p] += w * x[r * dims + p]);
                            wanted[clusters * dims + best] += w;
                            wanted[clusters * (dims + 1)] += w * apart(best);
                        }
                        assert_eq!(sums, wanted, "{g:?} {isa:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_with_nan_has_a_distance_of_nan() {
        let g = Centroids {
            rows: 2,
            dims: 2,
            clusters: 2,
        };
        let (_, distances, _) = search(
            &g,
            &[f64::NAN, 1.0, 2.0, 2.0],
            &[0.0, 0.0, 2.0, 2.0],
            None,
            Isa::detect(),
            1,
        );
        assert!(
            distances[0].is_nan() && distances[1] == 0.0,
            "{distances:?}"
        );
    }
}
