//! Errors of graph building.
//!
//! ```
//! # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
//! use thalweg_graph::Reason;
//!
//! let g = ops::graph();
//! let x = ops::placeholder(&g, "x", [4]);
//! let y = g.op("Identty").input(x).output();
//! // Nodes built on a mistake add none.
//! let _z = y + y;
//!
//! let errors = g.errors();
//! assert_eq!(errors.len(), 1);
//! assert_eq!(errors[0].reason, Reason::UnknownOp { nearest: Some("Identity") });
//! assert!(errors[0].to_string().contains("there is no such op: did you mean Identity?"));
//! ```

use thiserror::Error;

use crate::attr::AttrKind;
use crate::device::{DeviceFnError, SpecError};
use crate::infer::InferError;
use crate::node::{Node, Origin};
use thalweg_tensor::dtype::DType;
use thalweg_tensor::shape::Shape;
use thalweg_tensor::text::counted;

/// An error in the building of a graph. The graph keeps it, and creating a session returns it.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{}, made at {origin}: {reason}", subject(.node, .op))]
pub struct GraphError {
    /// The name that the node would have had; empty for a scope.
    pub node: String,
    /// Its op.
    pub op: String,
    /// The line that made it.
    pub origin: Origin,
    /// The reason.
    pub reason: Reason,
}

impl GraphError {
    /// An error of a node.
    pub(crate) fn of(node: &Node, reason: Reason) -> GraphError {
        GraphError {
            node: node.name.clone(),
            op: node.op.name.to_owned(),
            origin: node.origin.clone(),
            reason,
        }
    }
}

fn subject(node: &str, op: &str) -> String {
    match node {
        "" => format!("{op} scope"),
        node if op.is_empty() => format!("node '{node}'"),
        node => format!("node '{node}' ({op})"),
    }
}

/// The reason why a node is invalid.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// No op has this name.
    #[error(
        "there is no such op{}; an op of your own belongs in the graph's set (Graph::with_ops)",
        .nearest.map_or(String::new(), |n| format!(": did you mean {n}?"))
    )]
    UnknownOp {
        /// The op with the most similar name.
        nearest: Option<&'static str>,
    },
    /// A device function, or a strategy of one, builds nodes.
    #[error("a device function builds it: such a function chooses a device, and builds nothing")]
    InDeviceFunction,
    /// The name has characters that a name cannot have.
    #[error("a name must match [A-Za-z0-9.][A-Za-z0-9_.\\-/]*")]
    Name,
    /// A node that must have exactly this name, which another node has.
    #[error("another node has this name: import with a prefix")]
    NameTaken,
    /// Too few or too many inputs.
    #[error("it takes {}, not {found}", counted(.expected, "input"))]
    InputCount {
        /// The number that the op takes.
        expected: usize,
        /// The number that was given.
        found: usize,
    },
    /// An input of the wrong dtype.
    #[error("input {input} ({name}) is {found}, but must be {expected}: Cast it")]
    InputType {
        /// The index of the input.
        input: usize,
        /// Its name in the op's definition.
        name: &'static str,
        /// The required dtype.
        expected: DType,
        /// The dtype of the input.
        found: DType,
    },
    /// A value where the op takes a reference to a variable.
    #[error("input {input} ({name}) must be a reference to a variable: give it a VariableV2")]
    NoReference {
        /// The index of the input.
        input: usize,
        /// Its name in the op's definition.
        name: &'static str,
    },
    /// An attribute that the op does not have.
    #[error("the op has no attribute {attr}")]
    UnknownAttr {
        /// The attribute.
        attr: String,
    },
    /// An attribute that must be given.
    #[error("attribute {attr} must be given")]
    MissingAttr {
        /// The attribute.
        attr: &'static str,
    },
    /// An attribute of the wrong kind.
    #[error("attribute {attr} is of kind {found}, but must be of kind {expected}")]
    AttrKind {
        /// The attribute.
        attr: &'static str,
        /// Its kind by the op's definition.
        expected: AttrKind,
        /// The kind that was given.
        found: AttrKind,
    },
    /// An attribute with a value that the op does not take.
    #[error("attribute {attr} is {found}, but must be {allowed}")]
    AttrValue {
        /// The attribute.
        attr: &'static str,
        /// The value that was given.
        found: String,
        /// The values that the op takes.
        allowed: String,
    },
    /// Shapes or values that the op cannot take.
    #[error("{0}")]
    Infer(#[from] InferError),
    /// An input or control input of another graph.
    #[error("input {input} belongs to another graph: build both in one")]
    OtherGraph {
        /// The index of the input.
        input: usize,
    },
    /// A number of a node that another graph gave out.
    #[error(
        "it belongs to another graph: a number is of the graph whose output or operation gave it"
    )]
    NumberOfOtherGraph,
    /// The graph is finalized.
    #[error(
        "the graph is finalized: build before Graph::finalize, or add on purpose inside Graph::extend"
    )]
    Finalized,
    /// A gradient was requested through an op that has none.
    #[error(
        "no gradient is known for this op: put a stop_gradient before it, or leave it out of the loss"
    )]
    NoGradient,
    /// A gradient was requested of a tensor that is not a float.
    #[error("a gradient of {found} was asked for: only floating-point tensors have one")]
    NotDifferentiable {
        /// The dtype of that tensor.
        found: DType,
    },
    /// A gradient that was passed in does not have its tensor's shape.
    #[error("the gradient given for it has shape {found}, it has {expected}")]
    GradientShape {
        /// The shape of the tensor.
        expected: Shape,
        /// The shape of the gradient that was given.
        found: Shape,
    },
    /// A string that is not a device.
    #[error(transparent)]
    Device(#[from] SpecError),
    /// A device function that has no device for the node.
    #[error("its device function has no device for it: {0}")]
    Choice(DeviceFnError),
    /// A device function that panicked.
    #[error("its device function panicked: {0}")]
    DeviceFunction(String),
    /// A mistake in the arguments of a builder function.
    #[error("{0}")]
    Argument(String),
}
