//! Nodes, their identifiers, and the inferred facts of their outputs.
//!
//! ```
//! # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
//! use thalweg_graph::Origin;
//!
//! let g = ops::graph();
//! let x = ops::placeholder(&g, "x", [-1, 4]);
//! let y = x + x;
//!
//! let data = g.snapshot();
//! let node = data.node(y.id().node);
//! assert_eq!((node.name.as_str(), node.op.name), ("AddV2", "AddV2"));
//! assert_eq!(node.inputs[..], [x.id(), x.id()]);
//! assert_eq!(node.outputs[0].to_string(), "f32[?,4]");
//! // The line of this program that made it.
//! assert!(matches!(node.origin, Origin::Line(_)));
//! ```

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::num::NonZeroU32;
use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::attr::Attr;
use crate::device::DeviceSpec;
use crate::op::OpDef;
use thalweg_tensor::Tensor;
use thalweg_tensor::dtype::DType;
use thalweg_tensor::shape::Shape;

/// A node's number in its graph. Numbers ascend in the order of building. Two are equal if their indices are.
///
/// A number that a handle gave out ([`crate::Output::id`]) knows its graph, and another graph refuses it.
#[derive(Clone, Copy)]
pub struct NodeId {
    index: u32,
    /// Tag of the graph that gave it out; `None` for a number that passes of the library make.
    graph: Option<GraphTag>,
}

/// Random number of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GraphTag(NonZeroU32);

impl GraphTag {
    /// A new one.
    pub(crate) fn random() -> GraphTag {
        // The standard library's source of random numbers for hash maps.
        let number = RandomState::new().build_hasher().finish() as u32;
        GraphTag(NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN))
    }
}

impl NodeId {
    /// Stand-in for a node that could not be built; the graph keeps its error.
    pub const INVALID: NodeId = NodeId::new(u32::MAX);

    pub(crate) const fn new(index: u32) -> NodeId {
        NodeId { index, graph: None }
    }

    /// The same number of the graph with this tag, unless it has a graph.
    pub(crate) fn of(self, tag: GraphTag) -> NodeId {
        NodeId {
            graph: self.graph.or(Some(tag)),
            ..self
        }
    }

    /// The tag of its graph.
    pub(crate) fn tag(self) -> Option<GraphTag> {
        self.graph
    }

    /// The number.
    pub fn index(self) -> usize {
        self.index as usize
    }

    /// `true` for the stand-in for a node that could not be built.
    pub fn is_invalid(self) -> bool {
        self == NodeId::INVALID
    }
}

impl PartialEq for NodeId {
    fn eq(&self, other: &NodeId) -> bool {
        self.index == other.index
    }
}

impl Eq for NodeId {}

impl Hash for NodeId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.index.hash(state);
    }
}

impl PartialOrd for NodeId {
    fn partial_cmp(&self, other: &NodeId) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NodeId {
    fn cmp(&self, other: &NodeId) -> Ordering {
        self.index.cmp(&other.index)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeId({})", self.index)
    }
}

/// A node's output, by number: the source of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutputId {
    /// The node.
    pub node: NodeId,
    /// The index of the output.
    pub index: u32,
}

/// The inferred dtype, shape and value of an output.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Its dtype.
    pub dtype: DType,
    /// Its shape.
    pub shape: Shape,
    /// Its value, if it is a known constant.
    pub value: Option<Tensor>,
    /// Of an integer scalar or vector without a known value: its elements, where some are known, as those of a shape.
    pub elements: Option<Arc<[Option<i64>]>>,
    /// For a handle or a reference: the dtype and shape of the variable behind it, if known.
    pub variable: Option<(DType, Shape)>,
    /// For the handle of a stack or an array that is only read: the known part of the shape of its tensors.
    pub held: Option<Shape>,
    /// For the handle of an array that does not grow: the number of its tensors, if known.
    pub count: Option<usize>,
    /// `true` for a reference: the variable itself for an input that takes a reference, and the
    /// variable's value for any other input. These are TensorFlow's `Ref` types.
    pub reference: bool,
}

impl Fact {
    /// A fact of a dtype and a shape.
    pub fn new(dtype: DType, shape: Shape) -> Fact {
        Fact {
            dtype,
            shape,
            value: None,
            elements: None,
            variable: None,
            held: None,
            count: None,
            reference: false,
        }
    }

    /// The fact of another value of this dtype and shape: without what is known of its elements.
    pub fn without_value(self) -> Fact {
        Fact {
            value: None,
            elements: None,
            ..self
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

/// A node's attributes, sorted by name: those of its op, and others whose names begin with `_`,
/// which kernels ignore.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attrs(SmallVec<[(Cow<'static, str>, Attr); 4]>);

impl Attrs {
    /// The value of attribute `name`.
    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.0
            .binary_search_by(|(n, _)| (**n).cmp(name))
            .ok()
            .map(|i| &self.0[i].1)
    }

    /// Sets attribute `name`.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: Attr) {
        let name = name.into();
        match self.0.binary_search_by(|(n, _)| n.cmp(&name)) {
            Ok(i) => self.0[i].1 = value,
            Err(i) => self.0.insert(i, (name, value)),
        }
    }

    /// Every attribute, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Attr)> {
        self.0.iter().map(|(n, v)| (&**n, v))
    }

    /// The attributes of the op alone, without those whose names begin with `_`.
    pub fn own(&self) -> Attrs {
        let own = self.0.iter().filter(|(n, _)| !n.starts_with('_'));
        Attrs(own.cloned().collect())
    }
}

/// The place that a node was built at, for error messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A line of the program.
    Line(&'static Location<'static>),
    /// The name of a file, or of the pass that made it.
    Other(Arc<str>),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Line(l) => write!(f, "{}:{}", l.file(), l.line()),
            Origin::Other(s) => f.write_str(s),
        }
    }
}

/// One use of an op in a graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name, unique in its graph.
    pub name: String,
    /// Its op.
    pub op: &'static OpDef,
    /// The sources of its inputs, in order.
    pub inputs: SmallVec<[OutputId; 4]>,
    /// The nodes that must have run before it.
    pub controls: SmallVec<[NodeId; 2]>,
    /// Its attributes: every one of its op, defaults filled in.
    pub attrs: Attrs,
    /// The requested device; empty for any.
    pub device: DeviceSpec,
    /// The nodes with which it must share a device, by name: TensorFlow's `_class`, without its
    /// `loc:@`.
    pub colocation: SmallVec<[Arc<str>; 1]>,
    /// The inferred facts of its outputs.
    pub outputs: SmallVec<[Fact; 1]>,
    /// The place that it was built at.
    pub origin: Origin,
}

impl Node {
    /// The argument of the op's definition that input `i` belongs to.
    pub fn input_arg(&self, i: usize) -> Option<&'static crate::op::Arg> {
        let mut end = 0;
        self.op.inputs.iter().find(|a| {
            end += a.repeats(&self.attrs);
            i < end
        })
    }

    /// `true` if the value of input `i` shapes the kernel; see [`crate::op::Arg::host`].
    pub fn is_host_input(&self, i: usize) -> bool {
        self.input_arg(i).is_some_and(|a| a.host)
    }
}
