//! Progress of a fit, which outlives the rounds of an elastic job.

use thalweg_hvd::{Hvd, ReduceOp};
use thalweg_tensor::{DType, Tensor};

use crate::error::StatsError;

/// The iterations of a fit so far, on one rank: see [`KMeans::fit_resumed`](super::KMeans::fit_resumed).
#[derive(Clone, Debug, Default)]
pub struct KMeansProgress {
    /// The centroids after the last iteration.
    pub(super) centroids: Option<Tensor>,
    /// The inertia before each iteration.
    pub(super) history: Vec<f64>,
    pub(super) converged: bool,
}

impl KMeansProgress {
    /// Number of iterations.
    pub fn iterations(&self) -> usize {
        self.history.len()
    }

    /// Takes over the progress of the rank with the most iterations, the first of several.
    ///
    /// # Errors
    /// Centroids of another dtype or shape than those of the fit; a lost rank.
    pub(super) fn agree(
        &mut self,
        hvd: &Hvd,
        dtype: DType,
        shape: [usize; 2],
    ) -> Result<(), StatsError> {
        if let Some(own) = &self.centroids
            && (own.dtype(), own.dims()) != (dtype, &shape[..])
        {
            return Err(StatsError::invalid(format!(
                "the progress is that of another fit, whose centroids are {} of {}: give each fit a new one",
                own.shape(),
                own.dtype()
            )));
        }
        let reduced = |number: usize, op| -> Result<usize, StatsError> {
            let all = hvd.allreduce(Tensor::scalar(number as i64), op)?;
            Ok(usize::try_from(all.to_scalar::<i64>()?).unwrap_or(0))
        };
        let most = reduced(self.iterations(), ReduceOp::Max)?;
        if most == 0 {
            return Ok(());
        }
        let has_most = self.iterations() == most;
        let root = reduced(
            if has_most { hvd.rank() } else { hvd.size() },
            ReduceOp::Min,
        )?;
        let centroids = match &self.centroids {
            Some(own) => own.clone(),
            None => Tensor::zeros(dtype, &shape)?,
        };
        let mut numbers = self.history.clone();
        numbers.resize(most, 0.0);
        numbers.push(f64::from(u8::from(self.converged)));
        let numbers = hvd.broadcast(Tensor::vector(&numbers), root)?;
        let numbers = numbers.as_slice::<f64>()?;
        self.centroids = Some(hvd.broadcast(centroids, root)?);
        self.history = numbers[..most].to_vec();
        self.converged = numbers[most] != 0.0;
        Ok(())
    }
}
