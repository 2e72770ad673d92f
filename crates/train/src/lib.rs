//! What a training program needs: optimizers, clipping, schedules, averages of weights, early stopping,
//! datasets.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_ops::{MathOps, NewGraph, StateOps};
//! use thalweg_session::Session;
//! use thalweg_optim::{GradientDescent, Optimizer};
//!
//! # fn main() -> Result<(), thalweg_session::SessionError> {
//! let g = Graph::new();
//! let w = g.variable("w", 0.0f32);
//! let loss = (w.value() - 3.0).square();
//! let train = GradientDescent::new(0.25).minimize(loss);
//!
//! let session = Session::new(&g)?;
//! session.run(g.initializers(), [])?;
//! for _ in 0..20 {
//!     session.run(train, [])?;
//! }
//! let trained = session.run::<f32>(w, [])?;
//! assert!((trained - 3.0).abs() < 1e-3);
//! # Ok(())
//! # }
//! ```

pub mod early_stopping;
mod error;
pub mod hooks;
mod log;
mod monitored;
pub mod saved_model;
mod saver;
pub mod saver_nodes;
mod steps;
pub mod values;

pub use early_stopping::{EarlyStopping, Progress};
pub use error::{StepFailure, TrainError};
pub use monitored::{MonitoredSession, MonitoredTrainingSession, Role, Scaffold};
pub use saved_model::{ModelOptions, SavedModel, SavedModelError, save_model};
pub use saver::{BestCheckpoint, Goal, Kept, Saver};
pub use saver_nodes::{SavedVariable, SaverNodes, SaverOptions};
pub use steps::Steps;
pub use values::{FreezeSessionError, freeze};
