//! Op definitions: an op's inputs, outputs, attributes, shape rule and gradient, as data.
//!
//! ```
//! use std::sync::Arc;
//!
//! use thalweg_graph::op::{Gradient, arg, float_attr, type_attr};
//! use thalweg_graph::{Graph, OpDef, Registry};
//! use thalweg_tensor::DType;
//!
//! static LEAKY_RELU: OpDef = OpDef {
//!     name: "LeakyRelu",
//!     summary: "The element, or a part of it where it is negative.",
//!     inputs: &[arg("features", "T")],
//!     outputs: &[arg("activations", "T")],
//!     attrs: &[type_attr("T", DType::FLOATS), float_attr("alpha", 0.2)],
//!     shape: |cx| {
//!         cx.set(0, cx.shape(0).clone());
//!         Ok(())
//!     },
//!     gradient: Gradient::Missing,
//!     ..OpDef::EMPTY
//! };
//!
//! let registry = Registry::new([&LEAKY_RELU]);
//! assert!(registry.get("LeakyRelu").is_some());
//! let g = Graph::with_registry(Arc::new(registry));
//! assert!(g.op("Relu").output().is_invalid());
//! ```

use std::collections::BTreeMap;
use std::fmt;

use smallvec::SmallVec;

use crate::attr::{Attr, AttrKind, Func};
pub use crate::calls::Calls;
use crate::gradients::GradCx;
use crate::infer::{Infer, InferError};
use crate::node::Attrs;
use crate::output::Output;
use thalweg_tensor::dtype::DType;
use thalweg_tensor::shape::Shape;

/// The definition of an op. Names, attributes and defaults are TensorFlow's.
pub struct OpDef {
    /// The name: `MatMul`.
    pub name: &'static str,
    /// Its function, in a sentence.
    pub summary: &'static str,
    /// Its inputs, in order.
    pub inputs: &'static [Arg],
    /// Its outputs, in order.
    pub outputs: &'static [Arg],
    /// Its attributes.
    pub attrs: &'static [AttrDef],
    /// Infers the outputs' shapes from the inputs.
    pub shape: ShapeFn,
    /// Its gradient.
    pub gradient: Gradient,
    /// Its side effect.
    pub effect: Effect,
    /// The index of the input that the first output equals, if it equals one (a sum over no axis);
    /// further outputs equal the inputs behind it. Such a node is removed from the graph that runs.
    pub same_as: fn(&Infer<'_>) -> Option<usize>,
    /// For an op that takes or makes references: the op on handles that a session runs in its
    /// place. It has the same inputs in the same order, with handles for references, and the same
    /// attributes where it has one of that name; its first output, if it has none of its own, is
    /// the incoming reference.
    pub on_handles: Option<&'static str>,
    /// The part of its functions that runs.
    pub calls: Calls,
}

impl fmt::Debug for OpDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpDef({})", self.name)
    }
}

/// A shape rule: sets the shape of each output in an [`Infer`].
pub type ShapeFn = fn(&mut Infer<'_>) -> Result<(), InferError>;

/// A gradient rule: the gradient of each input from those of the outputs; `None` if an input has
/// none. The graph keeps mistakes in the nodes that it adds, as it keeps a user's.
pub type GradientFn = for<'g> fn(&GradCx<'_, 'g>) -> InputGradients<'g>;

/// One gradient for each input of a node; may be shorter, the rest is then `None`.
pub type InputGradients<'g> = SmallVec<[Option<Output<'g>>; 4]>;

/// The gradient of an op.
#[derive(Clone, Copy)]
pub enum Gradient {
    /// Computed by this rule.
    Rule(GradientFn),
    /// None, by definition: the op is constant, integer, or piecewise constant.
    None,
    /// Not implemented: requesting it is an error.
    Missing,
}

/// Attribute of a branch or a loop in a simplified graph: the numbers of the outputs that are needed, if some are not.
pub const LIVE_OUTPUTS: &str = "_live_outputs";

