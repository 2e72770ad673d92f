//! `Output` and `Operation`: small `Copy` handles of outputs and nodes, with arithmetic operators.
//!
//! ```
//! # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
//! use thalweg_graph::Output;
//!
//! /// The energy of a spring: a model is a function from outputs to outputs.
//! fn energy<'g>(x: Output<'g>, stiffness: f64) -> Output<'g> {
//!     0.5 * (x * x) * stiffness
//! }
//!
//! let g = ops::graph();
//! let x = ops::placeholder(&g, "x", [-1]);
//! assert_eq!(energy(x, 3.0).shape(), x.shape());
//! assert!(g.errors().is_empty());
//! ```

use std::fmt;
use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::error::Reason;
use crate::graph::Graph;
use crate::literal::Literal;
use crate::node::{Fact, NodeId, OutputId};
use thalweg_tensor::dtype::DType;
use thalweg_tensor::shape::Shape;

/// A node's output.
///
/// It has a dtype and an inferred shape; a session computes its value.
///
/// ```
/// # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
/// use thalweg_tensor::{DType, Shape};
///
/// let g = ops::graph();
/// let x = ops::placeholder(&g, "x", [-1, 4]);
/// // Operators build nodes, and a name can be given to any value.
/// let y = (x * x + 1.0).named("y");
///
/// assert_eq!((y.dtype(), y.shape()), (DType::F32, Shape::from([-1, 4])));
/// assert_eq!(y.name(), "y:0");
/// assert_eq!(y.operation().name(), "y");
/// // It is small and `Copy`: `x` is used three times here.
/// assert_eq!((x + x).graph().snapshot().len(), 5);
/// ```
#[derive(Clone, Copy)]
pub struct Output<'g> {
    graph: &'g Graph,
    id: OutputId,
}

/// Handle of a node that is run for its effect, not for its outputs.
///
/// Updates of variables and training steps are operations.
///
/// ```
/// # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
/// let g = ops::graph();
/// let x = ops::placeholder(&g, "x", [4]);
/// let twice = g.op("Twice").input(x).build();
/// assert_eq!(twice.outputs().len(), 2);
/// assert_eq!(twice.output(1).name(), "Twice:1");
///
/// // A node without results, which only waits for others.
/// let both = g.op("NoOp").control(twice).control(x).name("both").build();
/// assert!(both.outputs().is_empty() && !both.is_update());
/// ```
#[derive(Clone, Copy)]
pub struct Operation<'g> {
    graph: &'g Graph,
    id: NodeId,
}

impl<'g> Output<'g> {
    pub(crate) fn new(graph: &'g Graph, id: OutputId) -> Output<'g> {
        Output { graph, id }
    }

    /// The graph that it belongs to.
    pub fn graph(self) -> &'g Graph {
        self.graph
    }

    /// Its number.
    pub fn id(self) -> OutputId {
        OutputId {
            node: self.graph.tagged(self.id.node),
            ..self.id
        }
    }

    /// The node whose output it is.
    pub fn operation(self) -> Operation<'g> {
        Operation::new(self.graph, self.id.node)
    }

    /// Its inferred fact; an unknown `f32` for an invalid output.
    pub fn fact(self) -> Fact {
        self.graph
            .fact(self.id)
            .unwrap_or(Fact::new(DType::F32, Shape::unknown()))
    }

    /// Its dtype.
    pub fn dtype(self) -> DType {
        self.fact().dtype
    }

    /// Its inferred shape.
    pub fn shape(self) -> Shape {
        self.fact().shape
    }

    /// Its name: `node:index`.
    pub fn name(self) -> String {
        self.graph.snapshot().output_name(self.id)
    }

    /// `true` if it could not be built; the graph has kept the error.
    pub fn is_invalid(self) -> bool {
        self.id.node.is_invalid()
    }

    /// Names the node, if it has just been built under its op's name and has no other output; any
    /// other value becomes an `Identity` of this name.
    ///
    /// ```
    /// # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
    /// let g = ops::graph();
    /// let x = ops::placeholder(&g, "x", [4]);
    /// let twice = (x + x).named("twice");
    /// assert_eq!(twice.name(), "twice:0");
    /// // There is no other node: `x` and `twice` are all.
    /// assert_eq!(g.snapshot().len(), 2);
    /// // `x` has a name already.
    /// assert_eq!(x.named("input").name(), "input:0");
    /// assert_eq!(g.snapshot().len(), 3);
    /// ```
    ///
    /// Under [control dependencies](Graph::control_dependencies) that the node does not have, it is
    /// an Identity that waits for them. A node that gets the name stays on its device, whatever
    /// device or colocation scope is around the call.
    #[track_caller]
    pub fn named(self, name: &str) -> Output<'g> {
        if self.graph.name_last(self.id, name) {
            return self;
        }
        self.graph.op("Identity").input(self).name(name).output()
    }

    /// A scalar constant of this output's dtype, for arithmetic with it.
    #[track_caller]
    pub fn constant_like(self, value: impl Into<Literal>) -> Output<'g> {
        if self.is_invalid() {
            return self;
        }
        let (dtype, value) = (self.dtype(), value.into());
        let Some(tensor) = value.of(dtype) else {
            let text = value.mismatch_message(dtype);
            return self.graph.fail("Const", "Const", Reason::Argument(text));
        };
        self.graph
            .op("Const")
            .attr("value", tensor)
            .attr("dtype", dtype)
            .output()
    }
}

