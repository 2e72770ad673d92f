//! Options of K-means.

use std::fmt;
use std::sync::Arc;

use thalweg_session::SessionOptions;
use thalweg_tensor::Tensor;

use crate::error::StatsError;

/// The centroids that Lloyd's algorithm begins with.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// k-means++ (Arthur and Vassilvitskii, 2007): each centroid is a row, drawn with a probability by its squared distance
    /// from those before. It takes a pass for each centroid.
    PlusPlus,
    /// k-means|| (Bahmani and others, 2012): several rows at a time, in a few passes, and k-means++ over these.
    Parallel {
        /// Passes.
        rounds: usize,
        /// Rows of a pass, as a multiple of the number of clusters.
        oversampling: f64,
    },
    /// These centroids, `[k, d]`.
    Given(Tensor),
}

/// An iteration of Lloyd's algorithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Iteration {
    /// Number of the start, from 0.
    pub start: usize,
    /// Number of the iteration, from 1.
    pub number: usize,
    /// Sum of the squared distances to the nearest centroid, before the iteration moved the centroids.
    pub inertia: f64,
    /// Sum of the squared distances by which the centroids moved.
    pub shift: f64,
}

/// A function that gets each iteration.
type Observer = Arc<dyn Fn(&Iteration) + Send + Sync>;

/// K-means: centroids that minimise the squared distances of rows to the nearest of them.
///
/// An iteration is a pass over the rows: nearest centroids and the sums of their clusters, all-reduced. A cluster without
/// rows takes the row that is farthest from its centroid.
///
/// ```
/// use thalweg_hvd::Hvd;
/// use thalweg_stats::{KMeans, Rows, Start};
/// use thalweg_tensor::Tensor;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let x = Tensor::from([[0.0f32], [1.0], [9.0], [10.0]]);
/// let start = Start::Given(Tensor::from([[0.0f32], [1.0]]));
/// let model = KMeans::new(2).start(start).fit(&Hvd::init()?, &Rows::new(x.clone()))?;
/// assert_eq!(model.centroids.as_slice::<f32>()?, [0.5, 9.5]);
/// assert_eq!((model.inertia, model.converged), (1.0, true));
/// assert_eq!(model.predict(&x)?, [0, 0, 1, 1]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct KMeans {
    pub(crate) clusters: usize,
    pub(crate) start: Start,
    pub(crate) starts: usize,
    pub(crate) max_iterations: usize,
    pub(crate) tolerance: f64,
    pub(crate) seed: u64,
    pub(crate) options: Option<SessionOptions>,
    pub(crate) observer: Option<Observer>,
}

impl fmt::Debug for KMeans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KMeans")
            .field("clusters", &self.clusters)
            .field("start", &self.start)
            .field("max_iterations", &self.max_iterations)
            .finish_non_exhaustive()
    }
}

impl KMeans {
    /// So many clusters, from one k-means++ start, in at most 300 iterations, with a tolerance of 1e-4.
    pub fn new(clusters: usize) -> KMeans {
        KMeans {
            clusters,
            start: Start::PlusPlus,
            starts: 1,
            max_iterations: 300,
            tolerance: 1e-4,
            seed: 0,
            options: None,
            observer: None,
        }
    }

    /// The same with another start.
    pub fn start(self, start: Start) -> KMeans {
        KMeans { start, ..self }
    }

    /// The same from several starts (scikit-learn's `n_init`): the fit with the least inertia is taken.
    pub fn starts(self, starts: usize) -> KMeans {
        KMeans { starts, ..self }
    }

    /// The same with another limit of iterations.
    pub fn max_iterations(self, max_iterations: usize) -> KMeans {
        KMeans {
            max_iterations,
            ..self
        }
    }

    /// The same with another tolerance: iterations end when the squares of the centroids' moves are at most this share of
    /// the mean variance of the columns. With 0, they end when no row changes its cluster.
    pub fn tolerance(self, tolerance: f64) -> KMeans {
        KMeans { tolerance, ..self }
    }

    /// The same with another seed. The same seed gives the same start on any number of ranks.
    pub fn seed(self, seed: u64) -> KMeans {
        KMeans { seed, ..self }
    }

    /// The same in a session with these options. By default a rank takes its share of the cores of its host.
    pub fn session(self, options: SessionOptions) -> KMeans {
        KMeans {
            options: Some(options),
            ..self
        }
    }

    /// The same with a function that gets each iteration, on every rank.
    pub fn on_iteration(self, observer: impl Fn(&Iteration) + Send + Sync + 'static) -> KMeans {
        KMeans {
            observer: Some(Arc::new(observer)),
            ..self
        }
    }

    /// Fails where an option cannot be.
    pub(super) fn check(&self) -> Result<(), StatsError> {
        let text = match self {
            KMeans { clusters: 0, .. } => "there must be at least one cluster",
            KMeans { starts: 0, .. } => "there must be at least one start",
            KMeans {
                max_iterations: 0, ..
            } => "there must be at least one iteration",
            KMeans { tolerance, .. } if tolerance.is_nan() || *tolerance < 0.0 => {
                "the tolerance is at least 0"
            }
            KMeans {
                start:
                    Start::Parallel {
                        rounds,
                        oversampling,
                    },
                ..
            } if *rounds == 0 || !(*oversampling > 0.0 && oversampling.is_finite()) => {
                "k-means|| takes at least one round, and an oversampling above 0"
            }
            _ => return Ok(()),
        };
        Err(StatsError::invalid(text))
    }
}
