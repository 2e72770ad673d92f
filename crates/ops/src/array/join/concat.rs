//! ConcatV2, Concat, ConcatOffset.

use std::ops::Range;

use thalweg_device::{KernelError, Op, Prepare, cpu, gpu, on_host};
use thalweg_graph::infer::{MAX_SHAPE_ELEMENTS, resolve_axis};
use thalweg_graph::op::{
    Allowed, AttrDef, Gradient, InputGradients, arg, arg_of, count_attr, type_attr, type_attr_or,
};
use thalweg_graph::{GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape, Tensor};

use crate::array::box_copies::{BoxCopies, BoxCopy, CopySource};
use crate::support::gradient_nodes::{int_vector, shape_of};
use crate::support::numbered_elements::numbered_kernel;
use crate::support::shape_inputs::{
    checked_shape, int_tensor_for, ints_per_dim, invalid_value, kernel_error, known_outputs,
    scalar_int,
};
use crate::support::strided_copy::{CopyAxis, StridedCopy};

/// Number of tensors to concatenate.
const COUNT: AttrDef = AttrDef {
    allowed: Allowed::AtLeast(2),
    ..count_attr("N")
};

/// Range of the tensors among the inputs, and input number of the axis: the last input, or the first one of the older
/// op.
fn places(inputs: usize, old: bool) -> (Range<usize>, usize) {
    match old {
        true => (1..inputs, 0),
        false => (0..inputs.saturating_sub(1), inputs.saturating_sub(1)),
    }
}

/// Shape rule of concatenation.
fn shape(cx: &mut Infer<'_>, old: bool) -> Result<(), InferError> {
    let (tensors, n) = places(cx.inputs(), old);
    let axis = scalar_int(cx, n)?;
    let ranked = tensors.clone().find_map(|i| cx.shape(i).rank());
    let Some(rank) = ranked else {
        return Ok(());
    };
    if rank == 0 {
        return Err(InferError::Rank {
            input: 0,
            expected: "at least 1".to_owned(),
            found: Shape::scalar(),
        });
    }
    for i in tensors.clone() {
        cx.ranked(i, rank)?;
    }
    let Some(axis) = axis else {
        cx.set(0, Shape::of_rank(rank));
        return Ok(());
    };
    let axis = cx.axis(n, axis, rank)?;
    let mut joined = Shape::of_rank(rank);
    let mut length = Some(0usize);
    for i in tensors {
        let own = cx.shape(i);
        let others = own.dims().map_or(Shape::unknown(), |dims| {
            let open = dims.iter().enumerate();
            Shape::partial(open.map(|(k, d)| if k == axis { None } else { *d }))
        });
        joined = joined.merge(&others).ok_or_else(|| InferError::Mismatch {
            what: format!("input {i} may differ from those before it along axis {axis} alone"),
            left: own.clone(),
            right: joined.clone(),
        })?;
        length = match (length, own.dim(axis)) {
            (Some(sum), Some(d)) => {
                let sum = sum.checked_add(d);
                Some(sum.ok_or_else(|| invalid_value(i, "the joined tensor is too large"))?)
            }
            _ => None,
        };
    }
    let dims = joined.dims().unwrap_or_default().iter().enumerate();
    let all = Shape::partial(dims.map(|(k, d)| if k == axis { length } else { *d }));
    let all = checked_shape(0, all)?;
    cx.set(0, all);
    if rank == 1 {
        let (tensors, _) = places(cx.inputs(), old);
        let own = |i| match (cx.elements(i), cx.shape(i).dim(0)) {
            (Some(known), _) => Some(known),
            // Longer ones are not kept.
            (None, Some(n)) if n <= MAX_SHAPE_ELEMENTS => Some(vec![None; n]),
            _ => None,
        };
        let parts: Option<Vec<_>> = tensors.map(own).collect();
        if let Some(parts) = parts {
            cx.set_elements(0, parts.concat());
        }
    }
    Ok(())
}

