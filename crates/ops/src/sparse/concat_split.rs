//! SparseConcat, SparseSplit.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::infer::resolve_axis;
use thalweg_graph::op::{Allowed, AttrDef, Gradient, arg, arg_of, attr, count_attr, type_attr};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::sparse_input::{
    SparseInput, index_tensor, infer_parts, infer_sparse, invalid, shape_tensor,
};
use crate::flow::rows::joined;
use crate::support::tensors::{AccountedVec, take_slices};

/// Concatenates sparse tensors.
pub(crate) static CONCAT: Op = Op {
    def: OpDef {
        name: "SparseConcat",
        summary: "Sparse tensors one after the other along a dimension.",
        inputs: &[
            arg_of("indices", DType::I64).list("N"),
            arg("values", "T").list("N"),
            arg_of("shapes", DType::I64).list("N"),
        ],
        outputs: &[
            arg_of("output_indices", DType::I64),
            arg("output_values", "T"),
            arg_of("output_shape", DType::I64),
        ],
        attrs: &[
            attr("concat_dim", AttrKind::Int),
            AttrDef {
                allowed: Allowed::AtLeast(2),
                ..attr("N", AttrKind::Int)
            },
            type_attr("T", &DType::ALL),
        ],
        shape: |cx| {
            let count = cx.inputs() / 3;
            let mut rank = None;
            let mut entries = Some(0);
            for i in 0..count {
                rank = rank.or(infer_parts(cx, [i, count + i, 2 * count + i])?);
                let own = cx.shape(i).dim(0).or(cx.shape(count + i).dim(0));
                entries = entries.zip(own).map(|(a, b)| a + b);
            }
            super::sparse_input::set_sparse(cx, 0, entries, rank);
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(concat)],
};

fn concat(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let count = cx.inputs() / 3;
    let parts = (0..count).map(|i| SparseInput::at(cx, [i, count + i, 2 * count + i]));
    let parts: Vec<SparseInput<'_>> = parts.collect::<Result<_, _>>()?;
    let asked = cx.attrs().int("concat_dim");
    let rank = parts[0].rank();
    let axis = resolve_axis(asked, rank).ok_or_else(|| {
        invalid(format!(
            "Concat dimension must be in range [-{rank}, {rank}), got {asked}"
        ))
    })?;
    let mut shape = parts[0].shape.to_vec();
    let mut starts = vec![0i64];
    for (i, part) in parts.iter().enumerate() {
        if part.rank() != rank {
            return Err(invalid(format!(
                "Ranks of all input tensors must match: expected {rank} but got {} at position {i}",
                part.rank()
            )));
        }
        for (d, (&size, &expected)) in part.shape.iter().zip(shape.iter()).enumerate() {
            if d != axis && size != expected {
                return Err(invalid(format!(
                    "Input shapes must match: expected {expected} for dimension {d} but got {size} at position {i}"
                )));
            }
        }
        part.check_inside(cx)?;
        let end = starts[i].checked_add(part.shape[axis]);
        starts.push(end.ok_or_else(|| invalid("the sum of the sizes is too large"))?);
    }
    shape[axis] = starts[count];
    // An entry of the result: its part, and its number there.
    let total = parts.iter().map(SparseInput::len).sum();
    let mut entries = AccountedVec::filled(total, (0usize, 0usize), cx.memory())?;
    let all = parts
        .iter()
        .enumerate()
        .flat_map(|(i, part)| (0..part.len()).map(move |n| (i, n)));
    entries
        .iter_mut()
        .zip(all)
        .for_each(|(to, entry)| *to = entry);
    let index = |&(part, entry): &(usize, usize)| {
        let index = parts[part].index(entry);
        let moved = index[axis] + starts[part];
        (&index[..axis], moved, &index[axis + 1..], part, entry)
    };
    // Along the first dimension sorted parts are in order already.
    if !entries.is_sorted_by_key(index) {
        entries.sort_unstable_by(|a, b| index(a).cmp(&index(b)));
    }
    let indices = index_tensor(cx, rank, total, |i, to| {
        let (part, entry) = entries[i];
        to.copy_from_slice(parts[part].index(entry));
        to[axis] += starts[part];
    })?;
    let values: Vec<Tensor> = parts.iter().map(|part| part.values.clone()).collect();
    let values = joined(cx.memory(), parts[0].values.dtype(), &values, &[total])?;
    let mut firsts = vec![0];
    parts
        .iter()
        .for_each(|part| firsts.push(firsts[firsts.len() - 1] + part.len()));
    let mut places = AccountedVec::filled(total, 0, cx.memory())?;
    let sources = places.iter_mut().zip(entries.iter());
    sources.for_each(|(to, &(part, entry))| *to = firsts[part] + entry);
    Ok(vec![
        indices,
        take_slices(cx, &values, &places, 1, &[total])?,
        shape_tensor(cx, &shape)?,
    ])
}

/// Splits a sparse tensor.
pub(crate) static SPLIT: Op = Op {
    def: OpDef {
        name: "SparseSplit",
        summary: "The parts of a sparse tensor along a dimension; the first ones are longer by 1 if sizes differ.",
        inputs: &[
            arg_of("split_dim", DType::I64),
            arg_of("indices", DType::I64),
            arg("values", "T"),
            arg_of("shape", DType::I64),
        ],
        outputs: &[
            arg_of("output_indices", DType::I64).list("num_split"),
            arg("output_values", "T").list("num_split"),
            arg_of("output_shape", DType::I64).list("num_split"),
        ],
        attrs: &[count_attr("num_split"), type_attr("T", &DType::ALL)],
        shape: |cx| {
            let rank = infer_sparse(cx, 1)?;
            let count = cx.outputs() / 3;
            for i in 0..count {
                cx.set(i, Shape::partial([None, rank]));
                cx.set(count + i, Shape::partial([None]));
                cx.set(2 * count + i, Shape::partial([rank]));
            }
            Ok(())
        },
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(split)],
};

fn split(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let sparse = SparseInput::of(cx, 1)?;
    let asked = match cx.ints(0)?[..] {
        [axis] => axis,
        _ => return Err(invalid("axis should be a scalar")),
    };
    let rank = sparse.rank();
    let axis = resolve_axis(asked, rank).ok_or_else(|| {
        invalid(format!(
            "axis should be in range [-{rank}, {rank}), got {asked}"
        ))
    })?;
    let (count, size) = (cx.node().outputs.len() / 3, sparse.shape[axis]);
    if count as i64 > size {
        return Err(invalid(format!(
            "Input num_split should be between 1 and the splitting dimension size ({size}), got {count}"
        )));
    }
    sparse.check_inside(cx)?;
    let (short, longer) = (size / count as i64, size % count as i64);
    let part_of = |place: i64| match place < longer * (short + 1) {
        true => place / (short + 1),
        false => longer + (place - longer * (short + 1)) / short,
    };
    let start_of = |part: i64| part * short + part.min(longer);
    // Entries by part, in their order.
    let order = sparse.sorted_by(cx, |index| part_of(index[axis]))?;
    let mut rest = &order[..];
    let (mut indices, mut values, mut shapes) = (Vec::new(), Vec::new(), Vec::new());
    for part in 0..count as i64 {
        let len = rest.partition_point(|&entry| part_of(sparse.index(entry)[axis]) <= part);
        let (own, after) = rest.split_at(len);
        rest = after;
        indices.push(index_tensor(cx, rank, len, |i, to| {
            to.copy_from_slice(sparse.index(own[i]));
            to[axis] -= start_of(part);
        })?);
        values.push(sparse.values_of(cx, own)?);
        let mut shape = sparse.shape.to_vec();
        shape[axis] = start_of(part + 1) - start_of(part);
        shapes.push(shape_tensor(cx, &shape)?);
    }
    Ok([indices, values, shapes].concat())
}
