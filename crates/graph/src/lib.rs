//! The static graph and all that needs no execution: dtypes, shapes, tensors, names and scopes, op
//! definitions (what an op is, not the ops), gradients as a graph transformation, pruning, folding
//! and sharing, and dumps that people read.

pub mod attr;
mod body;
mod builder;
pub mod check;
pub mod data;
pub mod device;
pub mod dump;
pub mod error;
pub mod flow;
pub mod function;
pub mod gradients;
pub mod graph;
pub mod infer;
mod names;
pub mod node;
pub mod op;
pub mod output;
pub mod partition;
pub mod place;
mod scopes;
pub mod simplify;
mod value;

pub use attr::{Attr, AttrKind, Func};
pub use body::Closed;
pub use builder::{Exact, NodeBuilder};
pub use data::{GraphData, VariableInfo};
pub use device::{DeviceScope, DeviceSpec, SpecError};
pub use error::{GraphError, Reason};
pub use function::Function;
pub use gradients::{GradCx, gradients, gradients_with};
pub use graph::Graph;
pub use infer::{Infer, InferError};
pub use node::{Attrs, Fact, Node, NodeId, Origin, OutputId};
pub use op::{OpDef, Registry};
pub use output::{Operation, Output};
pub use partition::{Partitioned, partition};
pub use place::{PlaceError, Placement};
pub use value::Value;