/// Copies that interleave the inputs from `first` on: `lens` elements of each in turn, `outer` times.
pub(super) fn join(
    p: &Prepare<'_>,
    first: usize,
    outer: usize,
    lens: &[usize],
) -> Result<BoxCopies, KernelError> {
    let whole: usize = lens.iter().sum();
    let mut parts = Vec::with_capacity(lens.len());
    let mut start = 0;
    for (i, &len) in lens.iter().enumerate() {
        let axes = [
            CopyAxis {
                len: outer,
                from: len as isize,
                to: whole as isize,
            },
            CopyAxis {
                len,
                from: 1,
                to: 1,
            },
        ];
        parts.push(BoxCopy::of(
            CopySource::Input(first + i),
            StridedCopy::new(0, start, &axes)?,
        ));
        start += len;
    }
    Ok(BoxCopies {
        dtype: p.dtype(first),
        elements: p.outputs[0].elements(),
        parts,
    })
}

/// The axis, and the begin of each part along it, if known.
fn starts(g: &GradCx<'_, '_>, tensors: Range<usize>, n: usize) -> Option<(usize, Vec<i64>)> {
    let rank = tensors.clone().find_map(|i| g.input(i).shape().rank())?;
    let axis = g.input(n).fact().value?.to_ints()?.first().copied()?;
    let axis = resolve_axis(axis, rank)?;
    let mut start = 0;
    let mut starts = Vec::with_capacity(tensors.len());
    for i in tensors {
        starts.push(start);
        start += g.input(i).shape().dim(axis)? as i64;
    }
    Some((axis, starts))
}

fn gradient<'g>(g: &GradCx<'_, 'g>, old: bool) -> InputGradients<'g> {
    let (graph, dy) = (g.graph(), g.grad());
    let (tensors, n) = places(g.inputs(), old);
    // The axis has no gradient.
    let before = old.then_some(None);
    let slice = |begin: Output<'g>, size: Output<'g>| {
        let slice = graph.op("Slice").input(dy).input(begin).input(size);
        Some(slice.output())
    };
    if let Some((axis, starts)) = starts(g, tensors.clone(), n) {
        let part = |(i, start): (usize, i64)| {
            let shape = g.input(i).shape();
            let rank = shape.rank().or(dy.shape().rank()).unwrap_or(axis + 1);
            let mut begin = vec![0; rank];
            // -1: the whole of every other dimension.
            let mut size = vec![-1; rank];
            begin[axis] = start;
            size[axis] = shape.dim(axis).map_or(-1, |d| d as i64);
            slice(
                int_vector(graph, DType::I64, &begin),
                int_vector(graph, DType::I64, &size),
            )
        };
        let parts = tensors.zip(starts).map(part);
        return before.into_iter().chain(parts).collect();
    }
    let axis = graph.op("Cast").input(g.input(n)).attr("DstT", DType::I32);
    let sizes: Vec<_> = tensors.map(|i| shape_of(g.input(i), DType::I32)).collect();
    let offsets = graph.op("ConcatOffset").input(axis.output());
    let offsets = offsets.inputs(sizes.iter().copied()).build();
    let parts = sizes.iter().enumerate();
    let parts = parts.map(|(i, &size)| slice(offsets.output(i as u32), size));
    before.into_iter().chain(parts).collect()
}

/// Concatenates tensors along an axis.
pub(crate) static CONCAT: Op = Op {
    def: OpDef {
        name: "ConcatV2",
        summary: "Tensors joined along an axis; all other dimensions must be the same.",
        inputs: &[arg("values", "T").list("N"), arg("axis", "Tidx").host()],
        outputs: &[arg("output", "T")],
        attrs: &[
            COUNT,
            type_attr("T", &DType::ALL),
            type_attr_or("Tidx", DType::INDICES, DType::I32),
        ],
        shape: |cx| shape(cx, false),
        gradient: Gradient::Rule(|g| gradient(g, false)),
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(CONCAT, "T"),
        cpu(|p| concat_moves(p, false)?.on_cpu()),
        gpu(|p| concat_moves(p, false)?.on_gpu()),
    ],
};