/// The side effect of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// None: the node may be folded, shared with an equal node, or removed.
    Pure,
    /// None, but the outputs differ from run to run: never folded or shared.
    Random,
    /// Makes the handle of a variable.
    Handle,
    /// Reads the variable behind input 0.
    Read,
    /// Updates the variables behind its resource inputs.
    Write,
    /// Takes its value from outside of the graph: a placeholder, a feed.
    Feed,
    /// Computes nothing and orders other nodes: NoOp.
    Control,
    /// Has an effect outside of its outputs and the variables: it runs if it is requested, is never
    /// folded or shared, and its outputs differ from run to run.
    Stateful,
    /// As [`Effect::Stateful`], and it may have to wait for another step: a queue's ops.
    Blocking,
    /// As [`Effect::Blocking`], for other ranks, which all do the same: the collectives of a step run
    /// one after the other, in one order on all ranks.
    Collective,
    /// Decides which of the following nodes run, or how often: Switch, Merge and the ops of loops.
    Flow,
    /// Sends a value to another device.
    Send,
    /// Receives a value from another device.
    Recv,
}

impl Effect {
    /// `true` if a node may have to wait for another step or rank.
    pub fn may_block(self) -> bool {
        matches!(self, Effect::Blocking | Effect::Collective)
    }
}

/// The dtype of an input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgType {
    /// Always this one.
    Is(DType),
    /// The value of this attribute; for an input, the attribute follows from the connected output.
    Attr(&'static str),
    /// As many tensors as this attribute has dtypes, of those dtypes.
    List(&'static str),
}

/// An input or output of an op.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// The name: `features`.
    pub name: &'static str,
    /// The dtype.
    pub ty: ArgType,
    /// The attribute that counts the tensors of a list; `None` for a single tensor.
    pub count: Option<&'static str>,
    /// `true` if the value itself shapes the kernel (a reduction's axes, a target shape): it is in
    /// host memory, and is needed when the kernel is prepared.
    pub host: bool,
    /// `true` for a reference to a variable; see [`crate::node::Fact::reference`].
    pub reference: bool,
}

/// The most tensors in one list argument.
const MAX_LIST_LENGTH: usize = 1 << 20;

/// An argument whose dtype is the value of attribute `attr`.
pub const fn arg(name: &'static str, attr: &'static str) -> Arg {
    Arg {
        name,
        ty: ArgType::Attr(attr),
        count: None,
        host: false,
        reference: false,
    }
}

/// A list argument: as many tensors as attribute `attr` has dtypes, of those dtypes.
pub const fn args_of(name: &'static str, attr: &'static str) -> Arg {
    Arg {
        ty: ArgType::List(attr),
        ..arg(name, attr)
    }
}

/// An argument of a fixed dtype.
pub const fn arg_of(name: &'static str, dtype: DType) -> Arg {
    Arg {
        name,
        ty: ArgType::Is(dtype),
        count: None,
        host: false,
        reference: false,
    }
}

impl Arg {
    /// The same as a list, whose length is the value of attribute `count`.
    pub const fn list(self, count: &'static str) -> Arg {
        Arg {
            count: Some(count),
            ..self
        }
    }

    /// The same as a value that shapes the kernel; see [`Arg::host`].
    pub const fn host(self) -> Arg {
        Arg { host: true, ..self }
    }

    /// The same as a reference to a variable.
    pub const fn reference(self) -> Arg {
        Arg {
            reference: true,
            ..self
        }
    }

    /// The number of tensors of this argument in a node with these attributes.
    pub fn repeats(&self, attrs: &Attrs) -> usize {
        let count = match (self.ty, self.count) {
            (ArgType::List(types), _) => attrs.types(types).len(),
            (_, Some(count)) => usize::try_from(attrs.int(count)).unwrap_or(0),
            (_, None) => 1,
        };
        count.min(MAX_LIST_LENGTH)
    }

