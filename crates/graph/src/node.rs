//! Nodes, and the small numbers that name them and their outputs.
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
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::attr::Attr;
use crate::device::DeviceSpec;
use crate::op::OpDef;
use thalweg_tensor::Tensor;
use thalweg_tensor::dtype::DType;
use thalweg_tensor::shape::Shape;

/// A node's number in its graph. Numbers ascend in the order of building.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// What stands for a node that could not be made; its error is kept by the graph.
    pub const INVALID: NodeId = NodeId(u32::MAX);

    /// The number.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether this stands for a node that could not be made.
    pub fn is_invalid(self) -> bool {
        self == NodeId::INVALID
    }
}

/// A node's numbered result: what an edge starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutputId {
    /// The node.
    pub node: NodeId,
    /// Which of its outputs.
    pub index: u32,
}

/// What is known of an output.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Its dtype.
    pub dtype: DType,
    /// Its shape.
    pub shape: Shape,
    /// Its value, where that is the same in every run and known already.
    pub value: Option<Tensor>,
    /// Of a handle or a reference: the dtype and shape of the variable behind it, where that is
    /// known.
    pub variable: Option<(DType, Shape)>,
    /// Whether it is a reference: the variable itself, where something takes one, and the
    /// variable's value everywhere else. TensorFlow's `Ref` types.
    pub reference: bool,
}

impl Fact {
    /// A dtype and a shape.
    pub fn new(dtype: DType, shape: Shape) -> Fact {
        Fact {
            dtype,
            shape,
            value: None,
            variable: None,
            reference: false,
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

/// A node's attributes, sorted by name: those of its op, and others whose names begin with `_`, which
/// no kernel looks at.
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

    /// Those of the op alone, without those whose names begin with `_`.
    pub fn own(&self) -> Attrs {
        let own = self.0.iter().filter(|(n, _)| !n.starts_with('_'));
        Attrs(own.cloned().collect())
    }
}

/// Where a node was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// At a line of the program.
    Line(&'static Location<'static>),
    /// Elsewhere: the name of a file, or of the pass that made it.
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
    /// Where its inputs come from, in order.
    pub inputs: SmallVec<[OutputId; 4]>,
    /// The nodes that must have run before it.
    pub controls: SmallVec<[NodeId; 2]>,
    /// Its attributes: every one of its op, defaults filled in.
    pub attrs: Attrs,
    /// The device that was asked for; empty for any.
    pub device: DeviceSpec,
    /// The nodes that it must be on one device with, by name: TensorFlow's `_class`, without its
    /// `loc:@`.
    pub colocation: SmallVec<[Arc<str>; 1]>,
    /// What is known of its outputs.
    pub outputs: SmallVec<[Fact; 1]>,
    /// Where it was made.
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

    /// Whether the value of input `i` shapes the kernel; see [`crate::op::Arg::host`].
    pub fn is_host_input(&self, i: usize) -> bool {
        self.input_arg(i).is_some_and(|a| a.host)
    }
}
