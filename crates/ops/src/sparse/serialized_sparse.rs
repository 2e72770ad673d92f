//! SerializeSparse, SerializeManySparse, DeserializeSparse, DeserializeManySparse: sparse tensors as three variants, or as
//! three strings that are serialized tensors.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, AttrDef, arg, arg_of, type_attr, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Reservation, Shape, Tensor};

use super::sparse_input::invalid;
use crate::data::packed_tensors::{PACKING_OP, packed, unpacked};
use crate::data::serialized_tensors::{parsed, serialized};
use crate::flow::rows::{joined, slice_elements};
use crate::support::dtype_names::tensorflow_name;
use crate::support::shape_inputs::invalid_value;
use crate::support::tensors::reserved;

/// Indices, values and shape.
pub(super) type Sparse = [Tensor; 3];

/// Sparse tensors as variants or strings, which have these dimensions before the last one, of 3.
fn outputs(
    cx: &TensorCx<'_>,
    outer: &[usize],
    all: impl Iterator<Item = Result<Sparse, KernelError>>,
) -> Result<Vec<Tensor>, KernelError> {
    let dims = [outer, &[3]].concat();
    if cx.attrs().dtype(OUT_TYPE.name) == Some(DType::Variant) {
        let mut parts = Vec::new();
        for sparse in all {
            for part in sparse? {
                parts.push(packed(vec![part])?);
            }
        }
        let handles = parts.into_iter();
        return Ok(vec![Tensor::handles(
            DType::Variant,
            &dims,
            handles,
            Some(cx.memory()),
        )?]);
    }
    let mut strings = cx.string_tensor(&dims)?;
    for sparse in all {
        for part in sparse? {
            strings.push(&serialized(cx, &part, true)?)?;
        }
    }
    Ok(vec![strings.finish()?])
}

fn serialize(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let one = [cx.held(0)?, cx.held(1)?, cx.held(2)?];
    outputs(cx, &[], std::iter::once(Ok(one)))
}

/// Fails unless the indices lie in the shape, in ascending order.
fn check_order(indices: &[i64], shape: &[i64]) -> Result<(), KernelError> {
    let mut before: Option<&[i64]> = None;
    for (i, index) in indices.chunks_exact(shape.len()).enumerate() {
        let inside = index.iter().zip(shape).all(|(i, n)| (0..*n).contains(i));
        if !inside || before.is_some_and(|before| before >= index) {
            return Err(invalid(format!(
                "index {i} is {index:?}: indices must ascend, without repetitions, in the shape {shape:?}"
            )));
        }
        before = Some(index);
    }
    Ok(())
}

/// The rows of the sparse tensor at input 0, with the memory of a list of them.
pub(super) fn rows<'a>(
    cx: &'a TensorCx<'a>,
) -> Result<
    (
        Reservation,
        impl Iterator<Item = Result<Sparse, KernelError>> + 'a,
    ),
    KernelError,
> {
    let (indices, values, shape) = (cx.slice::<i64>(0)?, cx.tensor(1)?, cx.slice::<i64>(2)?);
    let rank = shape.len();
    let count = shape.first().and_then(|&n| usize::try_from(n).ok());
    let Some(count) = count.filter(|_| rank > 1 && shape.iter().all(|&n| n >= 0)) else {
        return Err(invalid(format!(
            "the shape of a sparse tensor with rows must have 2 dimensions or more, and is {shape:?}"
        )));
    };
    if cx.tensor(0)?.dims() != [values.len(), rank] {
        return Err(invalid(format!(
            "the indices have the shape {}, for {} values with {rank} dimensions",
            cx.tensor(0)?.shape(),
            values.len()
        )));
    }
    check_order(indices, shape)?;
    let held = reserved(
        count.saturating_mul(3 * size_of::<Tensor>()),
        Some(cx.memory()),
    )?;
    let (mut start, mut stop) = (0, cx.stop_check());
    let rows = (0..count as i64).map(move |row| {
        stop.tick()?;
        let rest = indices[start * rank..].chunks_exact(rank);
        let end = start + rest.take_while(|index| index[0] == row).count();
        let inner = indices[start * rank..end * rank].chunks_exact(rank);
        let inner: Vec<i64> = inner.flat_map(|index| &index[1..]).copied().collect();
        let sparse = [
            cx.tensor_of(&[end - start, rank - 1], &inner)?,
            slice_elements(cx.memory(), values, start, &[end - start])?,
            Tensor::vector(&shape[1..]),
        ];
        start = end;
        Ok(sparse)
    });
    Ok((held, rows))
}

