//! Shape inference: the view of a node that a shape rule gets, and the errors of shape rules.
//!
//! In the example the op `Pair` stacks two tensors of one shape along a new first dimension.
//!
//! ```
//! use thalweg_graph::check::infer;
//! use thalweg_graph::op::arg;
//! use thalweg_graph::{Attrs, Fact, OpDef};
//! use thalweg_tensor::{DType, Shape};
//!
//! static PAIR: OpDef = OpDef {
//!     name: "Pair",
//!     inputs: &[arg("x", "T"), arg("y", "T")],
//!     outputs: &[arg("pair", "T")],
//!     shape: |cx| {
//!         let one = cx.same(0, 1)?;
//!         let dims = one.dims().map(|d| [&[Some(2)], d].concat());
//!         cx.set(0, dims.map_or(Shape::unknown(), Shape::partial));
//!         Ok(())
//!     },
//!     ..OpDef::EMPTY
//! };
//!
//! let of = |dims: [i64; 2]| Fact::new(DType::F32, Shape::from(dims));
//! let outputs = infer(&PAIR, &[of([-1, 4]), of([3, -1])], &Attrs::default()).unwrap();
//! assert_eq!(outputs[0].shape, Shape::from([2, 3, 4]));
//! assert!(infer(&PAIR, &[of([3, 4]), of([5, 4])], &Attrs::default()).is_err());
//! ```

use smallvec::SmallVec;
use thiserror::Error;

use crate::attr::{Attr, Func};
use crate::node::{Attrs, Fact};
use crate::op::OpDef;
use thalweg_tensor::Tensor;
use thalweg_tensor::dtype::DType;
use thalweg_tensor::shape::Shape;
use thalweg_tensor::text::counted;

/// The reason why an op cannot take its inputs or attributes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InferError {
    /// An input of the wrong rank.
    #[error("input {input} has shape {found}, but must have {}", counted(.expected, "dimension"))]
    Rank {
        /// The index of the input.
        input: usize,
        /// The ranks that the op takes: "2", "at least 1".
        expected: String,
        /// The input's shape.
        found: Shape,
    },
    /// Two shapes that cannot be broadcast together.
    #[error(
        "shapes {left} and {right} cannot be broadcast together: counted from the last, each pair of dimensions must be equal or one of them 1"
    )]
    Broadcast {
        /// The first input's shape.
        left: Shape,
        /// The second input's shape.
        right: Shape,
    },
    /// Two shapes that must agree and do not.
    #[error("{what}: {left} does not fit {right}")]
    Mismatch {
        /// A description of the parts that must agree.
        what: String,
        /// The one shape.
        left: Shape,
        /// The other one.
        right: Shape,
    },
    /// An attribute whose value the op cannot use.
    #[error("attribute {attr}: {reason}")]
    Attr {
        /// The attribute.
        attr: &'static str,
        /// The mistake, and how to correct it.
        reason: String,
    },
    /// A request that the op could meet, and does not: the missing part, and an alternative.
    #[error("{0}")]
    Unsupported(String),
    /// An input whose value the op cannot use.
    #[error("input {input}: {reason}")]
    Value {
        /// The index of the input.
        input: usize,
        /// The mistake, and how to correct it.
        reason: String,
    },
}

/// A node under inference: its attributes, the facts of its inputs, and the facts that the rule
/// sets for its outputs.
pub struct Infer<'a> {
    pub(crate) op: &'static OpDef,
    pub(crate) attrs: &'a Attrs,
    pub(crate) inputs: &'a [Fact],
    pub(crate) outputs: SmallVec<[Fact; 1]>,
}

/// Largest number of dimensions of a shape that is given as a value, as in TensorFlow; so many elements of a value are
/// known in part.
pub const MAX_SHAPE_ELEMENTS: usize = 254;

