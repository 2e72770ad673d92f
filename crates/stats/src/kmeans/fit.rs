//! Lloyd's algorithm from one or several starts.

use thalweg_graph::Graph;
use thalweg_hvd::Hvd;
use thalweg_ops::{NewGraph, StateOps};
use thalweg_tensor::{DType, Tensor};

use super::centroids::{narrowed, widened};
use super::graph::{Nodes, Steps};
use super::model::KMeansModel;
use super::options::{Iteration, KMeans, Start};
use super::progress::KMeansProgress;
use super::relocate::fill_empty_clusters;
use super::start::Draw;
use crate::error::StatsError;
use crate::passes::{Columns, session};
use crate::rows::RowBlocks;

impl KMeans {
    /// Fits the rows of all ranks. Every rank gets the same model.
    ///
    /// # Errors
    /// More clusters than rows; a number that is NaN or infinite, with its row and column; ranks that have other columns;
    /// given centroids of another shape; an error of a rank or of the source of rows.
    pub fn fit(&self, hvd: &Hvd, rows: &dyn RowBlocks) -> Result<KMeansModel, StatsError> {
        self.check()?;
        let columns = Columns::agreed(hvd, rows)?;
        best_of_starts(self, hvd, rows, columns.x, None)
    }

    /// Fits the rows of all ranks in a round of an elastic job, and goes on where the rank with the most iterations has
    /// ended in the round before. Each round shares all rows among the ranks that are left. `progress` is new for each fit.
    ///
    /// # Errors
    /// As for [`KMeans::fit`]; several starts; progress of another fit.
    ///
    /// ```
    /// use thalweg_hvd::elastic;
    /// use thalweg_stats::{KMeans, KMeansProgress, SeededRows, StatsError};
    /// use thalweg_tensor::DType;
    ///
    /// // `thalweg launch hvd -np 4 --min-np 1` starts it on some ranks; without it, this is the only one.
    /// let mut progress = KMeansProgress::default();
    /// let model = elastic::run(|job| {
    ///     let rows = SeededRows {
    ///         seed: 7, rows: 100, features: 3, targets: 0, clusters: 2, dtype: DType::F32, block_rows: 64,
    ///         share: (job.hvd().rank(), job.hvd().size()),
    ///     };
    ///     KMeans::new(2).fit_resumed(job.hvd(), &rows, &mut progress)
    /// })?;
    /// assert_eq!(model.iterations, progress.iterations());
    /// # Ok::<(), StatsError>(())
    /// ```
    pub fn fit_resumed(
        &self,
        hvd: &Hvd,
        rows: &dyn RowBlocks,
        progress: &mut KMeansProgress,
    ) -> Result<KMeansModel, StatsError> {
        self.check()?;
        if self.starts > 1 {
            return Err(StatsError::invalid(
                "a fit that is resumed has one start: leave out KMeans::starts",
            ));
        }
        let columns = Columns::agreed(hvd, rows)?;
        progress.agree(hvd, rows.dtype(), [self.clusters, columns.x])?;
        best_of_starts(self, hvd, rows, columns.x, Some(progress))
    }
}

/// The fit with the least inertia; `resumed` is the progress of the only one.
fn best_of_starts(
    kmeans: &KMeans,
    hvd: &Hvd,
    rows: &dyn RowBlocks,
    dims: usize,
    mut resumed: Option<&mut KMeansProgress>,
) -> Result<KMeansModel, StatsError> {
    let k = kmeans.clusters;
    if let Start::Given(given) = &kmeans.start
        && (given.dims() != [k, dims] || !matches!(given.dtype(), DType::F32 | DType::F64))
    {
        return Err(StatsError::invalid(format!(
            "the given centroids are {} of {}: {k} clusters of {dims} columns need f32 or f64 of [{k}, {dims}]",
            given.shape(),
            given.dtype()
        )));
    }
    let g = Graph::new();
    let nodes = Nodes::new(&g, rows.dtype(), k, dims);
    let session = session(hvd, &g, kmeans.options.as_ref())?;
    session.run(g.initializers(), [])?;
    let mut steps = Steps::new(&nodes, &session, [k, dims])?;

    let least_shift = match kmeans.tolerance {
        0.0 => 0.0,
        tolerance => tolerance * mean_variance(&mut steps, rows, [k, dims])?,
    };
    let mut best: Option<KMeansModel> = None;
    // Given centroids lead to one result.
    let starts = match kmeans.start {
        Start::Given(_) => 1,
        _ => kmeans.starts,
    };
    for start in 0..starts {
        let seed = kmeans.seed.wrapping_add(start as u64);
        let mut draw = Draw {
            steps: &mut steps,
            rows,
            dims,
            seed,
            rank: hvd.rank(),
        };
        let mut own = KMeansProgress::default();
        let progress = resumed.as_deref_mut().unwrap_or(&mut own);
        let centroids = match &progress.centroids {
            Some(centroids) => centroids.clone(),
            None => {
                let drawn = draw.centroids(&kmeans.start, k)?;
                narrowed(rows.dtype(), [k, dims], &drawn)?
            }
        };
        let mut lloyd = Lloyd {
            kmeans,
            steps: &mut steps,
            rows,
            dims,
            least_shift,
        };
        let model = lloyd.run(start, centroids, progress)?;
        if best
            .as_ref()
            .is_none_or(|best| model.inertia < best.inertia)
        {
            best = Some(model);
        }
    }
    best.ok_or_else(|| StatsError::invalid("there must be at least one start"))
}

