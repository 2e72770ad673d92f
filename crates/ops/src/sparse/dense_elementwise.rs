//! SparseTensorDenseAdd, SparseDenseCwiseAdd, SparseDenseCwiseMul, SparseDenseCwiseDiv: a sparse tensor with a dense one.

use smallvec::smallvec;
use thalweg_cpu::number::{Arithmetic, Number};
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, Gradient, InputGradients, arg, arg_of, type_attr};
use thalweg_graph::{GradCx, OpDef, Output};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::sparse_input::{SparseInput, infer_sparse, invalid, listed, position, strides};
use crate::array::{ArrayOps, SourceOps};
use crate::math::MathOps;
use crate::support::gradient_nodes::{int_scalar, int_vector, shape_of};
use crate::support::tensors::AccountedVec;

/// Adds a sparse tensor to a dense one.
pub(crate) static TENSOR_DENSE_ADD: Op = Op {
    def: OpDef {
        name: "SparseTensorDenseAdd",
        summary: "A dense tensor with the entries of a sparse one of its shape added.",
        inputs: &[
            arg("a_indices", "Tindices"),
            arg("a_values", "T"),
            arg("a_shape", "Tindices"),
            arg("b", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", DType::ALL_NUMBERS),
            type_attr("Tindices", DType::INDICES),
        ],
        shape: |cx| {
            infer_sparse(cx, 0)?;
            cx.set(0, cx.shape(3).clone());
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let picked = g.graph().op("GatherNd").input(g.grad()).input(g.input(0));
            smallvec![None, Some(picked.output()), None, Some(g.grad())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let (a, b) = (SparseInput::of(cx, 0)?, cx.tensor(3)?);
        let (own, dims) = (a.dims(), b.dims());
        if own.len() != dims.len() {
            return Err(invalid(format!(
                "Two operands should have the same ndims; got {} and {}",
                own.len(),
                dims.len()
            )));
        }
        if let Some(axis) = (0..own.len()).find(|&axis| own[axis] != dims[axis]) {
            return Err(invalid(format!(
                "Dimension {axis} does not equal (no broadcasting is supported): sparse side {} vs dense side {}",
                own[axis], dims[axis]
            )));
        }
        a.check_inside(cx)
            .map_err(|error| invalid(format!("Sparse tensor has an invalid index: {error}")))?;
        let (mut sum, strides) = (cx.zeros(b.dtype(), b.dims())?, strides(&a.shape));
        dispatch!(b.dtype(), ALL_NUMBERS, T => {
            let to = sum.as_mut_slice::<T>()?;
            to.copy_from_slice(b.as_slice::<T>()?);
            for (entry, &x) in a.values.as_slice::<T>()?.iter().enumerate() {
                let to = &mut to[position(a.index(entry), &strides)];
                *to = Arithmetic::add(*to, x);
            }
        }, else return Err(KernelError::DType(b.dtype())));
        Ok(vec![sum])
    })],
};

const INPUTS: &[Arg] = &[
    arg_of("sp_indices", DType::I64),
    arg("sp_values", "T"),
    arg_of("sp_shape", DType::I64),
    arg("dense", "T"),
];

/// The element of the dense tensor at input 3 for each entry of a sparse one, broadcast to its shape.
fn dense_places(
    cx: &TensorCx<'_>,
    sparse: &SparseInput<'_>,
) -> Result<AccountedVec<usize>, KernelError> {
    let dense = cx.tensor(3)?;
    let skipped = sparse.rank().checked_sub(dense.dims().len());
    let fits = |skipped: usize| {
        let mut sides = sparse.dims()[skipped..]
            .to_vec()
            .into_iter()
            .zip(dense.dims());
        sides.all(|(size, &own)| own == size || own == 1)
    };
    let skipped = skipped.filter(|&skipped| fits(skipped)).ok_or_else(|| {
        invalid(format!(
            "SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: [{}] vs. {}",
            listed(&sparse.shape).trim_matches(['[', ']']),
            dense.shape()
        ))
    })?;
    sparse.check_inside(cx)?;
    let own: Vec<i64> = dense.dims().iter().map(|&d| d as i64).collect();
    let mut strides = strides(&own);
    for (stride, &size) in strides.iter_mut().zip(&own) {
        *stride *= i64::from(size != 1);
    }
    let mut places = AccountedVec::filled(sparse.len(), 0, cx.memory())?;
    for (entry, place) in places.iter_mut().enumerate() {
        *place = position(&sparse.index(entry)[skipped..], &strides);
    }
    Ok(places)
}

/// Combines each entry with the element of the dense tensor in its place.
fn combined<T: Number>(
    cx: &TensorCx<'_>,
    combine: impl Fn(T, T) -> Result<T, KernelError>,
) -> Result<Vec<Tensor>, KernelError> {
    let sparse = SparseInput::of(cx, 0)?;
    let places = dense_places(cx, &sparse)?;
    let dense = cx.slice::<T>(3)?;
    let mut out = cx.zeros(T::DTYPE, &[sparse.len()])?;
    let values = sparse.values.as_slice::<T>()?.iter().zip(places.iter());
    for (to, (&x, &place)) in out.as_mut_slice::<T>()?.iter_mut().zip(values) {
        *to = combine(x, dense[place])?;
    }
    Ok(vec![out])
}

const ADD: OpDef = OpDef {
    name: "SparseDenseCwiseAdd",
    summary: "The entries of a sparse tensor plus the elements of a dense one in their places.",
    inputs: INPUTS,
    outputs: &[arg("output", "T")],
    attrs: &[type_attr("T", DType::NUMBERS)],
    shape: |cx| {
        infer_sparse(cx, 0)?;
        cx.set(
            0,
            Shape::partial([cx.shape(0).dim(0).or(cx.shape(1).dim(0))]),
        );
        Ok(())
    },
    gradient: Gradient::Missing,
    ..OpDef::EMPTY
};

/// Adds elements of a dense tensor to the entries of a sparse one.
pub(crate) static CWISE_ADD: Op = Op {
    def: ADD,
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(1)?.dtype();
        dispatch!(dtype, NUMBERS, T => combined::<T>(cx, |x, y| Ok(x.add(y))), else
            Err(KernelError::DType(dtype)))
    })],
};

