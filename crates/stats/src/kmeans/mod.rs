//! K-means: Lloyd's algorithm from a k-means++ or k-means|| start.

mod centroids;
mod distances;
mod fit;
mod graph;
mod mini_batch;
mod model;
mod options;
mod progress;
mod relocate;
mod start;

pub use mini_batch::MiniBatchKMeans;
pub use model::KMeansModel;
pub use options::{Iteration, KMeans, Start};
pub use progress::KMeansProgress;