/// The mean over all columns of their variance, over the rows of all ranks; weights do not count, as in scikit-learn. A pass
/// has the mean of the rows, and a second one their squared distances from it.
fn mean_variance(
    steps: &mut Steps<'_>,
    rows: &dyn RowBlocks,
    [k, dims]: [usize; 2],
) -> Result<f64, StatsError> {
    // Equal centroids: the first one has all rows.
    let at = |point: &[f64]| narrowed(rows.dtype(), [k, dims], &point.repeat(k));
    let sums = steps.unweighted_sums(rows, &at(&vec![0.0; dims])?)?;
    let count = sums.counts[0].max(1.0);
    let mean: Vec<f64> = sums.rows[..dims].iter().map(|sum| sum / count).collect();
    let inertia = steps.unweighted_sums(rows, &at(&mean)?)?.inertia;
    Ok(inertia / count / dims as f64)
}

/// Iterations from a start.
struct Lloyd<'a, 'g> {
    kmeans: &'a KMeans,
    steps: &'a mut Steps<'g>,
    rows: &'a dyn RowBlocks,
    dims: usize,
    /// Squares of the centroids' moves at which iterations end.
    least_shift: f64,
}

impl Lloyd<'_, '_> {
    fn run(
        &mut self,
        start: usize,
        mut centroids: Tensor,
        progress: &mut KMeansProgress,
    ) -> Result<KMeansModel, StatsError> {
        while !progress.converged && progress.iterations() < self.kmeans.max_iterations {
            let (moved, inertia, shift) = self.iterate(&centroids)?;
            progress.history.push(inertia);
            progress.converged = shift <= self.least_shift;
            centroids = moved;
            progress.centroids = Some(centroids.clone());
            if let Some(observer) = &self.kmeans.observer {
                observer(&Iteration {
                    start,
                    number: progress.iterations(),
                    inertia,
                    shift,
                });
            }
        }
        // The inertia of the last centroids.
        let inertia = self.steps.sums(self.rows, &centroids)?.inertia;
        Ok(KMeansModel {
            centroids,
            inertia,
            iterations: progress.iterations(),
            converged: progress.converged,
            history: progress.history.clone(),
        })
    }

    /// Returns the moved centroids, the inertia before, and the squares of their moves.
    fn iterate(&mut self, centroids: &Tensor) -> Result<(Tensor, f64, f64), StatsError> {
        let mut sums = self.steps.sums(self.rows, centroids)?;
        fill_empty_clusters(self.steps, self.rows, (centroids, self.dims), &mut sums)?;
        let before = widened(centroids)?;
        let mut moved = before.clone();
        for (cluster, count) in sums
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0.0)
        {
            let at = cluster * self.dims..(cluster + 1) * self.dims;
            for (x, sum) in moved[at.clone()].iter_mut().zip(&sums.rows[at]) {
                *x = sum / count;
            }
        }
        let moved = narrowed(self.rows.dtype(), [sums.counts.len(), self.dims], &moved)?;
        let after = widened(&moved)?;
        let shift = after
            .iter()
            .zip(&before)
            .map(|(a, b)| (a - b) * (a - b))
            .sum();
        Ok((moved, sums.inertia, shift))
    }
}
