//! What a training program needs: optimizers, clipping, schedules, datasets.

pub mod clip;
pub mod data;
pub mod optimizers;
mod rate;
pub mod schedules;
mod step;
mod sync;

pub use clip::{clip_by_global_norm, clip_by_norm, clip_by_value, global_norm};
pub use optimizers::{Adagrad, Adam, GradientDescent, Momentum, Optimizer, RmsProp};
pub use rate::Rate;
pub use step::create_global_step;
pub use sync::{SyncReplicas, Synchronized};
