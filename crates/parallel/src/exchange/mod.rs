//! Reduction of gradients between towers of one process: nodes of the graph, whose values the sends and receives of a
//! step carry.

mod gradient_exchange;
mod hierarchy;
mod packing;
mod parts;
mod ring;
mod spec;
mod sum;

pub(crate) use gradient_exchange::GradientExchange;
pub use hierarchy::Topology;
pub(crate) use parts::Gradients;
pub use spec::{Algorithm, AllReduce};
