//! RaggedTensorToVariant, RaggedTensorFromVariant, RaggedTensorToVariantGradient: ragged tensors as variants, which are components of dataset elements.

use std::ops::Range;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{any_count_attr, arg, arg_of, attr, type_attr};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape, Tensor};

use super::row_splits::{SPLITS, invalid};
use crate::data::packed_tensors::{PACKING_OP, Packed, packed, unpacked};
use crate::flow::rows::{concatenated, joined, rows, slice_elements};
use crate::support::shape_inputs::described_shape;
use crate::support::tensors::{integers, reserved};

/// Maximum number of rows of the dimensions of a tensor of variants: one without elements may have any number.
const MAX_ROWS: usize = 1 << 24;

/// The row splits at input `i`, over so many rows.
fn row_splits(cx: &TensorCx<'_>, i: usize, count: usize) -> Result<Vec<usize>, KernelError> {
    let ends = cx.ints(i)?.into_iter().map(usize::try_from);
    let ends = ends.collect::<Result<Vec<usize>, _>>().ok();
    let fits = |ends: &Vec<usize>| {
        ends.first() == Some(&0) && ends.is_sorted() && ends.last() == Some(&count)
    };
    ends.filter(fits).ok_or_else(|| {
        invalid(format!(
            "row splits {i} must ascend from 0 to {count}, the number of rows that they split"
        ))
    })
}

/// The rows of a ragged tensor, each as a variant.
fn rows_to_variants(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let ragged_rank = cx.inputs() - 1;
    let values = cx.tensor(ragged_rank)?;
    let parts: Vec<Vec<Tensor>> = match ragged_rank {
        0 => {
            let rows = rows(cx.memory(), values)?.into_iter();
            rows.map(|row| vec![row]).collect()
        }
        _ => split_rows(cx, values)?,
    };
    let count = parts.len();
    let all = parts.into_iter().map(packed);
    let all = all.collect::<Result<Vec<_>, _>>()?;
    Ok(vec![Tensor::handles(
        DType::Variant,
        &[count],
        all.into_iter(),
        Some(cx.memory()),
    )?])
}

/// The splits and values of each row.
fn split_rows(cx: &TensorCx<'_>, values: &Tensor) -> Result<Vec<Vec<Tensor>>, KernelError> {
    let ragged_rank = cx.inputs() - 1;
    let [count, inner @ ..] = values.dims() else {
        return Err(invalid(
            "the values of a ragged tensor must not be a scalar",
        ));
    };
    let mut count = *count;
    let mut splits = Vec::with_capacity(ragged_rank);
    for i in (0..ragged_rank).rev() {
        splits.push(row_splits(cx, i, count)?);
        count = cx.tensor(i)?.len() - 1;
    }
    splits.reverse();
    let _held = reserved(
        count.saturating_mul((ragged_rank + 1) * size_of::<Tensor>()),
        Some(cx.memory()),
    )?;
    let size = checked_elements(inner).unwrap_or(0);
    let (mut all, mut stop) = (Vec::with_capacity(count), cx.stop_check());
    for row in 0..count {
        stop.tick()?;
        let mut parts = Vec::with_capacity(ragged_rank);
        let mut range: Range<usize> = splits[0][row]..splits[0][row + 1];
        for ends in &splits[1..] {
            let ends = &ends[range.start..=range.end];
            let start = ends[0];
            let moved = ends.iter().map(|end| (end - start) as i64);
            parts.push(integers(cx, "Tsplits", moved)?);
            range = start..ends[ends.len() - 1];
        }
        let dims = [&[range.len()], inner].concat();
        parts.push(slice_elements(
            cx.memory(),
            values,
            range.start * size,
            &dims,
        )?);
        all.push(parts);
    }
    Ok(all)
}

/// The splits and the values of the ragged tensor that a variant holds, or of those of a tensor of variants, whose
/// dimensions come first.
fn from_variant(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (encoded, attrs) = (cx.tensor(0)?, cx.attrs());
    let output_rank = cx.node().outputs.len() - 1;
    let outer = encoded.dims().len();
    let asked = attrs.int("input_ragged_rank");
    let rank = output_rank
        .checked_sub(outer)
        .filter(|&rank| asked == -1 || asked == rank as i64);
    let rank = rank.ok_or_else(|| {
        invalid(format!(
            "a tensor of variants with {} and a ragged rank of {asked} each make no ragged rank of {output_rank}",
            counted(outer, "dimension")
        ))
    })?;
    let all = unpacked(encoded)?;
    let kinds = (attrs.dtype("Tvalues"), attrs.dtype("Tsplits"));
    for one in &all {
        check(&one.0, rank, kinds, outer > 0)?;
    }
    match (outer, &all[..]) {
        (0, [one]) => Ok(one.0.clone()),
        _ => stacked(cx, &all, rank),
    }
}