impl<'a> Infer<'a> {
    /// The op of the node.
    pub fn op(&self) -> &'static OpDef {
        self.op
    }

    /// The number of inputs.
    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// The number of outputs.
    pub fn outputs(&self) -> usize {
        self.outputs.len()
    }

    /// The shape of input `i`; unknown if there is no such input.
    pub fn shape(&self, i: usize) -> &'a Shape {
        const UNKNOWN: &Shape = &Shape::UNKNOWN;
        self.inputs.get(i).map_or(UNKNOWN, |f| &f.shape)
    }

    /// The dtype of input `i`.
    pub fn dtype(&self, i: usize) -> DType {
        self.inputs.get(i).map_or(DType::F32, |f| f.dtype)
    }

    /// The value of input `i`, if it is a known constant.
    pub fn value(&self, i: usize) -> Option<&'a Tensor> {
        self.inputs.get(i).and_then(|f| f.value.as_ref())
    }

    /// The value of an integer input (axes, a shape) as `i64`, if it is a known constant.
    pub fn ints(&self, i: usize) -> Option<Vec<i64>> {
        self.value(i).and_then(Tensor::to_ints)
    }

    /// The elements of integer input `i`, a scalar or a vector, where at least one is known.
    pub fn elements(&self, i: usize) -> Option<Vec<Option<i64>>> {
        match self.ints(i) {
            Some(all) => Some(all.into_iter().map(Some).collect()),
            None => self.inputs.get(i)?.elements.as_deref().map(<[_]>::to_vec),
        }
    }

    /// Sets the elements of output `i`, a scalar or a vector, where at least one of them is known. Its shape is set apart.
    pub fn set_elements(&mut self, i: usize, elements: Vec<Option<i64>>) {
        let fits = elements.len() <= MAX_SHAPE_ELEMENTS && elements.iter().any(Option::is_some);
        if let Some(f) = self.outputs.get_mut(i)
            && fits
            && matches!(f.dtype, DType::I32 | DType::I64)
        {
            f.elements = Some(elements.into());
        }
    }

    /// The dtype and shape of the variable behind input `i`; `None` if they are not known (the
    /// argument of a function).
    pub fn variable(&self, i: usize) -> Option<(DType, Shape)> {
        self.inputs.get(i).and_then(|f| f.variable.clone())
    }

    /// The shape of the variable behind input `i`, if it is known.
    pub fn variable_shape(&self, i: usize) -> Shape {
        self.variable(i)
            .map_or(Shape::unknown(), |(_, shape)| shape)
    }

    /// The known part of the shape of the tensors in the stack or array behind input `i`.
    pub fn held(&self, i: usize) -> Option<Shape> {
        self.inputs.get(i).and_then(|f| f.held.clone())
    }

    /// The number of tensors in the array behind input `i`, if it is known and does not grow.
    pub fn count(&self, i: usize) -> Option<usize> {
        self.inputs.get(i)?.count
    }

    /// Sets the number of tensors in the array behind output `i`, which does not grow.
    pub fn set_count(&mut self, i: usize, count: Option<usize>) {
        if let Some(f) = self.outputs.get_mut(i) {
            f.count = count;
        }
    }

    /// Sets the dtype and shape of the variable behind output `i`, which is its handle or a
    /// reference to it.
    pub fn set_variable(&mut self, i: usize, dtype: DType, shape: Shape) {
        if let Some(f) = self.outputs.get_mut(i) {
            f.shape = match f.reference {
                true => shape.clone(),
                false => Shape::scalar(),
            };
            f.variable = Some((dtype, shape));
        }
    }

    /// The fact of input `i`.
    pub fn fact(&self, i: usize) -> Option<&'a Fact> {
        self.inputs.get(i)
    }

    /// Sets the fact of output `i`, except its dtype.
    pub fn set_fact(&mut self, i: usize, fact: &Fact) {
        if let Some(f) = self.outputs.get_mut(i) {
            let (dtype, reference) = (f.dtype, f.reference);
            *f = Fact {
                dtype,
                reference,
                ..fact.clone()
            };
        }
    }

    /// The attributes.
    pub fn attrs(&self) -> &'a Attrs {
        self.attrs
    }

    /// Sets the shape of output `i`.
    pub fn set(&mut self, i: usize, shape: Shape) {
        if let Some(f) = self.outputs.get_mut(i) {
            f.shape = shape;
        }
    }

    /// Sets the value of output `i`, and with it its shape.
    pub fn set_value(&mut self, i: usize, value: Tensor) {
        if let Some(f) = self.outputs.get_mut(i) {
            f.shape = value.shape();
            f.value = Some(value);
        }
    }

    /// The shape of input `i` if its rank is `rank` or unknown (then as a shape of that rank).
    ///
    /// # Errors
    /// [`InferError::Rank`].
    pub fn ranked(&self, i: usize, rank: usize) -> Result<Shape, InferError> {
        self.shape(i)
            .merge(&Shape::of_rank(rank))
            .ok_or_else(|| InferError::Rank {
                input: i,
                expected: rank.to_string(),
                found: self.shape(i).clone(),
            })
    }

    /// The shape that inputs `i` and `j` must share, merged from both.
    ///
    /// # Errors
    /// [`InferError::Mismatch`].
    pub fn same(&self, i: usize, j: usize) -> Result<Shape, InferError> {
        let (left, right) = (self.shape(i), self.shape(j));
        left.merge(right).ok_or_else(|| InferError::Mismatch {
            what: format!("inputs {i} and {j} must have the same shape"),
            left: left.clone(),
            right: right.clone(),
        })
    }

    /// An axis of input `i` as an index; negative axes count from the end.
    ///
    /// # Errors
    /// [`InferError::Value`] (of input `from`) if the input has no such axis.
    pub fn axis(&self, from: usize, axis: i64, rank: usize) -> Result<usize, InferError> {
        resolve_axis(axis, rank).ok_or_else(|| InferError::Value {
            input: from,
            reason: format!(
                "axis {axis} is not one of a tensor with {}: use {}..{rank}",
                counted(rank, "dimension"),
                -(rank as i64)
            ),
        })
    }
}

