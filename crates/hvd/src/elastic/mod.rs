//! Elastic training: it continues when ranks are lost, and admits new ones.
//!
//! [`run`] calls a function once for each *round*: a job of a fixed number of ranks. The function builds its graph and
//! session, and trains. Every few steps it *commits*: each rank keeps a copy of all variables. When a rank is lost, the
//! others return to [`run`] with an error, and the next round begins with the last commit. When new ranks wait, a
//! commit ends the round, and nothing is lost.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_hvd::elastic;
//! use thalweg_ops::{MathOps, NewGraph, ReduceOps, StateOps};
//! use thalweg_optim::{GradientDescent, Optimizer, create_global_step};
//! use thalweg_session::{Session, SessionOptions};
//! use thalweg_train::hooks::StopAtStepHook;
//! use thalweg_train::{MonitoredTrainingSession, TrainError};
//!
//! // `thalweg launch hvd -np 4 --min-np 1` starts it on some ranks; without it, this is the only one.
//! let steps = elastic::run(|job| {
//!     let hvd = job.hvd().clone();
//!     let g = Graph::new();
//!     let step = create_global_step(&g);
//!     let loss = g.variable("w", [3.0f32, 4.0]).value().square().sum();
//!     let train = hvd.distributed(GradientDescent::new(0.1)).minimize_counting(loss, step);
//!     let options = hvd.session(SessionOptions::new());
//!     let mut session = MonitoredTrainingSession::new(&g)
//!         .quiet()
//!         // Begins with what was committed last, and commits after every tenth step.
//!         .hook(job.hook(10))
//!         .hook(StopAtStepHook::last_step(25))
//!         .start(|| Session::with_options(&g, options.clone()))?;
//!     let mut steps = 0;
//!     while !session.should_stop() {
//!         session.run(train, [])?;
//!         steps += 1;
//!     }
//!     session.close()?;
//!     Ok::<_, TrainError>(steps)
//! })?;
//! assert_eq!(steps, 25);
//! # Ok::<(), TrainError>(())
//! ```

mod hook;
mod round;
mod run;
mod state;

pub use hook::ElasticHook;
pub use round::Elastic;
pub use run::{run, run_as};