fn serialize_many(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (_held, rows) = rows(cx)?;
    let count = cx.slice::<i64>(2)?.first().copied().unwrap_or(0);
    outputs(cx, &[usize::try_from(count).unwrap_or(0)], rows)
}

/// The sparse tensors at input 0.
fn inputs(cx: &TensorCx<'_>) -> Result<Vec<Sparse>, KernelError> {
    let input = cx.tensor(0)?;
    let _held = reserved(
        input.len().saturating_mul(size_of::<Tensor>()),
        Some(cx.memory()),
    )?;
    let parts: Vec<Tensor> = if input.dtype() == DType::String {
        let mut stop = cx.stop_check();
        let strings = input.as_strings()?.iter();
        strings
            .map(|string| {
                stop.tick()?;
                parsed(cx, string)
            })
            .collect::<Result<_, KernelError>>()?
    } else {
        let one = |packed: &crate::data::packed_tensors::Packed| match &packed.0[..] {
            [tensor] => Ok(tensor.clone()),
            _ => Err(invalid("a variant of the input is a ragged tensor")),
        };
        let all = unpacked(input)?;
        all.iter()
            .map(|packed| one(packed))
            .collect::<Result<_, _>>()?
    };
    let mut parts = parts.into_iter();
    let mut all = Vec::with_capacity(parts.len() / 3);
    while let (Some(indices), Some(values), Some(shape)) =
        (parts.next(), parts.next(), parts.next())
    {
        all.push([indices, values, shape]);
    }
    let dtype = cx.attrs().dtype("dtype").unwrap_or(DType::F32);
    for (i, [indices, values, shape]) in all.iter().enumerate() {
        if values.dtype() != dtype {
            return Err(invalid(format!(
                "Requested SparseTensor of type {} but SparseTensor[{i}].values.dtype() == {}",
                tensorflow_name(dtype),
                tensorflow_name(values.dtype())
            )));
        }
        let types = [indices.dtype(), values.dtype(), shape.dtype()];
        let fits = values.dims() == [values.len()]
            && shape.dims() == [shape.len()]
            && indices.dims() == [values.len(), shape.len()];
        if !fits || types != [DType::I64, dtype, DType::I64] {
            return Err(invalid(format!(
                "sparse tensor {i} has indices {}{}, values {}{} and a shape {}{}: it must have i64 indices [n, rank], \
                 {dtype} values [n], and an i64 shape [rank]",
                types[0],
                indices.shape(),
                types[1],
                values.shape(),
                types[2],
                shape.shape()
            )));
        }
    }
    Ok(all)
}

/// One sparse tensor of those in the rows of the input: the rows' dimensions come before theirs.
fn deserialize(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let input = cx.tensor(0)?;
    let [outer @ .., 3] = input.dims() else {
        return Err(invalid("the last dimension of sparse tensors must be 3"));
    };
    let all = inputs(cx)?;
    if let ([], [one]) = (outer, &all[..]) {
        return Ok(one.to_vec());
    }
    if all.is_empty() && input.dtype() == DType::String {
        return Err(invalid(
            "there is no serialized sparse tensor: give one or more",
        ));
    }
    stacked(cx, &all, outer, "shape")
}

/// Stacks sparse tensors of one rank: dimensions `outer` come before theirs. `what` of them differs in an error.
pub(super) fn stacked(
    cx: &TensorCx<'_>,
    all: &[Sparse],
    outer: &[usize],
    what: &str,
) -> Result<Vec<Tensor>, KernelError> {
    let rank = all.first().map_or(0, |[_, _, shape]| shape.len());
    let count: usize = all.iter().map(|[_, values, _]| values.len()).sum();
    let mut inner = vec![0i64; rank];
    for (i, [_, _, shape]) in all.iter().enumerate() {
        if shape.len() != rank {
            return Err(invalid(format!(
                "Inconsistent {what} across SparseTensors: rank prior to SparseTensor[{i}] was: {rank} but rank of \
                 SparseTensor[{i}] is: {}",
                shape.len()
            )));
        }
        let sides = inner.iter_mut().zip(shape.as_slice::<i64>()?);
        sides.for_each(|(most, &side)| *most = side.max(*most));
    }
    let width = outer.len() + rank;
    let mut indices = cx.zeros(DType::I64, &[count, width])?;
    let mut to = indices.as_mut_slice::<i64>()?.chunks_exact_mut(width);
    let mut place = vec![0i64; outer.len()];
    for (row, [index, values, _]) in all.iter().enumerate() {
        let mut rest = row;
        for (at, &size) in place.iter_mut().zip(outer).rev() {
            *at = (rest % size.max(1)) as i64;
            rest /= size.max(1);
        }
        let index = index.as_slice::<i64>()?;
        for (i, to) in (0..values.len()).zip(&mut to) {
            to[..outer.len()].copy_from_slice(&place);
            to[outer.len()..].copy_from_slice(&index[i * rank..][..rank]);
        }
    }
    let values: Vec<Tensor> = all.iter().map(|[_, values, _]| values.clone()).collect();
    let shape: Vec<i64> = outer.iter().map(|&d| d as i64).chain(inner).collect();
    let dtype = cx.attrs().dtype("dtype").unwrap_or(DType::F32);
    Ok(vec![
        indices,
        joined(cx.memory(), dtype, &values, &[count])?,
        cx.tensor_of(&[shape.len()], &shape)?,
    ])
}

