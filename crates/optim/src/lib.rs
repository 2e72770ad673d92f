//! Optimizers, and the functions around them: schedules, clipping, reduction of gradients over ranks, moving averages
//! of weights.
//!
//! | module | holds |
//! | --- | --- |
//! | [`optimizers`] | the trait [`Optimizer`], and one file for each optimizer |
//! | `rate` | [`Rate`]: a hyperparameter that is a number or an output |
//! | [`schedules`] | learning rates that follow the global step |
//! | [`clip`] | limits on gradients |
//! | `gradient_reducer` | [`GradientReducer`]: buckets of gradients that are all-reduced over ranks |
//! | `sync_replicas` | [`SyncReplicas`]: workers compute gradients, and parameter servers apply their mean |
//! | `moving_average` | [`MovingAverage`] of weights |
//! | `global_step` | [`create_global_step`] |
//! | `slots` | variables that an optimizer keeps beside a variable |
//!
//! All of them build nodes of a graph; a session runs them.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_ops::{MathOps, NewGraph, StateOps};
//! use thalweg_optim::{GradientDescent, Optimizer};
//! use thalweg_session::Session;
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
mod global_step;
mod gradient_reducer;
mod moving_average;
pub mod optimizers;
mod rate;
pub mod schedules;
mod slots;
mod sync_replicas;

pub use clip::{clip_by_global_norm, clip_by_norm, clip_by_value, global_norm};
pub use global_step::create_global_step;
pub use gradient_reducer::{Compression, FUSION_THRESHOLD, GradientReducer};
pub use moving_average::MovingAverage;
pub use optimizers::{
    Accumulate, Adadelta, Adagrad, Adam, AdamW, Adamax, Ftrl, GradientDescent, Lamb, Lars,
    Momentum, Nadam, Optimizer, RmsProp,
};
pub use rate::Rate;
pub use sync_replicas::{SyncReplicas, Synchronized};
