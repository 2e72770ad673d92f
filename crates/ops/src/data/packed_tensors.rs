//! SerializeSparse, SerializeManySparse, DeserializeSparse: sparse tensors as variants, which are components of dataset
//! elements.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, AttrDef, Effect, Gradient, arg, arg_of, type_attr, type_attr_or};
use thalweg_tensor::{DType, Nesting, Shape, Tensor};

use crate::flow::rows::joined;

/// The parts of a sparse or ragged tensor.
pub(super) struct Packed(pub(super) Vec<Tensor>);

pub(super) fn packed(parts: Vec<Tensor>) -> Result<Tensor, KernelError> {
    let mut nesting = Nesting::default();
    parts.iter().try_for_each(|part| nesting.add(part))?;
    Ok(Tensor::variant(Arc::new(Packed(parts)), nesting)?)
}

/// The objects of a tensor of variants.
pub(super) fn unpacked(tensor: &Tensor) -> Result<Vec<Arc<Packed>>, KernelError> {
    let object = |i| {
        tensor
            .handle_at(i)
            .and_then(|handle| handle.object::<Packed>())
    };
    let all: Option<Vec<_>> = (0..tensor.len()).map(object).collect();
    all.ok_or_else(|| {
        KernelError::Invalid("a variant of the input is no sparse or ragged tensor".to_owned())
    })
}

/// Fails unless the attribute asks for variants.
fn expect_variants(cx: &TensorCx<'_>, attr: &str) -> Result<(), KernelError> {
    match cx.attrs().dtype(attr) {
        Some(DType::Variant) => Ok(()),
        _ => Err(KernelError::Invalid(format!(
            "sparse tensors as strings are not built: use variants ({attr})"
        ))),
    }
}

/// A sparse tensor as three variants.
fn three(parts: [Tensor; 3]) -> Result<[Tensor; 3], KernelError> {
    let [indices, values, shape] = parts;
    Ok([
        packed(vec![indices])?,
        packed(vec![values])?,
        packed(vec![shape])?,
    ])
}

fn serialize(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    expect_variants(cx, "out_type")?;
    let all = three([cx.held(0)?, cx.held(1)?, cx.held(2)?])?;
    Ok(vec![Tensor::handles(
        DType::Variant,
        &[3],
        all.into_iter(),
        Some(cx.memory()),
    )?])
}

/// The rows of a sparse tensor, as a matrix of three variants each.
fn serialize_many(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    expect_variants(cx, "out_type")?;
    let (indices, shape) = (cx.slice::<i64>(0)?, cx.slice::<i64>(2)?);
    let rank = shape.len();
    let wrong = || {
        KernelError::Invalid(
            "the sparse tensor must have a first dimension, and indices within it".to_owned(),
        )
    };
    let count = shape
        .first()
        .and_then(|&n| usize::try_from(n).ok())
        .ok_or_else(wrong)?;
    if cx.tensor(0)?.dims() != [cx.tensor(1)?.len(), rank] {
        return Err(wrong());
    }
    let rows: Vec<i64> = indices.chunks(rank).map(|index| index[0]).collect();
    if !rows.is_sorted() || rows.iter().any(|&row| !(0..count as i64).contains(&row)) {
        return Err(wrong());
    }
    let _held = crate::support::tensors::reserved(
        count.saturating_mul(3 * size_of::<Tensor>()),
        Some(cx.memory()),
    )?;
    let (mut all, mut start) = (Vec::with_capacity(3 * count), 0);
    for row in 0..count as i64 {
        let end = start + rows[start..].iter().take_while(|&&r| r == row).count();
        let inner: Vec<i64> = indices[start * rank..end * rank]
            .chunks(rank)
            .flat_map(|i| &i[1..])
            .copied()
            .collect();
        let values =
            crate::flow::rows::slice_elements(cx.memory(), cx.tensor(1)?, start, &[end - start])?;
        let indices = cx.tensor_of(&[end - start, rank - 1], &inner)?;
        all.extend(three([indices, values, Tensor::vector(&shape[1..])])?);
        start = end;
    }
    Ok(vec![Tensor::handles(
        DType::Variant,
        &[count, 3],
        all.into_iter(),
        Some(cx.memory()),
    )?])
}

