//! The result of K-means.

use thalweg_graph::Graph;
use thalweg_ops::{NewGraph, SourceOps, StatisticsOps};
use thalweg_session::{Feeding, Session};
use thalweg_tensor::Tensor;

use crate::error::StatsError;

/// Clusters of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct KMeansModel {
    /// The centroids, `[k, d]`, of the dtype of the rows.
    pub centroids: Tensor,
    /// Sum of the squared distances of all rows to the nearest centroid, times their weights.
    pub inertia: f64,
    /// Number of iterations.
    pub iterations: usize,
    /// `false` if the iterations ended at their limit.
    pub converged: bool,
    /// The inertia before each iteration.
    pub history: Vec<f64>,
}

impl KMeansModel {
    /// Index of the nearest centroid of each row of `[n, d]`.
    ///
    /// # Errors
    /// Rows of another shape or dtype than the centroids, or a number that is NaN or infinite.
    pub fn predict(&self, x: &Tensor) -> Result<Vec<i32>, StatsError> {
        let columns = self.centroids.dims().get(1).copied().unwrap_or(0);
        if x.dims().get(1..) != Some(&[columns]) || x.dtype() != self.centroids.dtype() {
            return Err(StatsError::invalid(format!(
                "rows of shape {} and dtype {} are given, to centroids of {columns} columns of {}",
                x.shape(),
                x.dtype(),
                self.centroids.dtype()
            )));
        }
        let g = Graph::new();
        let rows = g.placeholder("x", x.dtype(), [-1, columns as i64]);
        let [nearest, _] = rows.nearest_centroids(g.constant(self.centroids.clone()));
        Ok(Session::new(&g)?.run(nearest, [rows.feed(x.clone())])?)
    }
}
