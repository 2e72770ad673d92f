//! Starts of K-means: k-means++ and k-means|| over the rows of all ranks.
//!
//! All ranks draw the same random numbers. A row is drawn by its place among the rows of all ranks, in their order, so the
//! start does not depend on the number of ranks.

use thalweg_tensor::{DType, Tensor};

use super::centroids::{element, narrowed, row_of, widened};
use super::graph::Steps;
use super::options::Start;
use crate::error::StatsError;
use crate::passes::over_blocks;
use crate::random::uniform;
use crate::rows::{RowBlocks, Rows};

/// Rows of a start that is drawn.
pub(super) struct Draw<'a, 'g> {
    pub steps: &'a mut Steps<'g>,
    pub rows: &'a dyn RowBlocks,
    pub dims: usize,
    pub seed: u64,
    pub rank: usize,
}

/// The squared distances of the rows of this rank to the nearest centroid so far, by block.
struct Distances {
    blocks: Vec<Tensor>,
    /// `true` before the first centroid: all rows are equally far.
    none: bool,
}

impl Draw<'_, '_> {
    /// The centroids of a start, `[k, d]`.
    ///
    /// # Errors
    /// Fewer rows than clusters, or an error of a step.
    pub(super) fn centroids(&mut self, start: &Start, k: usize) -> Result<Vec<f64>, StatsError> {
        let rows = self.count_rows()?;
        if rows.iter().sum::<f64>() < k as f64 {
            return Err(StatsError::invalid(format!(
                "{k} clusters are asked for, of {} rows: take at most as many clusters as rows",
                rows.iter().sum::<f64>()
            )));
        }
        match start {
            Start::PlusPlus => {
                let mut distances = self.unknown()?;
                self.plus_plus(&mut distances, Vec::new(), k)
            }
            Start::Parallel {
                rounds,
                oversampling,
            } => {
                let before = rows[..self.rank].iter().sum::<f64>() as u64;
                self.parallel(k, *rounds, oversampling * k as f64, before)
            }
            Start::Given(centroids) => widened(centroids),
        }
    }

    /// The number of rows of each rank.
    fn count_rows(&mut self) -> Result<Vec<f64>, StatsError> {
        let mut own = 0;
        over_blocks(self.rows, &mut |_, block| {
            own += block.x.dims().first().copied().unwrap_or(0);
            Ok(())
        })?;
        self.steps.gather(&[own as f64], 1)
    }

    /// Distances before the first centroid.
    fn unknown(&self) -> Result<Distances, StatsError> {
        let mut blocks = Vec::new();
        over_blocks(self.rows, &mut |_, block| {
            let rows = block.x.dims().first().copied().unwrap_or(0);
            blocks.push(match block.x.dtype() {
                DType::F32 => Tensor::vector(&vec![f32::MAX; rows]),
                _ => Tensor::vector(&vec![f64::MAX; rows]),
            });
            Ok(())
        })?;
        Ok(Distances { blocks, none: true })
    }

    /// Draws rows, one after the other, until there are `k` centroids.
    fn plus_plus(
        &mut self,
        distances: &mut Distances,
        mut centroids: Vec<f64>,
        k: usize,
    ) -> Result<Vec<f64>, StatsError> {
        while centroids.len() < k * self.dims {
            let draw = uniform(self.seed, (0, (centroids.len() / self.dims) as u64));
            let row = self.draw_row(distances, draw)?;
            self.approach(distances, &row)?;
            centroids.extend(row);
        }
        Ok(centroids)
    }

    /// Draws a row with a probability by its weight and squared distance; `draw` is in `[0, 1)`.
    fn draw_row(&mut self, distances: &Distances, draw: f64) -> Result<Vec<f64>, StatsError> {
        let mut totals = self.masses(distances, false)?;
        // All rows are centroids already: any row does.
        let any = totals.iter().sum::<f64>() <= 0.0;
        if any {
            totals = self.masses(distances, true)?;
        }
        let mut left = draw * totals.iter().sum::<f64>();
        let last = totals.iter().rposition(|t| *t > 0.0).unwrap_or(0);
        let mut rank = 0;
        while rank < last && left >= totals[rank] {
            left -= totals[rank];
            rank += 1;
        }
        let own = match rank == self.rank {
            true => self.row_at(distances, any, left)?,
            false => Vec::new(),
        };
        self.steps.gather(&own, self.dims)
    }

    /// The sum of the masses of the rows of each rank.
    fn masses(&mut self, distances: &Distances, any: bool) -> Result<Vec<f64>, StatsError> {
        let mut sum = 0.0;
        self.each_mass(distances, any, &mut |_, _, mass| {
            sum += mass;
            Ok(())
        })?;
        self.steps.gather(&[sum], 1)
    }

