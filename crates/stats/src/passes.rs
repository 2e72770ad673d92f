//! Sessions of fits, and values that all ranks agree on.

use thalweg_graph::Graph;
use thalweg_hvd::{Hvd, ReduceOp};
use thalweg_session::{Session, SessionOptions};
use thalweg_tensor::Tensor;

use crate::error::StatsError;
use crate::rows::{Block, RowBlocks, check_rows};

/// Columns of features and of targets, which are the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    pub x: usize,
    pub y: usize,
}

impl Columns {
    /// The columns of these rows.
    ///
    /// # Errors
    /// The dtype of the rows, or other ranks have other columns or another dtype.
    pub(crate) fn agreed(hvd: &Hvd, rows: &dyn RowBlocks) -> Result<Columns, StatsError> {
        check_rows(rows)?;
        let (x, y) = rows.columns();
        if x == 0 {
            return Err(StatsError::invalid(
                "the rows have no columns of features: give at least one",
            ));
        }
        let own = [x as i64, y as i64, rows.dtype().size() as i64];
        let mine = Tensor::vector(&own);
        let least = hvd.allreduce(mine.clone(), ReduceOp::Min)?;
        let most = hvd.allreduce(mine, ReduceOp::Max)?;
        if least != most {
            return Err(StatsError::invalid(format!(
                "ranks have rows of other columns or dtypes: this one has {x} features, {y} targets and {}, \
                 and the numbers over all ranks lie between {:?} and {:?} (features, targets, bytes of an element)",
                rows.dtype(),
                least.as_slice::<i64>()?,
                most.as_slice::<i64>()?
            )));
        }
        Ok(Columns { x, y })
    }
}

/// A session for a fit, as this rank; without options, with its share of the cores of its host.
pub(crate) fn session<'g>(
    hvd: &Hvd,
    graph: &'g Graph,
    options: Option<&SessionOptions>,
) -> Result<Session<'g>, StatsError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let share = || SessionOptions::new().threads((cores / hvd.local_size()).max(1));
    let options = options.cloned().unwrap_or_else(share);
    Ok(Session::with_options(graph, hvd.session(options))?)
}

/// Passes over all blocks; `step` gets the number of the block's first row.
pub(crate) fn over_blocks(
    rows: &dyn RowBlocks,
    step: &mut dyn FnMut(usize, &Block) -> Result<(), StatsError>,
) -> Result<(), StatsError> {
    let mut first_row = 0;
    rows.for_each(&mut |block| {
        step(first_row, &block)?;
        first_row += block.x.dims().first().copied().unwrap_or(0);
        Ok(())
    })
}
