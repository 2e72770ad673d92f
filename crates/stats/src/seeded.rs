//! Rows that a seed makes, for trials and timing.

use thalweg_tensor::{DType, Element, Tensor};

use crate::error::StatsError;
use crate::random::uniform;
use crate::rows::{Block, RowBlocks, Rows};

/// Half of the width of noise with a variance of 1.
const NOISE: f64 = 1.732_050_807_568_877_2;
/// Half of the width of the box that centres of clusters lie in.
const BOX: f64 = 10.0;
/// Noise of targets.
const TARGET_NOISE: f64 = 0.1;

/// Rows that a seed makes: the same whatever the number of ranks that share them.
///
/// Without clusters, features are even between -1.7 and 1.7, with a variance of 1. With clusters, each row lies around the
/// centre of one of them. A target is 1 and the sum of the features, each times its coefficient, and a little noise.
///
/// ```
/// use thalweg_stats::{RowBlocks, SeededRows};
/// use thalweg_tensor::DType;
///
/// # fn main() -> Result<(), thalweg_stats::StatsError> {
/// let all = SeededRows {
///     seed: 7, rows: 100, features: 3, targets: 1, clusters: 0, dtype: DType::F32, block_rows: 64, share: (0, 1),
/// };
/// let mut sizes = Vec::new();
/// all.for_each(&mut |block| {
///     sizes.push(block.x.dims().to_vec());
///     Ok(())
/// })?;
/// assert_eq!(sizes, [[64, 3], [36, 3]]);
/// assert_eq!(all.bytes(), 100 * 4 * 4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SeededRows {
    /// Seed of all numbers.
    pub seed: u64,
    /// Rows of all ranks.
    pub rows: u64,
    /// Columns of features.
    pub features: usize,
    /// Columns of targets.
    pub targets: usize,
    /// Number of clusters; 0 for rows without.
    pub clusters: usize,
    /// `f32` or `f64`.
    pub dtype: DType,
    /// Rows of a block.
    pub block_rows: usize,
    /// The rank, and the number of ranks that share the rows.
    pub share: (usize, usize),
}

impl SeededRows {
    /// The rows of this rank, in memory.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn made(&self) -> Result<Rows, StatsError> {
        let (first, end) = self.bounds();
        let block = self.block(first, (end - first) as usize)?;
        let rows = Rows::new(block.x);
        Ok(if self.targets > 0 {
            rows.targets(block.y)
        } else {
            rows
        })
    }

    /// Bytes of the rows of this rank.
    pub fn bytes(&self) -> u64 {
        let (first, end) = self.bounds();
        let width = (self.features + self.targets) * self.dtype.size();
        (end - first).saturating_mul(width as u64)
    }

    /// The rows of this rank: consecutive ones.
    fn bounds(&self) -> (u64, u64) {
        let (rank, ranks) = (self.share.0 as u128, self.share.1.max(1) as u128);
        let bound = |rank: u128| (u128::from(self.rows) * rank / ranks) as u64;
        (bound(rank), bound(rank + 1))
    }

    fn block(&self, first: u64, rows: usize) -> Result<Block, StatsError> {
        let weights = Tensor::zeros(self.dtype, &[0])?;
        let (x, y) = match self.dtype {
            DType::F32 => self.filled::<f32>(first, rows, |x| x as f32)?,
            _ => self.filled::<f64>(first, rows, |x| x)?,
        };
        Ok(Block { x, y, weights })
    }

    fn filled<T: Element>(
        &self,
        first: u64,
        rows: usize,
        narrow: fn(f64) -> T,
    ) -> Result<(Tensor, Tensor), StatsError> {
        let mut x = Tensor::zeros(self.dtype, &[rows, self.features])?;
        let mut y = Tensor::zeros(self.dtype, &[rows, self.targets])?;
        let coefficients: Vec<f64> = (0..self.features * self.targets)
            .map(|i| 2.0 * uniform(self.seed, (u64::MAX, i as u64)) - 1.0)
            .collect();
        let mut targets = y.as_mut_slice::<T>()?.iter_mut();
        let mut sums = vec![0.0; self.targets];
        let features = x
            .as_mut_slice::<T>()?
            .chunks_exact_mut(self.features.max(1));
        for (number, to) in (first..).zip(features) {
            sums.fill(1.0);
            for (column, to) in to.iter_mut().enumerate() {
                let value = self.feature(number, column as u64);
                *to = narrow(value);
                for (target, sum) in sums.iter_mut().enumerate() {
                    *sum += coefficients[target * self.features + column] * value;
                }
            }
            for (target, (sum, to)) in sums.iter().zip(&mut targets).enumerate() {
                let noise = uniform(self.seed ^ 1, (number, target as u64)) - 0.5;
                *to = narrow(sum + TARGET_NOISE * noise);
            }
        }
        drop(targets);
        Ok((x, y))
    }

    fn feature(&self, row: u64, column: u64) -> f64 {
        let noise = NOISE * (2.0 * uniform(self.seed, (row, column)) - 1.0);
        match self.clusters as u64 {
            0 => noise,
            clusters => {
                let centre = uniform(self.seed ^ 2, (row % clusters, column));
                BOX * (2.0 * centre - 1.0) + noise
            }
        }
    }
}

impl RowBlocks for SeededRows {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn columns(&self) -> (usize, usize) {
        (self.features, self.targets)
    }

    fn for_each(
        &self,
        take: &mut dyn FnMut(Block) -> Result<(), StatsError>,
    ) -> Result<(), StatsError> {
        let (mut at, end) = self.bounds();
        while at < end {
            let rows = (end - at).min(self.block_rows.max(1) as u64);
            take(self.block(at, rows as usize)?)?;
            at += rows;
        }
        Ok(())
    }
}