/// Multiplies the entries of a sparse tensor by elements of a dense one.
pub(crate) static CWISE_MUL: Op = Op {
    def: OpDef {
        name: "SparseDenseCwiseMul",
        summary: "The entries of a sparse tensor times the elements of a dense one in their places.",
        gradient: Gradient::Rule(|g| {
            let y = Broadcast::of(g);
            let dx = g.grad() * y.picked;
            smallvec![
                None,
                Some(dx),
                None,
                Some(y.summed(g, g.grad() * g.input(1)))
            ]
        }),
        ..ADD
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(1)?.dtype();
        dispatch!(dtype, NUMBERS, T => combined::<T>(cx, |x, y| Ok(x.mul(y))), else
            Err(KernelError::DType(dtype)))
    })],
};

/// Divides the entries of a sparse tensor by elements of a dense one.
pub(crate) static CWISE_DIV: Op = Op {
    def: OpDef {
        name: "SparseDenseCwiseDiv",
        summary: "The entries of a sparse tensor divided by the elements of a dense one in their places.",
        gradient: Gradient::Rule(divide_gradient),
        ..ADD
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(1)?.dtype();
        if dtype.is_float() {
            return dispatch!(dtype, FLOATS, T => combined::<T>(cx, |x, y| Ok(x / y)), else
                Err(KernelError::DType(dtype)));
        }
        dispatch!(dtype, INTS, T => combined::<T>(cx, |x, y| match y {
            0 => Err(invalid("Integer division by zero")),
            y => Ok(x.wrapping_div(y)),
        }), else Err(KernelError::DType(dtype)))
    })],
};

fn divide_gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let y = Broadcast::of(g);
    let dx = g.grad() / y.picked;
    let dy = g.grad() * (-g.input(1) / (y.picked * y.picked));
    smallvec![None, Some(dx), None, Some(y.summed(g, dy))]
}

/// A dense operand at the places of a sparse one.
struct Broadcast<'g> {
    /// Index of the element for each entry.
    indices: Output<'g>,
    /// The element for each entry.
    picked: Output<'g>,
}

impl<'g> Broadcast<'g> {
    fn of(g: &GradCx<'_, 'g>) -> Broadcast<'g> {
        let (graph, indices, shape, y) = (g.graph(), g.input(0), g.input(2), g.input(3));
        let int = |value| int_scalar(graph, DType::I32, value);
        let own = shape_of(y, DType::I64);
        let added = shape.size_tensor() - own.size_tensor();
        let added = added.reshape(int_vector(graph, DType::I32, &[1]));
        let ones = graph
            .op("Fill")
            .input(added)
            .input(int_scalar(graph, DType::I64, 1));
        let all = graph.concat(&[ones.output(), own], 0);
        let scaled = indices.floor_div(shape.floor_div(all));
        let zero = int(0).reshape(int_vector(graph, DType::I32, &[1]));
        let begin = graph.concat(&[zero, added], 0);
        let indices = scaled.slice(begin, int_vector(graph, DType::I32, &[-1, -1]));
        let picked = graph.op("GatherNd").input(y).input(indices).output();
        Broadcast { indices, picked }
    }

    /// The sum of these gradients in their places in the dense operand.
    fn summed(&self, g: &GradCx<'_, 'g>, dy: Output<'g>) -> Output<'g> {
        let node = g.graph().op("ScatterNd").input(self.indices).input(dy);
        node.input(shape_of(g.input(3), DType::I64)).output()
    }
}
