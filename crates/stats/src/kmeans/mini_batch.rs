//! K-means of mini-batches (Sculley, 2010): centroids move with each batch, and no row is kept.

use thalweg_graph::Graph;
use thalweg_hvd::Hvd;
use thalweg_ops::{NewGraph, StateOps};
use thalweg_session::SessionOptions;

use super::centroids::narrowed;
use super::graph::{Nodes, Steps};
use super::model::KMeansModel;
use super::options::Start;
use super::start::Draw;
use crate::error::StatsError;
use crate::passes::{Columns, session};
use crate::rows::{Block, Rows};

/// K-means of batches that come one after the other, from a pipeline that does not fit into memory.
///
/// A centroid is the mean of all rows that were ever assigned to it. Each rank brings a batch of its own to a step.
///
/// ```
/// use thalweg_hvd::Hvd;
/// use thalweg_stats::{Block, MiniBatchKMeans, StatsError};
/// use thalweg_tensor::{DType, Tensor};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let batch = |x: Tensor| Ok(Block {
///     x,
///     y: Tensor::zeros(DType::F32, &[2, 0])?,
///     weights: Tensor::zeros(DType::F32, &[0])?,
/// });
/// let batches = (0..10).map(|_| batch(Tensor::from([[0.0f32], [10.0]])));
/// let model = MiniBatchKMeans::new(2).fit::<StatsError>(&Hvd::init()?, batches)?;
/// let mut centroids = model.centroids.to_vec::<f32>()?;
/// centroids.sort_by(f32::total_cmp);
/// assert_eq!(centroids, [0.0, 10.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MiniBatchKMeans {
    clusters: usize,
    start: Start,
    seed: u64,
    options: Option<SessionOptions>,
}

impl MiniBatchKMeans {
    /// So many clusters, from a k-means++ start over the first batch.
    pub fn new(clusters: usize) -> MiniBatchKMeans {
        MiniBatchKMeans {
            clusters,
            start: Start::PlusPlus,
            seed: 0,
            options: None,
        }
    }

    /// The same with another start, over the first batch.
    pub fn start(self, start: Start) -> MiniBatchKMeans {
        MiniBatchKMeans { start, ..self }
    }

    /// The same with another seed.
    pub fn seed(self, seed: u64) -> MiniBatchKMeans {
        MiniBatchKMeans { seed, ..self }
    }

    /// The same in a session with these options.
    pub fn session(self, options: SessionOptions) -> MiniBatchKMeans {
        MiniBatchKMeans {
            options: Some(options),
            ..self
        }
    }

    /// Fits the batches; all ranks bring the same number of them. The inertia is that of the last batch, before it moved
    /// the centroids; the history has it for each batch.
    ///
    /// # Errors
    /// No batches, fewer rows in the first batch than clusters, a number that is NaN or infinite, an error of a rank or of
    /// the source of batches.
    pub fn fit<E: Into<StatsError>>(
        &self,
        hvd: &Hvd,
        batches: impl IntoIterator<Item = Result<Block, E>>,
    ) -> Result<KMeansModel, StatsError> {
        let mut batches = batches.into_iter();
        let first = batches
            .next()
            .ok_or_else(|| StatsError::invalid("there are no batches"))?;
        let first = first.map_err(Into::into)?;
        let mut rows = Rows::new(first.x.clone());
        if !first.weights.is_empty() {
            rows = rows.weights(first.weights.clone());
        }
        let (k, dims) = (self.clusters, Columns::agreed(hvd, &rows)?.x);
        let g = Graph::new();
        let nodes = Nodes::new(&g, first.x.dtype(), k, dims);
        let session = session(hvd, &g, self.options.as_ref())?;
        session.run(g.initializers(), [])?;
        let mut steps = Steps::new(&nodes, &session, [k, dims])?;
        let mut draw = Draw {
            steps: &mut steps,
            rows: &rows,
            dims,
            seed: self.seed,
            rank: hvd.rank(),
        };
        let mut means = draw.centroids(&self.start, k)?;

        let (mut totals, mut history) = (vec![0.0; k], Vec::new());
        let dtype = first.x.dtype();
        for batch in [Ok(first)]
            .into_iter()
            .chain(batches.map(|b| b.map_err(Into::into)))
        {
            let sums = steps.sums_of_block(&batch?, &narrowed(dtype, [k, dims], &means)?)?;
            history.push(sums.inertia);
            for (cluster, count) in sums.counts.iter().enumerate().filter(|(_, n)| **n > 0.0) {
                let all = totals[cluster] + count;
                let at = cluster * dims..(cluster + 1) * dims;
                for (mean, sum) in means[at.clone()].iter_mut().zip(&sums.rows[at]) {
                    *mean += (sum - count * *mean) / all;
                }
                totals[cluster] = all;
            }
        }
        Ok(KMeansModel {
            centroids: narrowed(dtype, [k, dims], &means)?,
            inertia: history.last().copied().unwrap_or(0.0),
            iterations: history.len(),
            converged: false,
            history,
        })
    }
}
