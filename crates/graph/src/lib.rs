//! Static dataflow graphs: op definitions (their form, not the ops), graph building, names and
//! scopes, device specs, gradients, functions, and graph passes: simplification, placement,
//! partitioning, text dumps. Nothing here executes. Tensors, dtypes and shapes are in
//! `thalweg-tensor`.
//!
//! This crate defines the form of an op, and no op. A program takes the ops from `thalweg-ops`,
//! through the crate `thalweg`. The examples on these pages have a module `ops` with the few that
//! they need:
//!
//! | in an example | in a program |
//! | --- | --- |
//! | `ops::graph()` | `Graph::new()` |
//! | `ops::placeholder(&g, "x", [-1])` | `g.placeholder("x", DType::F32, [-1])` |
//! | `ops::constant(&g, 1.0f32)` | `g.constant(1.0f32)` |
//! | `ops::handle(&g, "w", [4])` | a part of `g.variable("w", [0.0f32; 4])` |
//!
//! ```
//! # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
//! use thalweg_graph::gradients;
//!
//! let g = ops::graph();
//! let x = ops::placeholder(&g, "x", [-1, 4]);
//! let y = g.name_scope("layer", || (x * x + 1.0).named("y"));
//! let dx = gradients(&[y], &[x])[0].expect("y depends on x");
//!
//! assert_eq!(y.name(), "layer/y:0");
//! assert_eq!(dx.shape(), x.shape());
//! assert!(g.errors().is_empty());
//! ```

mod adopted;
pub mod attr;
mod body;
mod builder;
mod calls;
pub mod check;
pub mod data;
pub mod device;
pub mod dump;
pub mod error;
pub mod flow;
pub mod folded;
pub mod function;
pub mod gradients;
pub mod graph;
pub mod infer;
mod kept;
mod literal;
mod liveness;
mod names;
pub mod node;
pub mod op;
pub mod output;
pub mod partition;
pub mod place;
mod rebuilt;
mod scopes;
mod simplified;
pub mod simplify;
mod value;

pub use adopted::Renamed;
pub use attr::{Attr, AttrKind, Func};
pub use body::ClosedBodies;
pub use builder::{ImportedNode, NodeBuilder};
pub use data::{GraphData, VariableInfo, VariableSlice};
pub use device::{DeviceScope, DeviceSpec, SpecError};
pub use error::{GraphError, Reason};
pub use folded::{FoldedBox, FoldedEdge, FoldedGraph, Folding};
pub use function::Function;
pub use gradients::{GradCx, gradients, gradients_with};
pub use graph::Graph;
pub use infer::{Infer, InferError};
pub use literal::{Literal, scalar_of};
pub use node::{Attrs, Fact, Node, NodeId, Origin, OutputId};
pub use op::{OpDef, Registry};
pub use output::{Operand, Operation, Output};
pub use partition::{Partitioned, partition};
pub use place::{PlaceError, Placement};
pub use rebuilt::Rebuilt;
pub use value::Value;