    /// The row of this rank at which the running sum of masses passes `left`.
    fn row_at(&self, distances: &Distances, any: bool, left: f64) -> Result<Vec<f64>, StatsError> {
        let (mut sum, mut found) = (0.0, None);
        self.each_mass(distances, any, &mut |x, row, mass| {
            // The last row with a mass, should rounding leave the sum behind `left`.
            if mass > 0.0 && sum <= left {
                found = Some((x.clone(), row));
            }
            sum += mass;
            Ok(())
        })?;
        found.map_or(Ok(Vec::new()), |(x, row)| row_of(&x, row))
    }

    /// Calls `take` with each row of this rank and its mass: weight times squared distance, or the weight alone where
    /// distances do not count.
    fn each_mass(
        &self,
        distances: &Distances,
        any: bool,
        take: &mut dyn FnMut(&Tensor, usize, f64) -> Result<(), StatsError>,
    ) -> Result<(), StatsError> {
        let mut blocks = distances.blocks.iter();
        over_blocks(self.rows, &mut |_, block| {
            let changed =
                || StatsError::invalid("the source of rows gives other blocks in another pass");
            let best = blocks.next().ok_or_else(changed)?;
            if best.dims().first() != block.x.dims().first() {
                return Err(changed());
            }
            for row in 0..best.len() {
                let weight = match block.weights.is_empty() {
                    true => 1.0,
                    false => element(&block.weights, row)?,
                };
                let distance = match any || distances.none {
                    true => 1.0,
                    false => element(best, row)?,
                };
                take(&block.x, row, weight * distance)?;
            }
            Ok(())
        })
    }

    /// Updates the distances by more centroids, `[m, d]`.
    fn approach(&mut self, distances: &mut Distances, centroids: &[f64]) -> Result<(), StatsError> {
        let dims = [centroids.len() / self.dims, self.dims];
        let centroids = narrowed(self.rows.dtype(), dims, centroids)?;
        distances.none = false;
        let mut blocks = distances.blocks.iter_mut();
        over_blocks(self.rows, &mut |first_row, block| {
            if let Some(best) = blocks.next() {
                *best = self.steps.closer(first_row, &block.x, &centroids, best)?;
            }
            Ok(())
        })
    }

    /// k-means||: several rows in each round, then k-means++ over these, weighted by the rows that are nearest to each.
    fn parallel(
        &mut self,
        k: usize,
        rounds: usize,
        wanted: f64,
        first_row: u64,
    ) -> Result<Vec<f64>, StatsError> {
        let mut distances = self.unknown()?;
        let mut candidates = self.plus_plus(&mut distances, Vec::new(), 1)?;
        for round in 1..=rounds as u64 {
            let total: f64 = self.masses(&distances, false)?.iter().sum();
            let (mut own, mut number) = (Vec::new(), first_row);
            let seed = self.seed;
            self.each_mass(&distances, false, &mut |x, row, mass| {
                if uniform(seed, (round, number)) < wanted * mass / total {
                    own.extend(row_of(x, row)?);
                }
                number += 1;
                Ok(())
            })?;
            let found = self.steps.gather(&own, self.dims)?;
            if !found.is_empty() {
                self.approach(&mut distances, &found)?;
                candidates.extend(found);
            }
        }
        if candidates.len() <= k * self.dims {
            return self.plus_plus(&mut distances, candidates, k);
        }
        self.choose(candidates, k)
    }

    /// Chooses `k` of the candidates by k-means++: those of the first rank are the rows to draw from.
    fn choose(&mut self, candidates: Vec<f64>, k: usize) -> Result<Vec<f64>, StatsError> {
        let (dtype, count) = (self.rows.dtype(), candidates.len() / self.dims);
        let matrix = narrowed(dtype, [count, self.dims], &candidates)?;
        let mut weights = vec![0.0; count];
        over_blocks(self.rows, &mut |first_row, block| {
            let (nearest, _) = self.steps.search(first_row, &block.x, &matrix)?;
            for (row, candidate) in nearest.as_slice::<i32>()?.iter().enumerate() {
                weights[*candidate as usize] += match block.weights.is_empty() {
                    true => 1.0,
                    false => element(&block.weights, row)?,
                };
            }
            Ok(())
        })?;
        let all = self.steps.gather(&weights, count)?;
        let total = |c: usize| -> f64 { all.iter().skip(c).step_by(count).sum() };
        let weights: Vec<f64> = (0..count).map(total).collect();
        let rows = match self.rank {
            0 => Rows::new(matrix).weights(weights_of(dtype, &weights)?),
            _ => Rows::new(narrowed(dtype, [0, self.dims], &[])?),
        };
        let mut draw = Draw {
            steps: self.steps,
            rows: &rows,
            dims: self.dims,
            seed: self.seed ^ 1,
            rank: self.rank,
        };
        let mut distances = draw.unknown()?;
        draw.plus_plus(&mut distances, Vec::new(), k)
    }
}

fn weights_of(dtype: DType, weights: &[f64]) -> Result<Tensor, StatsError> {
    let column = narrowed(dtype, [weights.len(), 1], weights)?;
    Ok(column.reshaped(&[weights.len()])?)
}