/// A sparse tensor of those in the rows of a tensor of variants: the rows' dimensions come before theirs.
fn deserialize(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    expect_variants(cx, "Tserialized")?;
    let wrong =
        |why: &str| KernelError::Invalid(format!("the variants are no sparse tensors: {why}"));
    let serialized = cx.tensor(0)?;
    let [outer @ .., 3] = serialized.dims() else {
        return Err(wrong("their last dimension must be 3"));
    };
    let dtype = cx.attrs().dtype("dtype").unwrap_or(DType::F32);
    let all = unpacked(serialized)?;
    let mut parts: Vec<[&Tensor; 3]> = Vec::with_capacity(all.len() / 3);
    for three in all.chunks(3) {
        let one = |i: usize| match &three[i].0[..] {
            [tensor] => Ok(tensor),
            _ => Err(wrong("they are of a ragged tensor")),
        };
        let [indices, values, shape] = [one(0)?, one(1)?, one(2)?];
        let rank = shape.len();
        if indices.dims() != [values.len(), rank] || values.dtype() != dtype {
            return Err(wrong(&format!(
                "indices of shape {}, values of {}{}, a shape of {rank}",
                indices.shape(),
                values.dtype(),
                values.shape()
            )));
        }
        parts.push([indices, values, shape]);
    }
    if let ([], [[indices, values, shape]]) = (outer, &parts[..]) {
        return Ok(vec![
            (*indices).clone(),
            (*values).clone(),
            (*shape).clone(),
        ]);
    }
    let rank = parts.first().map_or(0, |[_, _, shape]| shape.len());
    let mut inner = vec![0i64; rank];
    let mut indices: Vec<i64> = Vec::new();
    let mut count = 0;
    for (row, [index, values, shape]) in parts.iter().enumerate() {
        let shape = shape.as_slice::<i64>()?;
        if shape.len() != rank {
            return Err(wrong("they have different ranks"));
        }
        inner
            .iter_mut()
            .zip(shape)
            .for_each(|(most, &size)| *most = size.max(*most));
        let mut place = vec![0i64; outer.len()];
        let mut rest = row;
        for (at, &size) in place.iter_mut().zip(outer).rev() {
            *at = (rest % size.max(1)) as i64;
            rest /= size.max(1);
        }
        for element in index
            .as_slice::<i64>()?
            .chunks(rank.max(1))
            .take(values.len())
        {
            indices.extend(place.iter().chain(element));
        }
        count += values.len();
    }
    let values: Vec<Tensor> = parts
        .iter()
        .map(|[_, values, _]| (*values).clone())
        .collect();
    let shape: Vec<i64> = outer.iter().map(|&d| d as i64).chain(inner).collect();
    Ok(vec![
        cx.tensor_of(&[count, shape.len()], &indices)?,
        joined(cx.memory(), dtype, &values, &[count])?,
        cx.tensor_of(&[shape.len()], &shape)?,
    ])
}

const INDICES: Arg = arg_of("sparse_indices", DType::I64);
const VALUES: Arg = arg("sparse_values", "T");
const SHAPE: Arg = arg_of("sparse_shape", DType::I64);
const OUT_TYPE: AttrDef = type_attr_or("out_type", &[DType::String, DType::Variant], DType::String);

/// Base definition of an op on variants that hold tensors.
pub(super) const PACKING_OP: OpDef = OpDef {
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

/// A sparse tensor as a vector of three variants.
pub(crate) static SERIALIZE_SPARSE: Op = Op {
    def: OpDef {
        name: "SerializeSparse",
        summary: "A sparse tensor as a vector of three variants.",
        inputs: &[INDICES, VALUES, SHAPE],
        outputs: &[arg("serialized_sparse", "out_type")],
        attrs: &[type_attr("T", &DType::ALL), OUT_TYPE],
        shape: |cx| {
            cx.set(0, Shape::from([3]));
            Ok(())
        },
        ..PACKING_OP
    },
    kernels: &[cpu_tensors(serialize)],
};

/// The rows of a sparse tensor as variants.
pub(crate) static SERIALIZE_MANY_SPARSE: Op = Op {
    def: OpDef {
        name: "SerializeManySparse",
        summary: "The rows of a sparse tensor, each as three variants.",
        shape: |cx| {
            cx.set(0, Shape::partial([None, Some(3)]));
            Ok(())
        },
        ..SERIALIZE_SPARSE.def
    },
    kernels: &[cpu_tensors(serialize_many)],
};

/// Variants as a sparse tensor.
pub(crate) static DESERIALIZE_SPARSE: Op = Op {
    def: OpDef {
        name: "DeserializeSparse",
        summary: "The sparse tensor that three variants hold, or those of several such, with their dimensions before it.",
        inputs: &[arg("serialized_sparse", "Tserialized")],
        outputs: &[INDICES, arg("sparse_values", "dtype"), SHAPE],
        attrs: &[
            type_attr("dtype", &DType::ALL),
            type_attr_or(
                "Tserialized",
                &[DType::String, DType::Variant],
                DType::String,
            ),
        ],
        shape: |cx| {
            cx.set(0, Shape::partial([None, None]));
            cx.set(1, Shape::partial([None]));
            cx.set(2, Shape::partial([None]));
            Ok(())
        },
        ..PACKING_OP
    },
    kernels: &[cpu_tensors(deserialize)],
};
