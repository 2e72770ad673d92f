//! The static graph and all that needs no execution: dtypes, shapes, tensors, names and scopes, op
//! definitions (what an op is, not the ops), gradients as a graph transformation, pruning, folding
//! and sharing, and dumps that people read.

pub mod attr;
mod buffer;
pub mod check;
pub mod data;
pub mod device;
pub mod dtype;
mod dump;
pub mod error;
pub mod gradients;
pub mod graph;
pub mod infer;
mod names;
pub mod node;
pub mod op;
pub mod output;
pub mod place;
pub mod shape;
pub mod simplify;
pub mod tensor;
mod value;

pub use half;

pub use attr::{Attr, AttrKind};
pub use data::{GraphData, VariableInfo};
pub use device::DeviceSpec;
pub use dtype::{DType, Element};
pub use error::{GraphError, Reason};
pub use gradients::{GradCx, gradients, gradients_with};
pub use graph::{Graph, NodeBuilder};
pub use infer::{Infer, InferError};
pub use node::{Attrs, Fact, Node, NodeId, Origin, OutputId};
pub use op::{OpDef, Registry};
pub use output::{Operation, Output};
pub use shape::{Dims, Shape};
pub use tensor::{Tensor, TensorError};
pub use value::Value;