/// Fails unless the parts are a ragged tensor of this rank, and of these dtypes of values and splits.
fn check(
    parts: &[Tensor],
    rank: usize,
    (dtype, splits_dtype): (Option<DType>, Option<DType>),
    has_rows: bool,
) -> Result<(), KernelError> {
    let Some((values, splits)) = parts
        .split_last()
        .filter(|(_, splits)| splits.len() == rank)
    else {
        return Err(invalid(format!(
            "a variant holds a ragged tensor with {}, and the node takes {rank}",
            counted(parts.len().saturating_sub(1), "ragged dimension")
        )));
    };
    if Some(values.dtype()) != dtype || ((has_rows || rank > 0) && values.dims().is_empty()) {
        return Err(invalid(format!(
            "the values of a variant's ragged tensor are {}{}: the node takes rows of another dtype",
            values.dtype(),
            values.shape()
        )));
    }
    let fits = |t: &Tensor| Some(t.dtype()) == splits_dtype && t.dims().len() == 1 && !t.is_empty();
    match splits.iter().all(fits) {
        true => Ok(()),
        false => Err(invalid(
            "the row splits of a variant's ragged tensor must be vectors of the dtype Tsplits",
        )),
    }
}

/// One ragged tensor of those in a tensor of variants.
fn stacked(
    cx: &TensorCx<'_>,
    all: &[std::sync::Arc<Packed>],
    rank: usize,
) -> Result<Vec<Tensor>, KernelError> {
    let dims = cx.tensor(0)?.dims();
    let mut parts = Vec::with_capacity(dims.len() + rank + 1);
    for (i, &size) in dims.iter().enumerate().skip(1) {
        let count = checked_elements(&dims[..i]).filter(|&count| count <= MAX_ROWS);
        let count = count.ok_or_else(|| {
            invalid(format!(
                "a tensor of variants of shape {dims:?} has too many rows"
            ))
        })?;
        let ends = (0..count + 1).map(|row| row.saturating_mul(size) as i64);
        parts.push(integers(
            cx,
            "Tsplits",
            ends.collect::<Vec<_>>().into_iter(),
        )?);
    }
    let mut end = 0;
    let mut ends = vec![0i64];
    for one in all {
        // The first splits, or the values without any.
        end += match rank {
            0 => one.0[0].dims()[0] as i64,
            _ => one.0[0].len() as i64 - 1,
        };
        ends.push(end);
    }
    parts.push(integers(cx, "Tsplits", ends.into_iter())?);
    for level in 0..rank {
        let mut ends = vec![0i64];
        for one in all {
            let before = ends[ends.len() - 1];
            let more = one.0[level].to_ints().unwrap_or_default();
            let more = more.iter().skip(1).map(|&end| end.saturating_add(before));
            ends.extend(more);
        }
        parts.push(integers(cx, "Tsplits", ends.into_iter())?);
    }
    let values: Vec<Tensor> = all.iter().map(|one| one.0[rank].clone()).collect();
    let dtype = cx.attrs().dtype("Tvalues").unwrap_or(DType::F32);
    let (values, _) = concatenated(cx.memory(), dtype, &values, &Shape::from([0]))?;
    parts.push(values);
    Ok(parts)
}

/// A ragged tensor as a variant.
pub(crate) static TO_VARIANT: Op = Op {
    def: OpDef {
        name: "RaggedTensorToVariant",
        summary: "A ragged tensor as a variant, or each of its rows as one.",
        inputs: &[
            arg("rt_nested_splits", "Tsplits").list("RAGGED_RANK"),
            arg("rt_dense_values", "Tvalues"),
        ],
        outputs: &[arg_of("encoded_ragged", DType::Variant)],
        attrs: &[
            any_count_attr("RAGGED_RANK"),
            type_attr("Tvalues", &DType::ALL),
            SPLITS,
            attr("batched_input", AttrKind::Bool),
        ],
        shape: |cx| {
            let rows = [None];
            cx.set(
                0,
                match cx.attrs().bool("batched_input") {
                    true => Shape::partial(rows),
                    false => Shape::scalar(),
                },
            );
            Ok(())
        },
        ..PACKING_OP
    },
    kernels: &[cpu_tensors(|cx| {
        if cx.attrs().bool("batched_input") {
            return rows_to_variants(cx);
        }
        let parts = (0..cx.inputs()).map(|i| cx.held(i));
        Ok(vec![packed(parts.collect::<Result<_, _>>()?)?])
    })],
};