const INDICES: Arg = arg_of("sparse_indices", DType::I64);
const VALUES: Arg = arg("sparse_values", "T");
const SHAPE: Arg = arg_of("sparse_shape", DType::I64);
const OUT_TYPE: AttrDef = type_attr_or("out_type", &[DType::String, DType::Variant], DType::String);
const DTYPE: AttrDef = type_attr("dtype", &DType::ALL);

/// Checks the ranks of the parts of a sparse tensor.
fn parts_shape(cx: &Infer<'_>) -> Result<(), InferError> {
    for (i, rank) in [2, 1, 1].into_iter().enumerate() {
        cx.ranked(i, rank)?;
    }
    Ok(())
}

/// Shape rule of a sparse tensor whose rank depends on values.
fn unknown_parts(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let shape = cx.shape(0);
    let last = shape
        .rank()
        .map(|rank| rank.checked_sub(1).map(|i| shape.dim(i)));
    if matches!(last, Some(None)) || matches!(last, Some(Some(Some(n))) if n != 3) {
        return Err(invalid_value(
            0,
            format!("its last dimension must be 3, and its shape is {shape}"),
        ));
    }
    cx.set(0, Shape::partial([None, None]));
    cx.set(1, Shape::partial([None]));
    cx.set(2, Shape::partial([None]));
    Ok(())
}

/// A sparse tensor as its three parts.
pub(crate) static SERIALIZE_SPARSE: Op = Op {
    def: OpDef {
        name: "SerializeSparse",
        summary: "A sparse tensor as a vector of three variants or serialized tensors.",
        inputs: &[INDICES, VALUES, SHAPE],
        outputs: &[arg("serialized_sparse", "out_type")],
        attrs: &[type_attr("T", &DType::ALL), OUT_TYPE],
        shape: |cx| {
            parts_shape(cx)?;
            cx.set(0, Shape::from([3]));
            Ok(())
        },
        ..PACKING_OP
    },
    kernels: &[cpu_tensors(serialize)],
};

/// The rows of a sparse tensor, each as its three parts.
pub(crate) static SERIALIZE_MANY_SPARSE: Op = Op {
    def: OpDef {
        name: "SerializeManySparse",
        summary: "The rows of a sparse tensor, each as three variants or serialized tensors.",
        shape: |cx| {
            parts_shape(cx)?;
            cx.set(0, Shape::partial([None, Some(3)]));
            Ok(())
        },
        ..SERIALIZE_SPARSE.def
    },
    kernels: &[cpu_tensors(serialize_many)],
};

/// A sparse tensor of its parts.
pub(crate) static DESERIALIZE_SPARSE: Op = Op {
    def: OpDef {
        name: "DeserializeSparse",
        summary: "The sparse tensor of three variants or strings, or of several such, with their dimensions before it.",
        inputs: &[arg("serialized_sparse", "Tserialized")],
        outputs: &[INDICES, arg("sparse_values", "dtype"), SHAPE],
        attrs: &[
            DTYPE,
            type_attr_or(
                "Tserialized",
                &[DType::String, DType::Variant],
                DType::String,
            ),
        ],
        shape: unknown_parts,
        ..PACKING_OP
    },
    kernels: &[cpu_tensors(deserialize)],
};

/// A sparse tensor of the strings of its rows.
pub(crate) static DESERIALIZE_MANY_SPARSE: Op = Op {
    def: OpDef {
        name: "DeserializeManySparse",
        summary: "The sparse tensor whose rows are given by three strings each.",
        inputs: &[arg_of("serialized_sparse", DType::String)],
        attrs: &[DTYPE],
        shape: |cx| {
            cx.ranked(0, 2)?;
            unknown_parts(cx)
        },
        ..DESERIALIZE_SPARSE.def
    },
    kernels: &[cpu_tensors(deserialize)],
};
