//! Split, SplitV.

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, Prepare, cpu, gpu};
use thalweg_graph::infer::resolve_axis;
use thalweg_graph::op::{Gradient, arg, arg_of, count_attr, type_attr, type_attr_or};
use thalweg_graph::{InferError, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape};

use crate::array::box_copies::{BoxCopies, BoxCopy, CopySource};
use crate::support::gradient_nodes::or_zeros;
use crate::support::numbered_elements::numbered_kernel;
use crate::support::shape_inputs::{invalid_value, single_int};
use crate::support::strided_copy::{CopyAxis, StridedCopy};

/// Copies that deal input `input` out to the outputs: `lens` elements to each in turn, `outer` times.
pub(super) fn cut(
    p: &Prepare<'_>,
    input: usize,
    outer: usize,
    len: usize,
) -> Result<BoxCopies, KernelError> {
    let count = p.outputs.len();
    let mut parts = Vec::with_capacity(count);
    for output in 0..count {
        let axes = [
            CopyAxis {
                len: outer,
                from: (len * count) as isize,
                to: len as isize,
            },
            CopyAxis {
                len,
                from: 1,
                to: 1,
            },
        ];
        parts.push(BoxCopy {
            from: CopySource::Input(input),
            output,
            moved: StridedCopy::new(output * len, 0, &axes)?,
        });
    }
    Ok(BoxCopies {
        dtype: p.dtype(input),
        elements: p.inputs[input].elements(),
        parts,
    })
}

/// Splits a tensor into equal parts.
pub(crate) static SPLIT: Op = Op {
    def: OpDef {
        name: "Split",
        summary: "The input cut into equal parts along an axis.",
        inputs: &[arg_of("split_dim", DType::I32).host(), arg("value", "T")],
        outputs: &[arg("output", "T").list("num_split")],
        attrs: &[count_attr("num_split"), type_attr("T", &DType::ALL)],
        shape: |cx| {
            let axis = single_int(cx, 0)?;
            let Some(dims) = cx.shape(1).dims() else {
                return Ok(());
            };
            let count = cx.outputs();
            let part = match axis {
                None => Shape::of_rank(dims.len()),
                Some(axis) => {
                    let axis = cx.axis(0, axis, dims.len())?;
                    if let Some(d) = dims[axis]
                        && d % count.max(1) != 0
                    {
                        return Err(InferError::Attr {
                            attr: "num_split",
                            reason: format!(
                                "{d}, the length of axis {axis}, is no multiple of {count}"
                            ),
                        });
                    }
                    let cut = |(i, d): (usize, &Option<usize>)| match i == axis {
                        true => d.map(|d| d / count.max(1)),
                        false => *d,
                    };
                    Shape::partial(dims.iter().enumerate().map(cut))
                }
            };
            for i in 0..count {
                cx.set(i, part.clone());
            }
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let count = g.attrs().int("num_split").max(1) as usize;
            let dy = |i: usize| or_zeros(g.dy(i), g.output(i as u32));
            if count == 1 {
                return smallvec![None, Some(dy(0))];
            }
            let joined = g.graph().op("ConcatV2").inputs((0..count).map(dy));
            smallvec![None, Some(joined.input(g.input(0)).output())]
        }),
        same_as: |cx| (cx.attrs().int("num_split") == 1).then_some(1),
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(SPLIT, "T"),
        cpu(|p| split_moves(p)?.on_cpu()),
        gpu(|p| split_moves(p)?.on_gpu()),
    ],
};

/// Lengths of the parts of an axis of length `d`; one of them may be -1, for the rest.
fn lengths(sizes: &[i64], d: Option<usize>) -> Result<Vec<Option<usize>>, InferError> {
    let open = sizes.iter().filter(|&&s| s == -1).count();
    if open > 1 || sizes.iter().any(|&s| s < -1) {
        let reason = format!("{sizes:?}: use lengths of at least 0, and -1 once at most");
        return Err(invalid_value(1, reason));
    }
    let given = sizes.iter().filter(|&&s| s >= 0);
    let sum = given.into_iter().try_fold(0i64, |n, &s| n.checked_add(s));
    let sum = sum.ok_or_else(|| invalid_value(1, "the parts are too large"))?;
    let rest = match d.map(|d| d as i64) {
        None => None,
        Some(d) if sum == d || (open == 1 && sum < d) => usize::try_from(d - sum).ok(),
        Some(d) => {
            return Err(invalid_value(
                1,
                format!("parts of {sum} for an axis of {d}"),
            ));
        }
    };
    let length = |&s: &i64| {
        if s == -1 {
            rest
        } else {
            usize::try_from(s).ok()
        }
    };
    Ok(sizes.iter().map(length).collect())
}

