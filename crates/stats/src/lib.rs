//! Statistics over the rows of one process or of many ranks: linear regression and K-means.
//!
//! Each rank holds its part of the rows, and runs the same program. A pass over the rows is a step of a graph; sums are
//! all-reduced, and every rank gets the same model.
//!
//! ```
//! use thalweg_hvd::Hvd;
//! use thalweg_stats::{KMeans, LinearRegression, Rows};
//! use thalweg_tensor::Tensor;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Under `thalweg launch hvd -np 4` this is one rank of four; without it, the only one.
//! let hvd = Hvd::init()?;
//!
//! let x = Tensor::from([[0.0f64], [1.0], [2.0], [10.0]]);
//! let y = Tensor::from([[1.0f64], [3.0], [5.0], [21.0]]);
//! let model = LinearRegression::new().fit(&hvd, &Rows::new(x.clone()).targets(y))?;
//! assert!((model.coefficients[0] - 2.0).abs() < 1e-12);
//! assert!((model.intercepts[0] - 1.0).abs() < 1e-12);
//!
//! let model = KMeans::new(2).seed(1).fit(&hvd, &Rows::new(x.clone()))?;
//! let clusters = model.predict(&x)?;
//! assert_eq!(clusters[0], clusters[2]);
//! assert_ne!(clusters[0], clusters[3]);
//! # Ok(())
//! # }
//! ```

mod error;
mod files;
mod kmeans;
mod linear;
mod passes;
mod random;
mod rows;
mod seeded;

pub use error::StatsError;
pub use files::FileRows;
pub use kmeans::{Iteration, KMeans, KMeansModel, KMeansProgress, MiniBatchKMeans, Start};
pub use linear::{LinearModel, LinearRegression, SolveReport, Solver};
pub use rows::{Block, RowBlocks, Rows};
pub use seeded::SeededRows;
