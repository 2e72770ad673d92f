//! Training loops: checkpoints, hooks, monitored sessions, exported models, early stopping.
//!
//! | module | holds |
//! | --- | --- |
//! | `monitored` | [`MonitoredSession`]: runs steps with hooks, restores, and recovers from lost tasks |
//! | [`hooks`] | saving, logging, summaries, stopping |
//! | `checkpoints` | [`Saver`], [`BestCheckpoint`]: variables to and from checkpoints |
//! | [`mod@run_metadata`] | traces for TensorBoard |
//! | [`saver_nodes`] | TensorFlow's nodes that save and restore |
//! | [`saved_model`] | TensorFlow's SavedModels |
//! | [`values`] | variables of a session, read and assigned; frozen graphs |
//! | `queue_runners` | [`queue_runners`], [`with_queue_runners`]: threads that fill the queues of a graph |
//! | [`early_stopping`] | [`EarlyStopping`] |
//! | `stop_signal` | Ctrl-C and SIGTERM as a flag; `hooks` has its hook (feature `signals`) |
//! | `steps` | [`Steps`]: the trait of sessions that all of these use |
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_ops::{MathOps, NewGraph, StateOps};
//! use thalweg_optim::{GradientDescent, Optimizer, create_global_step};
//! use thalweg_session::Session;
//! use thalweg_train::hooks::StopAtStepHook;
//! use thalweg_train::{MonitoredTrainingSession, TrainError};
//!
//! # fn main() -> Result<(), TrainError> {
//! let g = Graph::new();
//! let w = g.variable("w", 0.0f32);
//! let loss = (w.value() - 3.0).square();
//! let train = GradientDescent::new(0.25).minimize_counting(loss, create_global_step(&g));
//!
//! let mut session = MonitoredTrainingSession::new(&g)
//!     .hook(StopAtStepHook::last_step(20))
//!     .quiet()
//!     .start(|| Session::new(&g))?;
//! let mut last = f32::NAN;
//! while let Some((_, loss)) = session.run::<((), f32)>((train, loss), [])? {
//!     last = loss;
//! }
//! assert!(last < 1e-3);
//! # Ok(())
//! # }
//! ```

mod checkpoints;
pub mod early_stopping;
mod error;
pub mod hooks;
mod initialize;
mod log;
mod monitored;
mod queue_runners;
pub mod run_metadata;
pub mod saved_model;
pub mod saver_nodes;
mod steps;
#[cfg(feature = "signals")]
mod stop_signal;
pub mod values;

pub use checkpoints::{BestCheckpoint, Goal, SavedValue, Saver};
pub use early_stopping::{EarlyStopping, Progress};
pub use error::{StepFailure, TrainError};
pub use initialize::initialize_missing;
pub use monitored::{MonitoredSession, MonitoredTrainingSession, Role, Scaffold};
pub use queue_runners::{QueueRunner, queue_runners, with_queue_runners};
pub use run_metadata::run_metadata;
pub use saved_model::{ModelOptions, SavedModel, SavedModelError, save_model};
pub use saver_nodes::{SavedVariable, SaverNodes, SaverOptions};
pub use steps::Steps;
#[cfg(feature = "signals")]
pub use stop_signal::StopSignal;
pub use values::{FreezeSessionError, freeze};