/// Concatenates tensors along an axis; TensorFlow 1's op, whose axis comes first.
pub(crate) static CONCAT_V1: Op = Op {
    def: OpDef {
        name: "Concat",
        summary: "Tensors joined along an axis; all other dimensions must be the same.",
        inputs: &[
            arg_of("concat_dim", DType::I32).host(),
            arg("values", "T").list("N"),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[COUNT, type_attr("T", &DType::ALL)],
        shape: |cx| shape(cx, true),
        gradient: Gradient::Rule(|g| gradient(g, true)),
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(CONCAT_V1, "T"),
        cpu(|p| concat_moves(p, true)?.on_cpu()),
        gpu(|p| concat_moves(p, true)?.on_gpu()),
    ],
};

fn concat_moves(p: &Prepare<'_>, old: bool) -> Result<BoxCopies, KernelError> {
    let (tensors, n) = places(p.inputs.len(), old);
    let first = tensors.start;
    let (axis, out) = (p.ints(n)?, p.output_dims(0));
    let axis = axis.first().and_then(|&a| resolve_axis(a, out.len()));
    let axis = axis.ok_or(KernelError::Argument("an axis"))?;
    let outer = out[..axis].iter().product();
    let lens: Vec<usize> = tensors
        .map(|i| p.dims(i).iter().skip(axis).product())
        .collect();
    join(p, first, outer, &lens)
}

fn offsets(axis: i64, shapes: &[Vec<i64>]) -> Result<Vec<Vec<i64>>, InferError> {
    let rank = shapes.first().map_or(0, Vec::len);
    let axis = resolve_axis(axis, rank).ok_or_else(|| {
        invalid_value(
            0,
            format!("{axis} is no axis of {}", counted(rank, "dimension")),
        )
    })?;
    let mut start = 0i64;
    let mut offsets = Vec::with_capacity(shapes.len());
    for (i, shape) in shapes.iter().enumerate() {
        let fits = shape.len() == rank
            && (shape.iter().zip(&shapes[0]).enumerate()).all(|(k, (a, b))| k == axis || a == b);
        if !fits {
            let reason = format!("{shape:?} differs from {:?} beside axis {axis}", shapes[0]);
            return Err(invalid_value(i + 1, reason));
        }
        let mut offset = vec![0; rank];
        offset[axis] = start;
        offsets.push(offset);
        start = start
            .checked_add(shape[axis])
            .ok_or_else(|| invalid_value(i + 1, "the joined tensor is too large"))?;
    }
    Ok(offsets)
}

fn to_tensors(dtype: DType, offsets: &[Vec<i64>]) -> Result<Vec<Tensor>, InferError> {
    let tensor = |o: &Vec<i64>| int_tensor_for("shape_type", dtype, &[o.len()], o);
    offsets.iter().map(tensor).collect()
}

/// Offsets of tensors in their concatenation.
pub(crate) static CONCAT_OFFSET: Op = Op {
    def: OpDef {
        name: "ConcatOffset",
        summary: "Where each of several tensors begins when they are joined along an axis.",
        inputs: &[
            arg_of("concat_dim", DType::I32).host(),
            arg("shape", "shape_type").list("N").host(),
        ],
        outputs: &[arg("offset", "shape_type").list("N")],
        attrs: &[
            COUNT,
            type_attr_or("shape_type", DType::INDICES, DType::I32),
        ],
        shape: |cx| {
            let axis = scalar_int(cx, 0)?;
            let mut shapes = Vec::with_capacity(cx.inputs());
            for i in 1..cx.inputs() {
                shapes.push(ints_per_dim(cx, i)?);
                cx.set(i - 1, cx.ranked(i, 1)?);
            }
            let shapes: Option<Vec<_>> = shapes.into_iter().collect();
            if let (Some(axis), Some(shapes)) = (axis, shapes) {
                let values = to_tensors(cx.dtype(1), &offsets(axis, &shapes)?)?;
                for (i, value) in values.into_iter().enumerate() {
                    cx.set_value(i, value);
                }
            }
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let axis = p.ints(0)?.first().copied().unwrap_or(0);
            let shapes: Result<Vec<_>, _> = (1..p.inputs.len()).map(|i| p.ints(i)).collect();
            let offsets = offsets(axis, &shapes?).map_err(kernel_error)?;
            let dtype = p.dtype(1);
            known_outputs(dtype, to_tensors(dtype, &offsets).map_err(kernel_error)?)
        }),
        on_host(),
    ],
};