/// A variant as a ragged tensor.
pub(crate) static FROM_VARIANT: Op = Op {
    def: OpDef {
        name: "RaggedTensorFromVariant",
        summary: "The ragged tensor that a variant holds, or that of several, with their dimensions before it.",
        inputs: &[arg_of("encoded_ragged", DType::Variant)],
        outputs: &[
            arg("output_nested_splits", "Tsplits").list("output_ragged_rank"),
            arg("output_dense_values", "Tvalues"),
        ],
        attrs: &[
            attr("input_ragged_rank", AttrKind::Int),
            any_count_attr("output_ragged_rank"),
            type_attr("Tvalues", &DType::ALL),
            SPLITS,
        ],
        shape: |cx| {
            for i in 0..cx.outputs() - 1 {
                cx.set(i, Shape::partial([None]));
            }
            Ok(())
        },
        ..PACKING_OP
    },
    kernels: &[cpu_tensors(from_variant)],
};

/// The gradient of the values of each row: zeros where a variant holds nothing, as no result depends on that row.
fn row_gradients(
    cx: &TensorCx<'_>,
    dtype: DType,
    dims: &[usize],
) -> Result<Vec<Tensor>, KernelError> {
    let (grads, ends) = (cx.tensor(0)?, cx.ints(1)?);
    let (mut all, mut stop) = (Vec::new(), cx.stop_check());
    for i in 0..grads.len() {
        stop.tick()?;
        let Some(handle) = grads.handle_at(i) else {
            return Err(KernelError::Argument("variants"));
        };
        let found = handle.object::<Packed>();
        if let Some(values) = found.as_ref().and_then(|row| row.0.last()) {
            all.push(values.clone());
            continue;
        }
        // An element that nothing was written to holds the unit.
        if handle.object::<()>().is_none() {
            return Err(invalid(
                "a variant of encoded_ragged_grad is no ragged tensor",
            ));
        }
        let rows = match ends.get(i..i + 2) {
            Some(&[start, end]) => end.checked_sub(start).and_then(|n| usize::try_from(n).ok()),
            _ => None,
        };
        let Some((rows, [_, inner @ ..])) = rows.zip(Some(dims)) else {
            return Err(invalid(
                "row_splits must ascend, with an end for each row, and dense_values_shape have one dimension or more",
            ));
        };
        all.push(Tensor::zeros_in(
            dtype,
            &[&[rows], inner].concat(),
            cx.memory(),
        )?);
    }
    Ok(all)
}

/// Gradient of the values of a ragged tensor whose rows are variants.
pub(crate) static VARIANT_GRADIENT: Op = Op {
    def: OpDef {
        name: "RaggedTensorToVariantGradient",
        summary: "The gradient of the values of RaggedTensorToVariant: those of its rows, one after the other.",
        inputs: &[
            arg_of("encoded_ragged_grad", DType::Variant),
            arg("row_splits", "Tsplits"),
            arg_of("dense_values_shape", DType::I32),
        ],
        outputs: &[arg("dense_values_grad", "Tvalues")],
        attrs: &[type_attr("Tvalues", &DType::ALL), SPLITS],
        shape: |cx| {
            let shape = described_shape(cx, 2)?;
            cx.set(0, shape);
            Ok(())
        },
        ..PACKING_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let dims = cx.ints(2)?.into_iter().map(usize::try_from);
        let dims: Vec<usize> = dims
            .collect::<Result<_, _>>()
            .map_err(|_| invalid("dense_values_shape must have no negative size"))?;
        let dtype = cx.attrs().dtype("Tvalues").unwrap_or(DType::F32);
        let values = row_gradients(cx, dtype, &dims)?;
        let count: usize = values.iter().map(Tensor::len).sum();
        if checked_elements(&dims) != Some(count) {
            return Err(invalid(format!(
                "the rows have {count} elements in all, which do not fit dense_values_shape {dims:?}"
            )));
        }
        Ok(vec![joined(cx.memory(), dtype, &values, &dims)?])
    })],
};