/// An axis as an index below `rank`; a negative axis counts from the end.
pub fn resolve_axis(axis: i64, rank: usize) -> Option<usize> {
    let resolved = if axis < 0 {
        axis.checked_add(rank as i64)?
    } else {
        axis
    };
    usize::try_from(resolved).ok().filter(|&a| a < rank)
}

impl Attrs {
    /// The integer attribute `name`; 0 if there is none.
    pub fn int(&self, name: &str) -> i64 {
        match self.get(name) {
            Some(Attr::Int(v)) => *v,
            _ => 0,
        }
    }

    /// The float attribute `name`; 0 if there is none.
    pub fn float(&self, name: &str) -> f32 {
        match self.get(name) {
            Some(Attr::Float(v)) => *v,
            _ => 0.0,
        }
    }

    /// The boolean attribute `name`; `false` if there is none.
    pub fn bool(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Attr::Bool(true)))
    }

    /// The string attribute `name`; empty if there is none.
    pub fn str(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Attr::Str(v)) => v,
            _ => "",
        }
    }

    /// The integer list `name`; empty if there is none.
    pub fn ints(&self, name: &str) -> &[i64] {
        match self.get(name) {
            Some(Attr::Ints(v)) => v,
            _ => &[],
        }
    }

    /// The dtype attribute `name`.
    pub fn dtype(&self, name: &str) -> Option<DType> {
        match self.get(name) {
            Some(Attr::Type(v)) => Some(*v),
            _ => None,
        }
    }

    /// The shape attribute `name`; unknown if there is none.
    pub fn shape(&self, name: &str) -> Shape {
        match self.get(name) {
            Some(Attr::Shape(v)) => v.clone(),
            _ => Shape::unknown(),
        }
    }

    /// The dtype list `name`; empty if there is none.
    pub fn types(&self, name: &str) -> &[DType] {
        match self.get(name) {
            Some(Attr::Types(v)) => v,
            _ => &[],
        }
    }

    /// The list of byte strings `name`; empty if there is none.
    pub fn strs(&self, name: &str) -> &[Vec<u8>] {
        match self.get(name) {
            Some(Attr::Strs(v)) => v,
            _ => &[],
        }
    }

    /// The shape list `name`; empty if there is none.
    pub fn shapes(&self, name: &str) -> &[Shape] {
        match self.get(name) {
            Some(Attr::Shapes(v)) => v,
            _ => &[],
        }
    }

    /// The float list `name`; empty if there is none.
    pub fn floats(&self, name: &str) -> &[f32] {
        match self.get(name) {
            Some(Attr::Floats(v)) => v,
            _ => &[],
        }
    }

    /// The numbers of the needed outputs, by attribute [`LIVE_OUTPUTS`](crate::op::LIVE_OUTPUTS); `None` if all are.
    pub fn live_outputs(&self) -> Option<&[i64]> {
        match self.get(crate::op::LIVE_OUTPUTS) {
            Some(Attr::Ints(live)) => Some(live),
            _ => None,
        }
    }

    /// `false` for an output that [`Attrs::live_outputs`] leaves out.
    pub fn is_live(&self, output: usize) -> bool {
        let live = self.live_outputs();
        live.is_none_or(|live| live.contains(&(output as i64)))
    }

    /// The function attribute `name`.
    pub fn func(&self, name: &str) -> Option<&Func> {
        match self.get(name) {
            Some(Attr::Func(v)) => Some(v),
            _ => None,
        }
    }

    /// The function list `name`; empty if there is none.
    pub fn funcs(&self, name: &str) -> &[Func] {
        match self.get(name) {
            Some(Attr::Funcs(v)) => v,
            _ => &[],
        }
    }

    /// The tensor attribute `name`.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        match self.get(name) {
            Some(Attr::Tensor(v)) => Some(v),
            _ => None,
        }
    }
}
