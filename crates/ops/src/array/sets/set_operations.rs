//! DenseToDenseSetOperation, DenseToSparseSetOperation, SparseToSparseSetOperation.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, arg_of, attr, type_attr};
use thalweg_graph::{AttrKind, Attrs, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Element, Shape, Strings, Tensor, dispatch};

use super::members::{Member, Members, SetOperation};
use super::operand::{MEMBERS, Operand, VALIDATE, groups};

const ATTRS: &[AttrDef] = &[
    attr("set_operation", AttrKind::Str),
    VALIDATE,
    type_attr("T", MEMBERS),
];

/// Sparse tensor with the resulting sets.
const RESULT: &[Arg] = &[
    arg_of("result_indices", DType::I64),
    arg("result_values", "T"),
    arg_of("result_shape", DType::I64),
];

/// Operation that the node asks for.
fn operation(attrs: &Attrs) -> Result<SetOperation, InferError> {
    let name = attrs.str("set_operation");
    SetOperation::from_name(name).ok_or_else(|| InferError::Attr {
        attr: "set_operation",
        reason: format!("is \"{name}\", but must be a-b, b-a, intersection or union"),
    })
}

/// Shape rule of an operation on two operands.
fn operation_shape(cx: &mut Infer<'_>, operands: [Operand; 2]) -> Result<(), InferError> {
    operation(cx.attrs())?;
    let (first, second) = (operands[0].shape(cx)?, operands[1].shape(cx)?);
    if groups(&first).merge(&groups(&second)).is_none() {
        return Err(InferError::Mismatch {
            what: "both operands must have the same dimensions before the last".to_owned(),
            left: first,
            right: second,
        });
    }
    let rank = first.rank().or(second.rank());
    cx.set(0, Shape::partial([None, rank]));
    cx.set(1, Shape::of_rank(1));
    cx.set(2, Shape::partial([rank]));
    Ok(())
}

/// Sets of both operands combined, as a sparse tensor.
fn combined(cx: &TensorCx<'_>, operands: [Operand; 2]) -> Result<Vec<Tensor>, KernelError> {
    let [first, second] = operands.map(Operand::values);
    if cx.tensor(first)?.dtype() == DType::String {
        let strings = [cx.strings(first)?, cx.strings(second)?];
        let all = apply(cx, operands, strings.map(Strings::iter))?;
        let values = cx.strings_of(&[all.len()], all.iter().map(|member| member.value))?;
        return sparse(cx, operands[0], &all, values);
    }
    dispatch!(cx.tensor(first)?.dtype(), [I8 I16 I32 I64 U8 U16], T => {
        let numbers = [cx.slice::<T>(first)?, cx.slice::<T>(second)?];
        let all = apply(cx, operands, numbers.map(|all| all.iter().copied()))?;
        let values = values(cx, &all)?;
        sparse(cx, operands[0], &all, values)
    }, else Err(KernelError::DType(cx.tensor(first)?.dtype())))
}

/// Members of both operands, combined by the node's operation.
fn apply<T: Copy + Ord + Default>(
    cx: &TensorCx<'_>,
    operands: [Operand; 2],
    [first, second]: [impl ExactSizeIterator<Item = T>; 2],
) -> Result<Members<T>, KernelError> {
    let operation = operation(cx.attrs()).map_err(|e| KernelError::Invalid(e.to_string()))?;
    let shapes = [operands[0].dims(cx)?, operands[1].dims(cx)?];
    if shapes[0].len() != shapes[1].len()
        || !shapes[0]
            .iter()
            .zip(&shapes[1])
            .rev()
            .skip(1)
            .all(|(a, b)| a == b)
    {
        return Err(KernelError::Invalid(format!(
            "sets of shapes {} and {}: both operands must have the same dimensions before the last",
            Shape::known(&shapes[0]),
            Shape::known(&shapes[1])
        )));
    }
    let first = operands[0].members(cx, first)?;
    let second = operands[1].members(cx, second)?;
    operation.apply([&first, &second], cx.memory(), &mut cx.stop_check())
}

