//! Distances of rows to their nearest centroid so far, by which a start draws.

use thalweg_tensor::{DType, Tensor};

use super::centroids::widened;
use crate::error::StatsError;
use crate::passes::over_blocks;
use crate::rows::RowBlocks;

/// The place of a row among those of a rank: its block, and its row in the block.
pub(super) type Place = (usize, usize);

/// The squared distances and weights of the rows of this rank, by block.
pub(super) struct Distances {
    pub blocks: Vec<BlockDistances>,
    /// `true` before the first centroid: all rows are equally far.
    pub none: bool,
}

/// The squared distances and weights of the rows of a block.
pub(super) struct BlockDistances {
    /// `[n]`.
    pub best: Tensor,
    /// `[n]`, or `[0]` where each row counts once.
    weights: Tensor,
}

impl Distances {
    /// Distances before the first centroid, by a pass over the rows.
    pub(super) fn unknown(rows: &dyn RowBlocks) -> Result<Distances, StatsError> {
        let mut blocks = Vec::new();
        over_blocks(rows, &mut |_, block| {
            let count = block.x.dims().first().copied().unwrap_or(0);
            let best = match block.x.dtype() {
                DType::F32 => Tensor::vector(&vec![f32::MAX; count]),
                _ => Tensor::vector(&vec![f64::MAX; count]),
            };
            let weights = block.weights.clone();
            blocks.push(BlockDistances { best, weights });
            Ok(())
        })?;
        Ok(Distances { blocks, none: true })
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.blocks.iter().map(|block| block.best.len()).sum()
    }

    /// Calls `take` with each row and its mass: weight times squared distance. `any` leaves the distances out.
    pub(super) fn each_mass(
        &self,
        any: bool,
        take: &mut dyn FnMut(Place, f64),
    ) -> Result<(), StatsError> {
        for (number, block) in self.blocks.iter().enumerate() {
            let weights = widened(&block.weights)?;
            let weight = |row: usize| weights.get(row).copied().unwrap_or(1.0);
            if any || self.none {
                (0..block.best.len()).for_each(|row| take((number, row), weight(row)));
                continue;
            }
            for (row, distance) in widened(&block.best)?.into_iter().enumerate() {
                take((number, row), weight(row) * distance);
            }
        }
        Ok(())
    }

    /// The sum of all masses.
    pub(super) fn mass(&self, any: bool) -> Result<f64, StatsError> {
        let mut sum = 0.0;
        self.each_mass(any, &mut |_, mass| sum += mass)?;
        Ok(sum)
    }

    /// The row at which the running sum of masses passes `left`.
    pub(super) fn place_at(&self, any: bool, left: f64) -> Result<Option<Place>, StatsError> {
        let (mut sum, mut found) = (0.0, None);
        self.each_mass(any, &mut |place, mass| {
            // The last row with a mass, should rounding leave the sum behind `left`.
            if mass > 0.0 && sum <= left {
                found = Some(place);
            }
            sum += mass;
        })?;
        Ok(found)
    }
}
