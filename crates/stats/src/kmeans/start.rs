//! Starts of K-means: k-means++ and k-means|| over the rows of all ranks.
//!
//! All ranks draw the same random numbers. A row is drawn by its place among the rows of all ranks, in their order, so the
//! start does not depend on the number of ranks.

use super::centroids::{narrowed, row_of, widened};
use super::distances::{Distances, Place};
use super::graph::Steps;
use super::options::Start;
use crate::error::StatsError;
use crate::passes::over_blocks;
use crate::random::uniform;
use crate::rows::{Block, RowBlocks, Rows};

/// Rows of a start that is drawn.
pub(super) struct Draw<'a, 'g> {
    pub steps: &'a mut Steps<'g>,
    pub rows: &'a dyn RowBlocks,
    pub dims: usize,
    pub seed: u64,
    pub rank: usize,
}

impl Draw<'_, '_> {
    /// The centroids of a start, `[k, d]`.
    ///
    /// # Errors
    /// Fewer rows than clusters, or an error of a step.
    pub(super) fn centroids(&mut self, start: &Start, k: usize) -> Result<Vec<f64>, StatsError> {
        let mut distances = Distances::unknown(self.rows)?;
        let rows = self.steps.gather(&[distances.rows() as f64], 1)?;
        let all: f64 = rows.iter().sum();
        if all < k as f64 {
            return Err(StatsError::invalid(format!(
                "{k} clusters are asked for, of {all} rows: take at most as many clusters as rows"
            )));
        }
        match start {
            Start::PlusPlus => self.plus_plus(&mut distances, Vec::new(), k),
            Start::Parallel {
                rounds,
                oversampling,
            } => {
                let before = rows[..self.rank].iter().sum::<f64>() as u64;
                let wanted = oversampling * k as f64;
                let candidates = self.candidates(&mut distances, *rounds, wanted, before)?;
                match candidates.len() <= k * self.dims {
                    true => self.plus_plus(&mut distances, candidates, k),
                    false => self.choose(candidates, k),
                }
            }
            Start::Given(centroids) => widened(centroids),
        }
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
        let mut totals = self.steps.gather(&[distances.mass(false)?], 1)?;
        // All rows are centroids already: any row does.
        let any = totals.iter().sum::<f64>() <= 0.0;
        if any {
            totals = self.steps.gather(&[distances.mass(true)?], 1)?;
        }
        let mut left = draw * totals.iter().sum::<f64>();
        let last = totals.iter().rposition(|t| *t > 0.0).unwrap_or(0);
        let mut rank = 0;
        while rank < last && left >= totals[rank] {
            left -= totals[rank];
            rank += 1;
        }
        let own = match rank == self.rank {
            true => self.rows_at(distances.place_at(any, left)?.as_slice())?,
            false => Vec::new(),
        };
        self.steps.gather(&own, self.dims)
    }

    /// The rows at these places, which are in the order of the rows. The pass ends with the block of the last one.
    fn rows_at(&self, places: &[Place]) -> Result<Vec<f64>, StatsError> {
        let Some(&(last, _)) = places.last() else {
            return Ok(Vec::new());
        };
        let (mut found, mut left, mut number) = (Vec::new(), places, 0);
        let passed = self.rows.for_each(&mut |block| {
            let of_block = left.partition_point(|place| place.0 == number);
            for (_, row) in &left[..of_block] {
                found.extend(row_in(&block, *row)?);
            }
            left = &left[of_block..];
            number += 1;
            match number > last {
                true => Err(StatsError::Ended),
                false => Ok(()),
            }
        });
        match passed {
            Ok(()) | Err(StatsError::Ended) => Ok(found),
            Err(error) => Err(error),
        }
    }

    /// Updates the distances by more centroids, `[m, d]`.
    fn approach(&mut self, distances: &mut Distances, centroids: &[f64]) -> Result<(), StatsError> {
        let dims = [centroids.len() / self.dims, self.dims];
        let centroids = narrowed(self.rows.dtype(), dims, centroids)?;
        distances.none = false;
        let mut blocks = distances.blocks.iter_mut();
        over_blocks(self.rows, &mut |first_row, block| {
            let own = blocks.next().map(|own| &mut own.best);
            let own = own.filter(|best| best.dims().first() == block.x.dims().first());
            let best = own.ok_or_else(changed)?;
            *best = self.steps.closer(first_row, &block.x, &centroids, best)?;
            Ok(())
        })
    }

    /// The candidates of k-means||: a row, then about `wanted` rows in each round. `first_row` is the number of this rank's
    /// first row among those of all ranks.
    fn candidates(
        &mut self,
        distances: &mut Distances,
        rounds: usize,
        wanted: f64,
        first_row: u64,
    ) -> Result<Vec<f64>, StatsError> {
        let mut candidates = self.plus_plus(distances, Vec::new(), 1)?;
        for round in 1..=rounds as u64 {
            let total: f64 = self
                .steps
                .gather(&[distances.mass(false)?], 1)?
                .iter()
                .sum();
            let (mut places, mut number) = (Vec::new(), first_row);
            distances.each_mass(false, &mut |place, mass| {
                if uniform(self.seed, (round, number)) < wanted * mass / total {
                    places.push(place);
                }
                number += 1;
            })?;
            let own = self.rows_at(&places)?;
            let found = self.steps.gather(&own, self.dims)?;
            if !found.is_empty() {
                self.approach(distances, &found)?;
                candidates.extend(found);
            }
        }
        Ok(candidates)
    }

    /// Chooses `k` of the candidates by k-means++, weighted by the rows that are nearest to each: the first rank has the
    /// candidates as its rows.
    fn choose(&mut self, candidates: Vec<f64>, k: usize) -> Result<Vec<f64>, StatsError> {
        let (dtype, count) = (self.rows.dtype(), candidates.len() / self.dims);
        let matrix = narrowed(dtype, [count, self.dims], &candidates)?;
        let mut weights = vec![0.0; count];
        over_blocks(self.rows, &mut |first_row, block| {
            let (nearest, _) = self.steps.search(first_row, &block.x, &matrix)?;
            let of_rows = widened(&block.weights)?;
            for (row, candidate) in nearest.as_slice::<i32>()?.iter().enumerate() {
                weights[*candidate as usize] += of_rows.get(row).copied().unwrap_or(1.0);
            }
            Ok(())
        })?;
        let all = self.steps.gather(&weights, count)?;
        let total = |c: usize| -> f64 { all.iter().skip(c).step_by(count).sum() };
        let weights: Vec<f64> = (0..count).map(total).collect();
        let rows = match self.rank {
            0 => {
                let weights = narrowed(dtype, [count, 1], &weights)?;
                Rows::new(matrix).weights(weights.reshaped(&[count])?)
            }
            _ => Rows::new(narrowed(dtype, [0, self.dims], &[])?),
        };
        let mut draw = Draw {
            steps: self.steps,
            rows: &rows,
            dims: self.dims,
            // Other numbers than those that drew the candidates.
            seed: self.seed ^ 1,
            rank: self.rank,
        };
        draw.plus_plus(&mut Distances::unknown(&rows)?, Vec::new(), k)
    }
}

/// A row of a block as `f64`.
fn row_in(block: &Block, row: usize) -> Result<Vec<f64>, StatsError> {
    match block.x.dims().first().is_some_and(|rows| row < *rows) {
        true => row_of(&block.x, row),
        false => Err(changed()),
    }
}

fn changed() -> StatsError {
    StatsError::invalid(
        "the source of rows gives other blocks in another pass: it must give the same ones each time",
    )
}
