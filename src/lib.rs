//! Thalweg: an engine for static dataflow graphs. A graph is built once, and a session runs what is
//! asked of it many times.
//!
//! This crate is a face: it re-exports what the crates under `crates/` hold.

#[cfg(doctest)]
mod book;

pub use thalweg_cpu as cpu;
pub use thalweg_device as device;
#[cfg(feature = "cluster")]
pub use thalweg_dist as dist;
pub use thalweg_graph as graph;
pub use thalweg_graphdef as graphdef;
pub use thalweg_ops as ops;
pub use thalweg_tensor as tensor;
pub use thalweg_train as train;

/// Sessions: what is fetched and fed becomes a plan once, and the plan runs many times.
pub mod session {
    pub use thalweg_plan::Edge;
    pub use thalweg_session::{
        Callable, Called, Cancel, CpuOptions, Engine, Event, Feed, Feeding, Fetch, FetchList,
        Fetched, Fetches, GpuOptions, Parallel, RunOptions, Session, SessionError, SessionOptions,
        Store, Trace, Traffic, Wire, WireType,
    };
}

/// What a program that builds and runs a graph needs in scope.
pub mod prelude {
    pub use thalweg_graph::device::{Greedy, ReplicaDeviceSetter, RoundRobin};
    pub use thalweg_graph::{
        DeviceScope, DeviceSpec, Graph, Operation, Output, Value, gradients, gradients_with,
    };
    pub use thalweg_ops::{
        ArrayOps, DataFormat, DropoutOps, FlowOps, LinalgOps, MathOps, NewGraph, NnOps, Padding,
        RandomOps, ReduceOps, SourceOps, StateOps, SumOps, Variable,
    };
    pub use thalweg_session::{
        Callable, Feeding, Fetched, RunOptions, Session, SessionError, SessionOptions,
    };
    pub use thalweg_tensor::{DType, Shape, Tensor};
    pub use thalweg_train::schedules::{
        cosine_decay, exponential_decay, inverse_time_decay, natural_exp_decay, piecewise_constant,
        polynomial_decay,
    };
    pub use thalweg_train::{
        Adagrad, Adam, GradientDescent, Momentum, Optimizer, RmsProp, clip_by_global_norm,
        clip_by_norm, clip_by_value, create_global_step, global_norm,
    };
}
