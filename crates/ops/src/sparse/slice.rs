//! SparseSlice, SparseSliceGrad.

use smallvec::smallvec;
use thalweg_cpu::number::Arithmetic;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, type_attr};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::sparse_input::{
    SparseInput, expect_rank, index_tensor, infer_sparse, invalid, set_sparse, shape_tensor,
};
use crate::support::gradient_nodes::or_zeros;
use crate::support::tensors::AccountedVec;

/// Cuts a box out of a sparse tensor.
pub(crate) static SLICE: Op = Op {
    def: OpDef {
        name: "SparseSlice",
        summary: "The entries of a sparse tensor in a box of a start and a size, with the start as origin.",
        inputs: &[
            arg_of("indices", DType::I64),
            arg("values", "T"),
            arg_of("shape", DType::I64),
            arg_of("start", DType::I64),
            arg_of("size", DType::I64),
        ],
        outputs: &[
            arg_of("output_indices", DType::I64),
            arg("output_values", "T"),
            arg_of("output_shape", DType::I64),
        ],
        attrs: &[type_attr("T", &DType::ALL)],
        shape: |cx| {
            let rank = infer_sparse(cx, 0)?;
            cx.ranked(3, 1)?;
            cx.ranked(4, 1)?;
            set_sparse(cx, 0, None, rank);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let node = g.graph().op("SparseSliceGrad");
            let node = node.input(or_zeros(g.dy(1), g.output(1)));
            let node = node.input(g.input(0)).input(g.input(3)).input(g.output(0));
            smallvec![None, Some(node.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(slice)],
};

fn slice(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let sparse = SparseInput::of(cx, 0)?;
    expect_rank(cx, 3, "start", 1)?;
    expect_rank(cx, 4, "size", 1)?;
    let (start, size, rank) = (cx.slice::<i64>(3)?, cx.slice::<i64>(4)?, sparse.rank());
    for (name, given) in [("start", start), ("size", size)] {
        if given.len() != rank {
            return Err(invalid(format!(
                "Expected {name} to be a vector of length {rank} but got length {}",
                given.len()
            )));
        }
    }
    if let Some(negative) = size.iter().find(|&&n| n < 0) {
        return Err(invalid(format!(
            "Expected a non-negative size, got {negative}"
        )));
    }
    let ends = start
        .iter()
        .zip(size)
        .map(|(&start, &size)| start.saturating_add(size));
    let ends: Vec<i64> = ends
        .zip(sparse.shape.iter())
        .map(|(end, &size)| end.min(size))
        .collect();
    let shape = ends
        .iter()
        .zip(start)
        .map(|(&end, &start)| (end - start).max(0));
    let shape: Vec<i64> = shape.collect();
    let mut entries = AccountedVec::filled(sparse.len(), 0, cx.memory())?;
    let (mut count, mut stop) = (0, cx.stop_check());
    for entry in 0..sparse.len() {
        stop.tick()?;
        let sides = sparse.index(entry).iter().zip(start.iter().zip(&ends));
        entries[count] = entry;
        count += usize::from(
            sides
                .clone()
                .all(|(i, (start, end))| (start..end).contains(&i)),
        );
    }
    entries.truncate(count);
    let indices = index_tensor(cx, rank, count, |i, to| {
        let index = sparse.index(entries[i]).iter().zip(start);
        to.iter_mut()
            .zip(index)
            .for_each(|(to, (i, start))| *to = i - start);
    })?;
    Ok(vec![
        indices,
        sparse.values_of(cx, &entries)?,
        shape_tensor(cx, &shape)?,
    ])
}

/// Gradient of SparseSlice.
pub(crate) static SLICE_GRAD: Op = Op {
    def: OpDef {
        name: "SparseSliceGrad",
        summary: "The gradient of SparseSlice: that of the entries in the box, and 0 for all others.",
        inputs: &[
            arg("backprop_val_grad", "T"),
            arg_of("input_indices", DType::I64),
            arg_of("input_start", DType::I64),
            arg_of("output_indices", DType::I64),
        ],
        outputs: &[arg("val_grad", "T")],
        attrs: &[type_attr("T", DType::ALL_NUMBERS)],
        shape: |cx| {
            cx.ranked(0, 1)?;
            let indices = cx.ranked(1, 2)?;
            cx.ranked(2, 1)?;
            cx.ranked(3, 2)?;
            cx.set(0, Shape::partial([indices.dim(0)]));
            Ok(())
        },
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(0)?.dtype();
        dispatch!(dtype, ALL_NUMBERS, T => slice_grad::<T>(cx), else Err(KernelError::DType(dtype)))
    })],
};

fn slice_grad<T: Arithmetic>(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    for (i, name, rank) in [
        (0, "backprop_val_grad", 1),
        (1, "input_indices", 2),
        (2, "input_start", 1),
        (3, "output_indices", 2),
    ] {
        expect_rank(cx, i, name, rank)?;
    }
    let (dy, start) = (cx.slice::<T>(0)?, cx.slice::<i64>(2)?);
    let (all, kept) = (cx.tensor(1)?.dims(), cx.tensor(3)?.dims());
    let rank = start.len();
    if [all[1], kept[1]] != [rank, rank] {
        return Err(invalid(format!(
            "the rank of input_indices and output_indices must be the length of input_start: {}, {} and {rank}",
            all[1], kept[1]
        )));
    }
    if kept[0] != dy.len() {
        return Err(invalid(format!(
            "# elements in backprop_val_grad and # rows in output_indices should match ({} and {})",
            dy.len(),
            kept[0]
        )));
    }
    let (inputs, outputs) = (cx.slice::<i64>(1)?, cx.slice::<i64>(3)?);
    let input = |i: usize| inputs[i * rank..][..rank].iter().copied();
    let output = |i: usize| outputs[i * rank..][..rank].iter().zip(start);
    let mut grad = cx.zeros(T::DTYPE, &[all[0]])?;
    let (mut next, mut stop) = (0, cx.stop_check());
    for (i, to) in grad.as_mut_slice::<T>()?.iter_mut().enumerate() {
        stop.tick()?;
        if next == dy.len() {
            break;
        }
        let moved = output(next).map(|(i, &start)| i.saturating_add(start));
        if moved.eq(input(i)) {
            *to = dy[next];
            next += 1;
        }
    }
    match next == dy.len() {
        true => Ok(vec![grad]),
        false => Err(invalid(format!(
            "Elements of backprop_val_grad aren't all propagated. Num elements:{}, used: {next}",
            dy.len()
        ))),
    }
}