    /// The dtype of tensor `i` of this argument; `None` if the attributes do not determine it.
    pub fn dtype(&self, i: usize, attrs: &Attrs) -> Option<DType> {
        match self.ty {
            ArgType::Is(dtype) => Some(dtype),
            ArgType::Attr(attr) => attrs.dtype(attr),
            ArgType::List(attr) => attrs.types(attr).get(i).copied(),
        }
    }

    /// `true` for a list of any number of tensors.
    pub fn is_list(&self) -> bool {
        self.count.is_some() || matches!(self.ty, ArgType::List(_))
    }
}

/// The default of an attribute.
#[derive(Clone, Copy, Debug)]
pub enum Default {
    /// None: the attribute must be given, or follow from the inputs.
    Required,
    /// A dtype.
    Type(DType),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f32),
    /// A flag.
    Bool(bool),
    /// A string.
    Str(&'static str),
    /// A list of integers.
    Ints(&'static [i64]),
    /// A list of numbers.
    Floats(&'static [f32]),
    /// The unknown shape.
    UnknownShape,
    /// The shape of a scalar.
    ScalarShape,
    /// A list without items, of this kind.
    Empty(AttrKind),
}

impl Default {
    /// The default as a value; `None` for [`Default::Required`].
    pub fn value(self) -> Option<Attr> {
        Some(match self {
            Default::Required => return None,
            Default::Type(v) => Attr::Type(v),
            Default::Int(v) => Attr::Int(v),
            Default::Float(v) => Attr::Float(v),
            Default::Bool(v) => Attr::Bool(v),
            Default::Str(v) => Attr::Str(v.to_owned()),
            Default::Ints(v) => Attr::Ints(v.to_vec()),
            Default::Floats(v) => Attr::Floats(v.to_vec()),
            Default::UnknownShape => Attr::Shape(Shape::unknown()),
            Default::ScalarShape => Attr::Shape(Shape::scalar()),
            Default::Empty(kind) => match kind {
                AttrKind::Types => Attr::Types(Vec::new()),
                AttrKind::Floats => Attr::Floats(Vec::new()),
                AttrKind::Bools => Attr::Bools(Vec::new()),
                AttrKind::Strs => Attr::Strs(Vec::new()),
                AttrKind::Shapes => Attr::Shapes(Vec::new()),
                AttrKind::Tensors => Attr::Tensors(Vec::new()),
                AttrKind::Funcs => Attr::Funcs(Vec::new()),
                AttrKind::Func => Attr::Func(Func::named("")),
                _ => Attr::Ints(Vec::new()),
            },
        })
    }
}

/// The restriction of an attribute's value, beyond its kind.
#[derive(Clone, Copy, Debug)]
pub enum Allowed {
    /// No restriction.
    Any,
    /// One of these dtypes.
    Types(&'static [DType]),
    /// One of these strings.
    Strs(&'static [&'static str]),
    /// At least this number.
    AtLeast(i64),
}

/// An attribute of an op.
#[derive(Clone, Copy, Debug)]
pub struct AttrDef {
    /// The name: `strides`.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: AttrKind,
    /// Its default.
    pub default: Default,
    /// The restriction of its value.
    pub allowed: Allowed,
}

/// A dtype attribute that is one of `allowed` and follows from the inputs, or must be given.
pub const fn type_attr(name: &'static str, allowed: &'static [DType]) -> AttrDef {
    AttrDef {
        name,
        kind: AttrKind::Type,
        default: Default::Required,
        allowed: Allowed::Types(allowed),
    }
}

/// A dtype attribute with a default.
pub const fn type_attr_or(
    name: &'static str,
    allowed: &'static [DType],
    default: DType,
) -> AttrDef {
    AttrDef {
        default: Default::Type(default),
        ..type_attr(name, allowed)
    }
}

/// An attribute that must be given.
pub const fn attr(name: &'static str, kind: AttrKind) -> AttrDef {
    AttrDef {
        name,
        kind,
        default: Default::Required,
        allowed: Allowed::Any,
    }
}

/// The number of tensors of a list argument; at least 1.
pub const fn count_attr(name: &'static str) -> AttrDef {
    AttrDef {
        allowed: Allowed::AtLeast(1),
        ..attr(name, AttrKind::Int)
    }
}

/// The number of tensors of a list argument that may be empty.
pub const fn any_count_attr(name: &'static str) -> AttrDef {
    AttrDef {
        allowed: Allowed::AtLeast(0),
        ..attr(name, AttrKind::Int)
    }
}

/// An integer attribute with a default.
pub const fn int_attr(name: &'static str, default: i64) -> AttrDef {
    AttrDef {
        default: Default::Int(default),
        ..attr(name, AttrKind::Int)
    }
}

/// A list attribute that is empty by default.
pub const fn list_attr(name: &'static str, kind: AttrKind) -> AttrDef {
    AttrDef {
        default: Default::Empty(kind),
        ..attr(name, kind)
    }
}

/// The dtypes of an argument of [`args_of`]: they follow from the inputs, or must be given.
pub const fn types_attr(name: &'static str) -> AttrDef {
    attr(name, AttrKind::Types)
}

/// A number attribute with a default.
pub const fn float_attr(name: &'static str, default: f32) -> AttrDef {
    AttrDef {
        default: Default::Float(default),
        ..attr(name, AttrKind::Float)
    }
}

/// A flag attribute with a default.
pub const fn bool_attr(name: &'static str, default: bool) -> AttrDef {
    AttrDef {
        default: Default::Bool(default),
        ..attr(name, AttrKind::Bool)
    }
}

/// A string attribute with a default; if `allowed` is not empty, one of those strings.
pub const fn str_attr(
    name: &'static str,
    default: &'static str,
    allowed: &'static [&'static str],
) -> AttrDef {
    AttrDef {
        name,
        kind: AttrKind::Str,
        default: Default::Str(default),
        allowed: if allowed.is_empty() {
            Allowed::Any
        } else {
            Allowed::Strs(allowed)
        },
    }
}

/// A list of integers with a default.
pub const fn ints_attr(name: &'static str, default: &'static [i64]) -> AttrDef {
    AttrDef {
        default: Default::Ints(default),
        ..attr(name, AttrKind::Ints)
    }
}

impl OpDef {
    /// A pure op without inputs, outputs, attributes or gradient, to build definitions on.
    pub const EMPTY: OpDef = OpDef {
        name: "",
        summary: "",
        inputs: &[],
        outputs: &[],
        attrs: &[],
        shape: |_| Ok(()),
        gradient: Gradient::Missing,
        effect: Effect::Pure,
        same_as: |_| None,
        on_handles: None,
        calls: Calls::Whole,
    };

    /// The definition of an attribute.
    pub fn attr(&self, name: &str) -> Option<&'static AttrDef> {
        self.attrs.iter().find(|a| a.name == name)
    }
}

/// The ops that a graph may use, by name.
#[derive(Clone, Debug)]
pub struct Registry {
    ops: BTreeMap<&'static str, &'static OpDef>,
}

impl Registry {
    /// A registry of these ops; of two with one name the later one wins.
    pub fn new(ops: impl IntoIterator<Item = &'static OpDef>) -> Registry {
        Registry {
            ops: ops.into_iter().map(|op| (op.name, op)).collect(),
        }
    }

    /// The op of this name.
    pub fn get(&self, name: &str) -> Option<&'static OpDef> {
        self.ops.get(name).copied()
    }

    /// Every op, by name.
    pub fn iter(&self) -> impl Iterator<Item = &'static OpDef> + '_ {
        self.ops.values().copied()
    }
}

/// Finds an op by its name.
pub type FindOp<'a> = &'a dyn Fn(&str) -> Option<&'static OpDef>;