impl<'g> Operation<'g> {
    pub(crate) fn new(graph: &'g Graph, id: NodeId) -> Operation<'g> {
        Operation { graph, id }
    }

    /// The graph that it belongs to.
    pub fn graph(self) -> &'g Graph {
        self.graph
    }

    /// Its number.
    pub fn id(self) -> NodeId {
        self.graph.tagged(self.id)
    }

    /// Its op.
    pub fn op_name(self) -> &'static str {
        let data = self.graph.snapshot();
        data.get(self.id).map_or("", |node| node.op.name)
    }

    /// The nodes that it needs, and itself, in the order of building.
    ///
    /// ```
    /// # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
    /// let g = ops::graph();
    /// let x = ops::placeholder(&g, "x", [4]);
    /// let _other = ops::placeholder(&g, "other", [4]);
    /// let y = (x + x).named("y");
    /// let names: Vec<String> = y.operation().upstream().iter().map(|n| n.name()).collect();
    /// assert_eq!(names, ["x", "y"]);
    /// ```
    pub fn upstream(self) -> Vec<Operation<'g>> {
        let data = self.graph.snapshot();
        let needed = data.needed([self.id], |_| false);
        let ids = data.ids().filter(|id| needed[id.index()]);
        ids.map(|id| self.graph.operation(id)).collect()
    }

    /// Its output `index`. The index is checked when the output is used.
    pub fn output(self, index: u32) -> Output<'g> {
        Output::new(
            self.graph,
            OutputId {
                node: self.id,
                index,
            },
        )
    }

    /// Its inputs, in order: where an imported graph is cut.
    pub fn inputs(self) -> Vec<Output<'g>> {
        let data = self.graph.snapshot();
        let inputs = data.get(self.id).map(|n| n.inputs.clone());
        let inputs = inputs.into_iter().flatten();
        inputs.map(|id| self.graph.output(id)).collect()
    }

    /// All of its outputs.
    pub fn outputs(self) -> Vec<Output<'g>> {
        let count = self
            .graph
            .snapshot()
            .get(self.id)
            .map_or(0, |n| n.outputs.len());
        (0..count as u32).map(|i| self.output(i)).collect()
    }

    /// Its name.
    pub fn name(self) -> String {
        self.graph
            .snapshot()
            .get(self.id)
            .map_or("<invalid>".to_owned(), |n| n.name.clone())
    }

    /// `true` if it could not be built; the graph has kept the error.
    pub fn is_invalid(self) -> bool {
        self.id.is_invalid()
    }
}

impl<'g> From<Output<'g>> for Operation<'g> {
    fn from(output: Output<'g>) -> Operation<'g> {
        output.operation()
    }
}

impl fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name(), self.fact())
    }
}

impl fmt::Debug for Operation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

#[track_caller]
fn binary<'g>(op: &str, a: Output<'g>, b: Output<'g>) -> Output<'g> {
    a.graph.op(op).input(a).input(b).output()
}

/// The right side of `+`, `-`, `*` and `/` beside an output: an output, a variable, or a number, which takes the output's
/// dtype. On the left side stands an output, a variable, or a number of type `f64` or `i32`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot stand beside an output in `+`, `-`, `*` or `/`",
    label = "neither an output, a variable nor a number",
    note = "a tensor or an array becomes an output by `g.constant(...)`"
)]
pub trait Operand<'g> {
    /// The operand as an output beside another one.
    #[track_caller]
    fn beside(self, other: Output<'g>) -> Output<'g>;
}

impl<'g> Operand<'g> for Output<'g> {
    fn beside(self, _: Output<'g>) -> Output<'g> {
        self
    }
}

macro_rules! number_operands {
    ($($number:ty)*) => {$(
        impl<'g> Operand<'g> for $number {
            #[track_caller]
            fn beside(self, other: Output<'g>) -> Output<'g> {
                other.constant_like(self)
            }
        }
    )*};
}

number_operands! { f64 f32 i64 i32 }

// A number on the left side: with one float and one integer type the compiler infers the types of `1` and `0.5`, also in
// the middle of an expression.
macro_rules! numbers_on_the_left {
    ($Trait:ident $method:ident $op:literal $($number:ty)*) => {$(
        impl<'g> $Trait<Output<'g>> for $number {
            type Output = Output<'g>;
            #[track_caller]
            fn $method(self, rhs: Output<'g>) -> Output<'g> {
                binary($op, rhs.constant_like(self), rhs)
            }
        }
    )*};
}

// The four binary operators. A trait's method cannot be generic over the operator, so a macro writes the impls.
macro_rules! operators {
    ($($Trait:ident $method:ident $op:literal;)*) => {$(
        impl<'g, R: Operand<'g>> $Trait<R> for Output<'g> {
            type Output = Output<'g>;
            #[track_caller]
            fn $method(self, rhs: R) -> Output<'g> {
                binary($op, self, rhs.beside(self))
            }
        }
        numbers_on_the_left! { $Trait $method $op f64 i32 }
    )*};
}

operators! {
    Add add "AddV2";
    Sub sub "Sub";
    Mul mul "Mul";
    Div div "RealDiv";
}

impl<'g> Neg for Output<'g> {
    type Output = Output<'g>;
    #[track_caller]
    fn neg(self) -> Output<'g> {
        self.graph.op("Neg").input(self).output()
    }
}