/// Values of the members, as a vector.
fn values<T: Element>(cx: &TensorCx<'_>, members: &[Member<T>]) -> Result<Tensor, KernelError> {
    let mut values = cx.zeros(T::DTYPE, &[members.len()])?;
    for (to, member) in values.as_mut_slice::<T>()?.iter_mut().zip(members) {
        *to = member.value;
    }
    Ok(values)
}

/// Sparse tensor of the members: the last dimension is as long as the largest set.
fn sparse<T>(
    cx: &TensorCx<'_>,
    operand: Operand,
    members: &[Member<T>],
    values: Tensor,
) -> Result<Vec<Tensor>, KernelError> {
    let mut dims = operand.dims(cx)?;
    let rank = dims.len();
    let mut indices = cx.zeros(DType::I64, &[members.len(), rank])?;
    let rows = indices.as_mut_slice::<i64>()?.chunks_exact_mut(rank);
    let (mut place, mut longest, mut before) = (0, 0, None);
    for (row, member) in rows.zip(members) {
        place = match before {
            Some(set) if set == member.set => place + 1,
            _ => 0,
        };
        before = Some(member.set);
        longest = longest.max(place + 1);
        row[rank - 1] = place as i64;
        let mut set = member.set;
        for (to, &len) in row.iter_mut().zip(&dims).take(rank - 1).rev() {
            *to = (set % len) as i64;
            set /= len;
        }
    }
    dims[rank - 1] = longest;
    let shape: Vec<i64> = dims.iter().map(|&d| d as i64).collect();
    Ok(vec![indices, values, cx.tensor_of(&[rank], &shape)?])
}

/// Operation on the sets of two dense tensors.
pub(crate) static DENSE_TO_DENSE: Op = Op {
    def: OpDef {
        name: "DenseToDenseSetOperation",
        summary: "The sets along the last dimension of two tensors combined, as a sparse tensor.",
        inputs: &[arg("set1", "T"), arg("set2", "T")],
        outputs: RESULT,
        attrs: ATTRS,
        shape: |cx| operation_shape(cx, [Operand::Dense(0), Operand::Dense(1)]),
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        combined(cx, [Operand::Dense(0), Operand::Dense(1)])
    })],
};

/// Operation on the sets of a dense tensor and of a sparse one.
pub(crate) static DENSE_TO_SPARSE: Op = Op {
    def: OpDef {
        name: "DenseToSparseSetOperation",
        summary: "The sets along the last dimension of a tensor and of a sparse one combined, as a sparse tensor.",
        inputs: &[
            arg("set1", "T"),
            arg_of("set2_indices", DType::I64),
            arg("set2_values", "T"),
            arg_of("set2_shape", DType::I64),
        ],
        outputs: RESULT,
        attrs: ATTRS,
        shape: |cx| operation_shape(cx, [Operand::Dense(0), Operand::Sparse(1)]),
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        combined(cx, [Operand::Dense(0), Operand::Sparse(1)])
    })],
};

/// Operation on the sets of two sparse tensors.
pub(crate) static SPARSE_TO_SPARSE: Op = Op {
    def: OpDef {
        name: "SparseToSparseSetOperation",
        summary: "The sets along the last dimension of two sparse tensors combined, as a sparse tensor.",
        inputs: &[
            arg_of("set1_indices", DType::I64),
            arg("set1_values", "T"),
            arg_of("set1_shape", DType::I64),
            arg_of("set2_indices", DType::I64),
            arg("set2_values", "T"),
            arg_of("set2_shape", DType::I64),
        ],
        outputs: RESULT,
        attrs: ATTRS,
        shape: |cx| operation_shape(cx, [Operand::Sparse(0), Operand::Sparse(3)]),
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        combined(cx, [Operand::Sparse(0), Operand::Sparse(3)])
    })],
};
