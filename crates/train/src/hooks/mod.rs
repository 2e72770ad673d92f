//! Hooks of a training loop: saving, logging, stopping. Names and rules are those of TensorFlow's
//! `tf.train.SessionRunHook`.
//!
//! A [`crate::MonitoredSession`] calls its hooks in this order: `begin`, while the graph may still grow;
//! `after_create_session`, also after a recovery; for each step `before_run` and `after_run`; `end`, unless a step has
//! failed.
//!
//! A custom hook that counts steps:
//!
//! ```
//! use thalweg_train::hooks::{AfterRun, SessionRunHook};
//! use thalweg_train::TrainError;
//!
//! struct Count(u64);
//!
//! impl SessionRunHook for Count {
//!     fn after_run(&mut self, run: &AfterRun<'_>) -> Result<(), TrainError> {
//!         self.0 += 1;
//!         if self.0 == 3 {
//!             run.request_stop();
//!         }
//!         Ok(())
//!     }
//! }
//! ```

mod context;
mod feed_fn;
mod final_ops;
mod hook;
mod logging;
mod nan;
mod profiler;
mod run;
mod saver;
mod step_counter;
mod stop;
#[cfg(feature = "signals")]
mod stop_on_signal;
mod summary;
mod timer;
mod waiter;

pub use context::Context;
pub(crate) use context::step_of;
pub use feed_fn::FeedFnHook;
pub use final_ops::{FinalOpsHook, FinalValues};
pub use hook::SessionRunHook;
pub use logging::LoggingTensorHook;
pub use nan::NanTensorHook;
pub use profiler::ProfilerHook;
pub use run::{AfterRun, BeforeRun};
pub use saver::{CheckpointSaverHook, CheckpointSaverListener};
pub use step_counter::StepCounterHook;
pub use stop::StopAtStepHook;
#[cfg(feature = "signals")]
pub use stop_on_signal::StopOnSignalHook;
pub use summary::SummarySaverHook;
pub use timer::{Every, Timer};
pub use waiter::GlobalStepWaiterHook;
