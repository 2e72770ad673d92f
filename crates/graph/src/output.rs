//! Handles to outputs and nodes: small, `Copy`, and with operators, so that a model reads like the
//! mathematics.
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
use crate::node::{Fact, NodeId, OutputId};
use thalweg_tensor::Tensor;
use thalweg_tensor::dtype::{DType, Element};
use thalweg_tensor::shape::Shape;

/// A node's numbered result.
///
/// It knows its dtype and what there is to know of its shape; its value comes from a session.
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
/// assert_eq!((x + x).graph().snapshot().len(), 6);
/// ```
#[derive(Clone, Copy)]
pub struct Output<'g> {
    graph: &'g Graph,
    id: OutputId,
}

/// A node, for those who want it to run rather than its results.
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
/// // A node without results, for what it waits for.
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
        self.id
    }

    /// The node that it is a result of.
    pub fn operation(self) -> Operation<'g> {
        Operation::new(self.graph, self.id.node)
    }

    /// What is known of it; an unknown `f32` where it could not be made.
    pub fn fact(self) -> Fact {
        self.graph
            .fact(self.id)
            .unwrap_or(Fact::new(DType::F32, Shape::unknown()))
    }

    /// Its dtype.
    pub fn dtype(self) -> DType {
        self.fact().dtype
    }

    /// What is known of its shape.
    pub fn shape(self) -> Shape {
        self.fact().shape
    }

    /// Its name: `node:index`.
    pub fn name(self) -> String {
        self.graph.snapshot().output_name(self.id)
    }

    /// Whether it could not be made; the graph has kept the error.
    pub fn is_invalid(self) -> bool {
        self.id.node.is_invalid()
    }

    /// The same value as a node of this name.
    #[track_caller]
    pub fn named(self, name: &str) -> Output<'g> {
        self.graph.op("Identity").input(self).name(name).output()
    }

    /// A constant of this output's dtype and of no dimensions, for arithmetic with it.
    #[track_caller]
    pub fn constant_like(self, value: f64) -> Output<'g> {
        if self.is_invalid() {
            return self;
        }
        let dtype = self.dtype();
        let Some(tensor) = scalar_of(dtype, value) else {
            let text = format!("{value} is no value of a {dtype} tensor");
            return self.graph.fail("Const", "Const", Reason::Argument(text));
        };
        self.graph
            .op("Const")
            .attr("value", tensor)
            .attr("dtype", dtype)
            .output()
    }
}

/// `value` as a scalar tensor of `dtype`; `None` where the dtype does not hold it exactly enough
/// (a fraction for an integer, a number out of range).
pub fn scalar_of(dtype: DType, value: f64) -> Option<Tensor> {
    fn int<T: Element + TryFrom<i64>>(value: f64) -> Option<Tensor> {
        // 2^63 is the first f64 that an i64 does not hold.
        let whole = value.fract() == 0.0 && value.abs() < 9_223_372_036_854_775_808.0;
        let value = whole.then_some(value as i64)?;
        T::try_from(value).ok().map(Tensor::scalar)
    }
    match dtype {
        DType::F16 => Some(Tensor::scalar(half::f16::from_f64(value))),
        DType::BF16 => Some(Tensor::scalar(half::bf16::from_f64(value))),
        DType::F32 => Some(Tensor::scalar(value as f32)),
        DType::F64 => Some(Tensor::scalar(value)),
        DType::I8 => int::<i8>(value),
        DType::I16 => int::<i16>(value),
        DType::I32 => int::<i32>(value),
        DType::I64 => int::<i64>(value),
        DType::U8 => int::<u8>(value),
        DType::U16 => int::<u16>(value),
        DType::U32 => int::<u32>(value),
        DType::U64 => int::<u64>(value),
        _ => None,
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
        self.id
    }

    /// Its output `index`. That there is one is checked where the output is used.
    pub fn output(self, index: u32) -> Output<'g> {
        Output::new(
            self.graph,
            OutputId {
                node: self.id,
                index,
            },
        )
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

    /// Whether it could not be made; the graph has kept the error.
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

// The four binary operators, between outputs and with a number on either side. A trait's method
// cannot be generic over the operator, so a macro writes the impls.
macro_rules! operators {
    ($($Trait:ident $method:ident $op:literal;)*) => {$(
        impl<'g, R: Into<Output<'g>>> $Trait<R> for Output<'g> {
            type Output = Output<'g>;
            #[track_caller]
            fn $method(self, rhs: R) -> Output<'g> {
                binary($op, self, rhs.into())
            }
        }
        impl<'g> $Trait<f64> for Output<'g> {
            type Output = Output<'g>;
            #[track_caller]
            fn $method(self, rhs: f64) -> Output<'g> {
                binary($op, self, self.constant_like(rhs))
            }
        }
        impl<'g> $Trait<Output<'g>> for f64 {
            type Output = Output<'g>;
            #[track_caller]
            fn $method(self, rhs: Output<'g>) -> Output<'g> {
                binary($op, rhs.constant_like(self), rhs)
            }
        }
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
