//! Thalweg: an engine for static dataflow graphs. A graph is built once, and a session runs it many times.
//!
//! This crate is the facade: it re-exports the crates under `crates/`.
//!
//! A line through three points, by gradient descent:
//!
//! ```
//! use thalweg::prelude::*;
//!
//! # fn main() -> Result<(), SessionError> {
//! let g = Graph::new();
//! let x = g.placeholder("x", DType::F32, [-1]);
//! let y = g.placeholder("y", DType::F32, [-1]);
//! let w = g.variable("w", 0.0f32);
//! let loss = (x * w - y).square().mean();
//! let train = GradientDescent::new(0.05).minimize(loss);
//!
//! let session = Session::new(&g)?;
//! session.run(g.initializers(), [])?;
//! for _ in 0..100 {
//!     session.run(train, [x.feed([1.0f32, 2.0, 3.0]), y.feed([2.0f32, 4.0, 6.0])])?;
//! }
//! let slope = session.run::<f32>(w, [])?;
//! assert!((slope - 2.0).abs() < 1e-3);
//! # Ok(())
//! # }
//! ```
//!
//! | module | purpose |
//! | --- | --- |
//! | [`prelude`] | all that most programs need |
//! | [`session`] | running a graph: options, traces, errors |
//! | [`graph`], [`ops`], [`tensor`] | building a graph |
//! | [`layers`] | variable scopes, initialisers, layers, losses, metrics |
//! | [`train`] | training loops: saving, hooks, monitored sessions, exported models; all of `optim` and `data` |
//! | [`optim`] | optimizers, schedules, gradient clipping, averages of weights |
//! | [`data`] | readers of data sets, batches |
//! | `image` (feature `image`) | image files, preprocessing for training |
//! | `hvd` (feature `hvd`) | Horovod's API: ranks that average gradients by all-reduce |
//! | `collective` (feature `hvd`) | ranks, links between them, collectives |
//! | `parallel` (feature `hvd`) | one model on several devices or tasks |
//! | `stats` (feature `stats`) | linear regression and K-means |
//! | `models` (feature `models`) | convolutional networks of tf_cnn_benchmarks |
//! | [`checkpoint`] | files of weights |
//! | [`summary`] | event files for TensorBoard |
//! | `dist` (feature `cluster`) | clusters |
//! | [`graphdef`] | TensorFlow's files |
//! | [`device`], [`cpu`] | devices, and kernels of your own |

#[cfg(doctest)]
mod book;

pub use thalweg_checkpoint as checkpoint;
#[cfg(feature = "hvd")]
pub use thalweg_collective as collective;
pub use thalweg_cpu as cpu;
pub use thalweg_data as data;
pub use thalweg_device as device;
#[cfg(feature = "cluster")]
pub use thalweg_dist as dist;
pub use thalweg_graph as graph;
pub use thalweg_graphdef as graphdef;
#[cfg(feature = "hvd")]
pub use thalweg_hvd as hvd;
#[cfg(feature = "image")]
pub use thalweg_image as image;
pub use thalweg_layers as layers;
#[cfg(feature = "models")]
pub use thalweg_models as models;
pub use thalweg_ops as ops;
pub use thalweg_optim as optim;
#[cfg(feature = "hvd")]
pub use thalweg_parallel as parallel;
pub use thalweg_session::gradient_check;
#[cfg(feature = "stats")]
pub use thalweg_stats as stats;
pub use thalweg_summary as summary;
pub use thalweg_tensor as tensor;

/// Training loops: checkpoints, hooks, monitored sessions, exported models; and, for programs that train, all of
/// [`optim`] and [`data`].
pub mod train {
    pub use thalweg_data as data;
    pub use thalweg_optim::*;
    pub use thalweg_train::*;
}

/// Sessions: each combination of fetches and feeds is compiled into a plan once, and the plan runs many times.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::session::{Cancel, Parallel};
///
/// # fn main() -> Result<(), SessionError> {
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, [-1]);
/// let total = x.sum();
///
/// let options = SessionOptions::new().threads(2).parallel(Parallel::Never);
/// let session = Session::with_options(&g, options)?;
/// let sum: f32 = session.run(total, [x.feed([1.0f32, 2.0])])?;
/// assert_eq!(sum, 3.0);
///
/// // Another thread can end a step; this one has no chance to begin.
/// let cancel = Cancel::new();
/// cancel.cancel();
/// let ended = session.step_with(total, [x.feed([1.0f32])], &RunOptions::new().cancelled_by(&cancel));
/// assert!(matches!(ended, Err(SessionError::Cancelled { .. })));
/// # Ok(())
/// # }
/// ```
pub mod session {
    pub use thalweg_plan::Edge;
    pub use thalweg_session::{
        CallResults, Callable, Cancel, Channel, CpuOptions, Engine, Event, Feed, Feeding, Fetch,
        FetchList, Fetched, Fetches, FetchesAs, GpuOptions, GpuWork, GraphRef, LayerProfile,
        OpProfile, OpWork, Parallel, Profile, Run, RunOptions, Session, SessionError,
        SessionOptions, Store, Trace, Traffic, Values, Wire, WireType,
    };
}

/// The traits and types that a program needs to build and run a graph.
///
/// ```
/// use thalweg::prelude::*;
///
/// # fn main() -> Result<(), SessionError> {
/// let g = Graph::new();
/// let image = g.placeholder("image", DType::F32, [-1, 2]);
/// let weights = g.constant([[1.0f32, 0.0], [0.0, -1.0]]);
/// let scores = image.matmul(weights).relu();
///
/// let session = Session::new(&g)?;
/// let found: Vec<f32> = session.run(scores, [image.feed([[3.0f32, 4.0]])])?;
/// assert_eq!(found, [3.0, 0.0]);
/// # Ok(())
/// # }
/// ```
pub mod prelude {
    // Only for their methods: the names are too general to import.
    pub use thalweg_graph::device::{Greedy, ReplicaDeviceSetter, RoundRobin};
    pub use thalweg_graph::{
        DeviceScope, DeviceSpec, Graph, Operation, Output, Value, gradients, gradients_with,
    };
    pub use thalweg_layers::{Layer as _, VariableScopes as _, Weights as _};
    pub use thalweg_ops::{
        ArrayOps, CollectiveOps, DataFormat, DropoutOps, FlowOps, LinalgOps, MathOps, NewGraph,
        NnOps, Padding, RandomOps, RankOps, ReduceOps, SourceOps, StateOps, SumOps, SummaryOps,
        Variable,
    };
    pub use thalweg_optim::schedules::{
        cosine_decay, exponential_decay, inverse_time_decay, linear_warmup, natural_exp_decay,
        piecewise_constant, polynomial_decay,
    };
    pub use thalweg_optim::{
        Accumulate, Adadelta, Adagrad, Adam, AdamW, Adamax, Ftrl, GradientDescent, Lamb, Lars,
        Momentum, MovingAverage, Nadam, Optimizer, RmsProp, clip_by_global_norm, clip_by_norm,
        clip_by_value, create_global_step, global_norm,
    };
    pub use thalweg_session::{
        Callable, Feeding, Fetched, RunOptions, Session, SessionError, SessionOptions,
    };
    pub use thalweg_tensor::{DType, Shape, Tensor, TensorError};
    pub use thalweg_train::{MonitoredTrainingSession, Saver, Scaffold};
}
