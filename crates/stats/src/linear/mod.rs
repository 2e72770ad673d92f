//! Linear regression by least squares: normal equations in one pass, or a QR decomposition.

mod fit;
mod model;
mod options;
mod shift;
mod solve;

pub use model::{LinearModel, SolveReport};
pub use options::{LinearRegression, Solver};
