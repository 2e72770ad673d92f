//! Optimizers: what turns gradients into updates of variables. Names, defaults and slots are those
//! of `tf.compat.v1.train`; what it does not have follows Keras, or a paper.
//!
//! What an optimizer keeps between steps are variables of the graph, which have names as all others do.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_ops::{MathOps, NewGraph, StateOps};
//! use thalweg_optim::optimizers::{Momentum, Optimizer};
//!
//! let g = Graph::new();
//! let w = g.variable("w", [1.0f32, 2.0]);
//! let _train = Momentum::new(0.01, 0.9).nesterov(true).minimize(w.value().square());
//!
//! let names: Vec<String> = g.variables().iter().map(|v| v.name.clone()).collect();
//! assert_eq!(names, ["w", "w/Momentum"]);
//! // Slots are not trained themselves.
//! assert_eq!(g.trainable_variables().len(), 1);
//! ```

mod accumulate;
mod adadelta;
mod adagrad;
mod adam;
mod adamax;
mod decay;
mod descent;
mod ftrl;
mod lamb;
mod lars;
mod moments;
mod nadam;
mod optimizer;
mod rms_prop;
mod trust;
mod updates;

pub use accumulate::Accumulate;
pub use adadelta::Adadelta;
pub use adagrad::Adagrad;
pub use adam::{Adam, AdamW};
pub use adamax::Adamax;
pub use descent::{GradientDescent, Momentum};
pub use ftrl::Ftrl;
pub use lamb::Lamb;
pub use lars::Lars;
pub use nadam::Nadam;
pub use optimizer::Optimizer;
pub use rms_prop::RmsProp;
pub use updates::Updates;

#[cfg(test)]
mod tests;