/// Splits a tensor into parts of given lengths.
pub(crate) static SPLIT_V: Op = Op {
    def: OpDef {
        name: "SplitV",
        summary: "The input cut along an axis into parts of the given lengths.",
        inputs: &[
            arg("value", "T"),
            arg("size_splits", "Tlen").host(),
            arg_of("split_dim", DType::I32).host(),
        ],
        outputs: &[arg("output", "T").list("num_split")],
        attrs: &[
            count_attr("num_split"),
            type_attr("T", &DType::ALL),
            type_attr_or("Tlen", &[DType::I8, DType::I32, DType::I64], DType::I64),
        ],
        shape: |cx| {
            let axis = single_int(cx, 2)?;
            let count = cx.outputs();
            let sizes = cx.ranked(1, 1)?;
            if let Some(n) = sizes.dim(0)
                && n != count
            {
                return Err(invalid_value(
                    1,
                    format!("{} for {}", counted(n, "length"), counted(count, "output")),
                ));
            }
            let Some(dims) = cx.shape(0).dims() else {
                return Ok(());
            };
            let Some(axis) = axis else {
                for i in 0..count {
                    cx.set(i, Shape::of_rank(dims.len()));
                }
                return Ok(());
            };
            let axis = cx.axis(2, axis, dims.len())?;
            let lengths = match cx.ints(1) {
                Some(sizes) => lengths(&sizes, dims[axis])?,
                None if count == 1 => vec![dims[axis]],
                None => vec![None; count],
            };
            for (i, length) in lengths.into_iter().enumerate() {
                let mut own = dims.to_vec();
                own[axis] = length;
                cx.set(i, Shape::partial(own));
            }
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let count = g.attrs().int("num_split").max(1) as usize;
            let dy = |i: usize| or_zeros(g.dy(i), g.output(i as u32));
            if count == 1 {
                return smallvec![Some(dy(0))];
            }
            let joined = g.graph().op("ConcatV2").inputs((0..count).map(dy));
            smallvec![Some(joined.input(g.input(2)).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(SPLIT_V, "T"),
        cpu(|p| split_v_moves(p)?.on_cpu()),
        gpu(|p| split_v_moves(p)?.on_gpu()),
    ],
};

fn split_v_moves(p: &Prepare<'_>) -> Result<BoxCopies, KernelError> {
    let (axis, dims) = (p.ints(2)?, p.dims(0));
    let axis = axis.first().and_then(|&a| resolve_axis(a, dims.len()));
    let axis = axis.ok_or(KernelError::Argument("an axis"))?;
    let outer = dims[..axis].iter().product();
    let whole: usize = dims[axis..].iter().product();
    let mut parts = Vec::with_capacity(p.outputs.len());
    let mut start = 0;
    for output in 0..p.outputs.len() {
        let len: usize = p.output_dims(output).iter().skip(axis).product();
        let axes = [
            CopyAxis {
                len: outer,
                from: whole as isize,
                to: len as isize,
            },
            CopyAxis {
                len,
                from: 1,
                to: 1,
            },
        ];
        parts.push(BoxCopy {
            from: CopySource::Input(0),
            output,
            moved: StridedCopy::new(start, 0, &axes)?,
        });
        start += len;
    }
    Ok(BoxCopies {
        dtype: p.dtype(0),
        elements: p.inputs[0].elements(),
        parts,
    })
}

fn split_moves(p: &Prepare<'_>) -> Result<BoxCopies, KernelError> {
    let (axis, dims) = (p.ints(0)?, p.dims(1));
    let axis = axis.first().and_then(|&a| resolve_axis(a, dims.len()));
    let axis = axis.ok_or(KernelError::Argument("an axis"))?;
    let len: usize = p.output_dims(0).iter().skip(axis).product();
    cut(p, 1, dims[..axis].iter().product(), len)
}
