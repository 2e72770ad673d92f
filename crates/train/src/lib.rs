//! What a training program needs: optimizers, clipping, schedules, averages of weights, early stopping,
//! datasets.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_ops::{MathOps, NewGraph, StateOps};
//! use thalweg_session::Session;
//! use thalweg_train::{GradientDescent, Optimizer};
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

pub mod clip;
pub mod data;
pub mod early_stopping;
mod error;
pub mod hooks;
mod log;
mod monitored;
mod moving_average;
pub mod optimizers;
mod rate;
pub mod saved_model;
mod saver;
pub mod saver_nodes;
pub mod schedules;
mod slots;
mod step;
mod steps;
mod sync;
pub mod values;

pub use clip::{clip_by_global_norm, clip_by_norm, clip_by_value, global_norm};
pub use early_stopping::{EarlyStopping, Progress};
pub use error::{StepFailure, TrainError};
pub use monitored::{MonitoredSession, MonitoredTrainingSession, Role, Scaffold};
pub use moving_average::MovingAverage;
pub use optimizers::{
    Accumulate, Adadelta, Adagrad, Adam, AdamW, Adamax, Ftrl, GradientDescent, Lamb, Lars,
    Momentum, Nadam, Optimizer, RmsProp,
};
pub use rate::Rate;
pub use saved_model::{ModelOptions, SavedModel, SavedModelError, save_model};
pub use saver::{BestCheckpoint, Goal, Kept, Saver};
pub use saver_nodes::{SavedVariable, SaverNodes, SaverOptions};
pub use step::create_global_step;
pub use steps::Steps;
pub use sync::{SyncReplicas, Synchronized};
pub use values::{FreezeSessionError, freeze};
