//! DynamicStitch, ParallelDynamicStitch, DynamicPartition.

use bytemuck::Pod;
use smallvec::{SmallVec, smallvec};
use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu, cpu_tensors};
use thalweg_graph::op::{Gradient, arg, arg_of, count_attr, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Shape};

use crate::support::gradient_nodes::{int_scalar, or_zeros, shape_of};
use crate::support::numbered_elements::numbered_kernel;
use crate::support::raw_elements::{by_size, input_as, output_as};
use crate::support::shape_inputs::{checked_shape, invalid_value};
use crate::support::tensors::{AccountedVec, take_slices};

/// Dimensions of `shape` after those of `prefix`, if both ranks are known.
fn rest(shape: &Shape, prefix: &Shape, input: usize) -> Result<Option<Shape>, InferError> {
    let (Some(dims), Some(own)) = (shape.dims(), prefix.dims()) else {
        return Ok(None);
    };
    let begins = dims
        .get(..own.len())
        .and_then(|dims| Shape::partial(dims.iter().copied()).merge(prefix));
    if begins.is_none() {
        return Err(InferError::Mismatch {
            what: format!("the shape of input {input} must begin with that of its indices"),
            left: shape.clone(),
            right: prefix.clone(),
        });
    }
    Ok(Some(Shape::partial(dims[own.len()..].iter().copied())))
}

fn stitched(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let n = cx.inputs() / 2;
    let mut inner = Shape::unknown();
    let mut rows = Some(0usize);
    for i in 0..n {
        if let Some(own) = rest(cx.shape(n + i), cx.shape(i), n + i)? {
            inner = inner.merge(&own).ok_or_else(|| InferError::Mismatch {
                what: "the slices of all data must have one shape".to_owned(),
                left: inner.clone(),
                right: own.clone(),
            })?;
        }
        rows = match (rows, cx.ints(i)) {
            (Some(rows), Some(indices)) => {
                let mut most = rows;
                for index in indices {
                    let index = usize::try_from(index)
                        .map_err(|_| invalid_value(i, format!("{index} is no index")))?;
                    most = most.max(index.saturating_add(1));
                }
                Some(most)
            }
            _ => None,
        };
    }
    if let Some(inner) = inner.dims() {
        let all = [rows].into_iter().chain(inner.iter().copied());
        let shape = checked_shape(0, Shape::partial(all))?;
        cx.set(0, shape);
    }
    Ok(())
}

fn stitch(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    by_size!(p.dtype(p.inputs.len() / 2), T => stitch_as::<T>(p))
}

fn stitch_as<T: Pod + Send + Sync>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let n = p.inputs.len() / 2;
    let dtype = p.dtype(n);
    let (&rows, inner) = p
        .output_dims(0)
        .split_first()
        .ok_or(KernelError::Argument("rows"))?;
    let inner = elements(inner);
    // For each row of the output: the last input whose indices contain it, and its row in that input.
    let mut places: AccountedVec<Option<(usize, usize)>> =
        AccountedVec::filled(rows, None, p.cpu.memory())?;
    for i in 0..n {
        for (row, index) in p.ints(i)?.into_iter().enumerate() {
            let place = usize::try_from(index)
                .ok()
                .and_then(|at| places.get_mut(at));
            *place.ok_or(KernelError::Argument("an index"))? = Some((n + i, row));
        }
    }
    Ok(Prepared::new(p.outputs[0].elements() * 2, move |cx| {
        // SAFETY: it gets zeros and elements of inputs of the same dtype only.
        let out = unsafe { output_as::<T>(cx, 0, dtype) }?;
        if inner == 0 {
            return Ok(());
        }
        for (place, out) in places.iter().zip(out.chunks_exact_mut(inner)) {
            match *place {
                Some((input, row)) => {
                    out.copy_from_slice(&input_as::<T>(cx, input)?[row * inner..][..inner]);
                }
                None => out.fill(T::zeroed()),
            }
        }
        Ok(())
    }))
}

const STITCH: OpDef = OpDef {
    name: "DynamicStitch",
    summary: "The slices of all data at the places that the indices name; where several go to one, the last. Placements that none goes to are zeros, or empty strings.",
    inputs: &[
        arg_of("indices", DType::I32).list("N").host(),
        arg("data", "T").list("N"),
    ],
    outputs: &[arg("merged", "T")],
    attrs: &[count_attr("N"), type_attr("T", &DType::ALL)],
    shape: stitched,
    gradient: Gradient::Rule(|g| {
        let (graph, n) = (g.graph(), g.inputs() / 2);
        let axis = int_scalar(graph, DType::I32, 0);
        let part = |i: usize| {
            let node = graph.op("GatherV2").input(g.grad()).input(g.input(i));
            Some(node.input(axis).output())
        };
        let none = std::iter::repeat_n(None, n);
        none.chain((0..n).map(part)).collect()
    }),
    ..OpDef::EMPTY
};

