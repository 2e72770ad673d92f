//! Optimizers: updates of variables by gradients. Names, defaults and slots are those of `tf.compat.v1.train`;
//! optimizers that it lacks follow Keras, or a paper.
//!
//! The state of an optimizer is in variables of the graph, its slots, which have names as all others do.
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
mod ftrl;
mod gradient_descent;
mod lamb;
mod lars;
mod moments;
mod nadam;
mod optimizer;
mod rms_prop;
mod trust_ratio;
mod updates;
mod weight_decay;

pub use accumulate::Accumulate;
pub use adadelta::Adadelta;
pub use adagrad::Adagrad;
pub use adam::{Adam, AdamW};
pub use adamax::Adamax;
pub use ftrl::Ftrl;
pub use gradient_descent::{GradientDescent, Momentum};
pub use lamb::Lamb;
pub use lars::Lars;
pub use nadam::Nadam;
pub use optimizer::Optimizer;
pub use rms_prop::RmsProp;
pub use updates::Updates;

#[cfg(test)]
mod tests;
