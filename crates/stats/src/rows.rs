//! The rows of a rank, in memory or block by block.

use thalweg_tensor::{DType, Tensor};

use crate::error::StatsError;

/// Consecutive rows.
#[derive(Clone, Debug)]
pub struct Block {
    /// Features, `[n, p]`, `f32` or `f64`.
    pub x: Tensor,
    /// Targets, `[n, k]`, of the same dtype; `[n, 0]` where there are none.
    pub y: Tensor,
    /// A weight for each row, `[n]`, of the same dtype; `[0]` where each row counts once.
    pub weights: Tensor,
}

/// The rows of one rank, which can be passed over several times. Ranks may have different numbers of rows and blocks, and
/// no rows at all; dtype and columns are the same on all of them.
pub trait RowBlocks {
    /// Dtype of the rows: `f32` or `f64`.
    fn dtype(&self) -> DType;
    /// Columns of features and of targets.
    fn columns(&self) -> (usize, usize);
    /// Calls `take` with each block, in the same order each time.
    ///
    /// # Errors
    /// Those of `take`, and [`StatsError::Source`] where rows are not read.
    fn for_each(
        &self,
        take: &mut dyn FnMut(Block) -> Result<(), StatsError>,
    ) -> Result<(), StatsError>;

    /// The first block that has rows: a pass that is ended there, so that files are not read to their end.
    ///
    /// # Errors
    /// [`StatsError::Source`] where rows are not read.
    fn first_block(&self) -> Result<Option<Block>, StatsError> {
        let mut first = None;
        let passed = self.for_each(&mut |block| match block.x.dims() {
            [0, ..] => Ok(()),
            _ => {
                first = Some(block);
                Err(StatsError::Ended)
            }
        });
        match passed {
            Ok(()) | Err(StatsError::Ended) => Ok(first),
            Err(error) => Err(error),
        }
    }
}

/// Rows in memory: one block.
///
/// ```
/// use thalweg_stats::{RowBlocks, Rows};
/// use thalweg_tensor::Tensor;
///
/// let rows = Rows::new(Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]))
///     .targets(Tensor::from([[5.0f32], [6.0]]))
///     .weights(Tensor::from([1.0f32, 2.0]));
/// assert_eq!(rows.columns(), (2, 1));
/// ```
#[derive(Clone, Debug)]
pub struct Rows {
    x: Tensor,
    y: Option<Tensor>,
    weights: Option<Tensor>,
}

impl Rows {
    /// Features, `[n, p]`, `f32` or `f64`.
    pub fn new(x: Tensor) -> Rows {
        Rows {
            x,
            y: None,
            weights: None,
        }
    }

    /// The same with targets, `[n, k]` or `[n]`.
    pub fn targets(self, y: Tensor) -> Rows {
        Rows { y: Some(y), ..self }
    }

    /// The same with a weight for each row, at least 0, `[n]`.
    pub fn weights(self, weights: Tensor) -> Rows {
        Rows {
            weights: Some(weights),
            ..self
        }
    }
}

impl RowBlocks for Rows {
    fn dtype(&self) -> DType {
        self.x.dtype()
    }

    fn columns(&self) -> (usize, usize) {
        let y = self
            .y
            .as_ref()
            .map_or(0, |y| y.dims().get(1).copied().unwrap_or(1));
        (self.x.dims().get(1).copied().unwrap_or(0), y)
    }

    fn for_each(
        &self,
        take: &mut dyn FnMut(Block) -> Result<(), StatsError>,
    ) -> Result<(), StatsError> {
        let rows = self.x.dims().first().copied().unwrap_or(0);
        let y = match &self.y {
            Some(y) => y.reshaped(&[rows, self.columns().1])?,
            None => Tensor::zeros(self.dtype(), &[rows, 0])?,
        };
        let weights = match &self.weights {
            Some(weights) => weights.clone(),
            None => Tensor::zeros(self.dtype(), &[0])?,
        };
        take(Block {
            x: self.x.clone(),
            y,
            weights,
        })
    }
}

/// Fails unless the rows have a dtype that passes take, and columns.
pub(crate) fn check_rows(rows: &dyn RowBlocks) -> Result<(), StatsError> {
    match rows.dtype() {
        DType::F32 | DType::F64 => Ok(()),
        other => Err(StatsError::invalid(format!(
            "the rows are {other}: convert them to f32 or f64"
        ))),
    }
}