const STITCH_KERNELS: &[Kernel] = &[numbered_kernel!(DYNAMIC_STITCH, "T"), cpu(stitch)];

/// Interleaves slices by index.
pub(crate) static DYNAMIC_STITCH: Op = Op {
    def: STITCH,
    kernels: STITCH_KERNELS,
};

/// Interleaves slices by index; duplicate indices may be written in any order.
pub(crate) static PARALLEL_DYNAMIC_STITCH: Op = Op {
    def: OpDef {
        name: "ParallelDynamicStitch",
        ..STITCH
    },
    kernels: STITCH_KERNELS,
};

/// Distributes slices to outputs by partition number.
pub(crate) static DYNAMIC_PARTITION: Op = Op {
    def: OpDef {
        name: "DynamicPartition",
        summary: "For each number the slices of the data that have it, in order.",
        inputs: &[arg("data", "T"), arg_of("partitions", DType::I32)],
        outputs: &[arg("outputs", "T").list("num_partitions")],
        attrs: &[count_attr("num_partitions"), type_attr("T", &DType::ALL)],
        shape: |cx| {
            if let Some(inner) = rest(cx.shape(0), cx.shape(1), 0)? {
                let inner = inner.dims().unwrap_or_default();
                let all: SmallVec<[Option<usize>; 6]> =
                    [None].into_iter().chain(inner.iter().copied()).collect();
                for i in 0..cx.outputs() {
                    cx.set(i, Shape::partial(all.iter().copied()));
                }
            }
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            // The row numbers, partitioned in the same way, are the indices that stitch the gradients.
            let (graph, data, partitions) = (g.graph(), g.input(0), g.input(1));
            let count = g.attrs().int("num_partitions").max(1);
            let int = |v: i64| int_scalar(graph, DType::I32, v);
            let size = graph.op("Size").input(partitions).output();
            let all = graph.op("Range").input(int(0)).input(size).input(int(1));
            let shape = shape_of(partitions, DType::I32);
            let all = graph.op("Reshape").input(all.output()).input(shape);
            let dealt = graph.op("DynamicPartition").input(all.output());
            let dealt = dealt
                .input(partitions)
                .attr("num_partitions", count)
                .build();
            let dy = (0..count as usize).map(|i| or_zeros(g.dy(i), g.output(i as u32)));
            let places = (0..count as u32).map(|i| dealt.output(i));
            let node = graph.op("DynamicStitch").inputs(places).inputs(dy);
            let node = node.attr("N", count).output();
            let flat = graph.op("Reshape").input(node);
            smallvec![Some(flat.input(shape_of(data, DType::I32)).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let (data, partitions) = (cx.tensor(0)?, cx.slice::<i32>(1)?);
        let count = cx.node().outputs.len();
        let inner = data.dims().get(cx.tensor(1)?.dims().len()..);
        let inner = inner.ok_or(KernelError::Argument("slices"))?;
        // By partition: the number of its rows, and then the end of them among all rows, which are sorted by it.
        let mut ends = AccountedVec::filled(count, 0usize, cx.memory())?;
        for (element, &partition) in partitions.iter().enumerate() {
            let own = usize::try_from(partition)
                .ok()
                .and_then(|i| ends.get_mut(i));
            let own = own.ok_or_else(|| KernelError::Element {
                input: 1,
                element,
                reason: format!("partition {partition} is not within 0..{count}"),
            })?;
            *own += 1;
        }
        let mut start = 0;
        for end in ends.iter_mut() {
            start += std::mem::replace(end, start);
        }
        let mut rows = AccountedVec::filled(partitions.len(), 0, cx.memory())?;
        for (element, &partition) in partitions.iter().enumerate() {
            let end = &mut ends[partition as usize];
            rows[*end] = element;
            *end += 1;
        }
        let part = |i: usize| {
            let start = i.checked_sub(1).map_or(0, |before| ends[before]);
            let rows = &rows[start..ends[i]];
            let dims: SmallVec<[usize; 6]> = [rows.len()]
                .into_iter()
                .chain(inner.iter().copied())
                .collect();
            take_slices(cx, data, rows, elements(inner), &dims)
        };
        (0..count).map(part).collect()
    })],
};
