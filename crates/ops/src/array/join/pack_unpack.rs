//! Pack, Unpack.

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, Prepare, cpu, gpu};
use thalweg_graph::infer::resolve_axis;
use thalweg_graph::op::{Allowed, AttrDef, Gradient, arg, attr, count_attr, int_attr, type_attr};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape};

use super::concat::join;
use super::split::cut;
use crate::array::box_copies::BoxCopies;
use crate::support::gradient_nodes::or_zeros;
use crate::support::numbered_elements::numbered_kernel;
use crate::support::shape_inputs::checked_shape;

/// Attribute `axis`, resolved for a tensor with `rank` dimensions.
fn axis(cx: &Infer<'_>, rank: usize) -> Result<usize, InferError> {
    let axis = cx.attrs().int("axis");
    resolve_axis(axis, rank).ok_or_else(|| InferError::Attr {
        attr: "axis",
        reason: format!("{axis} is no axis of {}", counted(rank, "dimension")),
    })
}

/// Stacks tensors of one shape along a new axis.
pub(crate) static PACK: Op = Op {
    def: OpDef {
        name: "Pack",
        summary: "Tensors of one shape, next to each other along a new axis.",
        inputs: &[arg("values", "T").list("N")],
        outputs: &[arg("output", "T")],
        attrs: &[
            count_attr("N"),
            type_attr("T", &DType::ALL),
            int_attr("axis", 0),
        ],
        shape: |cx| {
            let mut one = Shape::unknown();
            for i in 0..cx.inputs() {
                one = one.merge(cx.shape(i)).ok_or_else(|| InferError::Mismatch {
                    what: format!("input {i} must have the shape of those before it"),
                    left: cx.shape(i).clone(),
                    right: one.clone(),
                })?;
            }
            let Some(dims) = one.dims() else {
                return Ok(());
            };
            let (before, after) = dims.split_at(axis(cx, dims.len() + 1)?);
            let count = [Some(cx.inputs())];
            let all = before.iter().chain(&count).chain(after).copied();
            let shape = checked_shape(0, Shape::partial(all))?;
            cx.set(0, shape);
            if dims.is_empty() {
                let one = |i| cx.elements(i).and_then(|e| e.first().copied()).flatten();
                let elements = (0..cx.inputs()).map(one).collect();
                cx.set_elements(0, elements);
            }
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let back = g.graph().op("Unpack").input(g.grad());
            let back = back
                .attr("num", g.inputs() as i64)
                .attr("axis", g.attrs().int("axis"))
                .build();
            (0..g.inputs() as u32)
                .map(|i| Some(back.output(i)))
                .collect()
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(PACK, "T"),
        cpu(|p| pack_moves(p)?.on_cpu()),
        gpu(|p| pack_moves(p)?.on_gpu()),
    ],
};

fn pack_moves(p: &Prepare<'_>) -> Result<BoxCopies, KernelError> {
    let out = p.output_dims(0);
    let axis = resolve_axis(p.node.attrs.int("axis"), out.len());
    let axis = axis.ok_or(KernelError::Argument("an axis"))?;
    let len = out[axis + 1..].iter().product();
    join(
        p,
        0,
        out[..axis].iter().product(),
        &vec![len; p.inputs.len()],
    )
}

/// Splits a tensor into its slices along an axis.
pub(crate) static UNPACK: Op = Op {
    def: OpDef {
        name: "Unpack",
        summary: "The slices of a tensor along an axis, each without that axis.",
        inputs: &[arg("value", "T")],
        outputs: &[arg("output", "T").list("num")],
        attrs: &[
            AttrDef {
                allowed: Allowed::AtLeast(0),
                ..attr("num", AttrKind::Int)
            },
            type_attr("T", &DType::ALL),
            int_attr("axis", 0),
        ],
        shape: |cx| {
            let Some(dims) = cx.shape(0).dims() else {
                return Ok(());
            };
            let axis = axis(cx, dims.len())?;
            let count = cx.outputs();
            if let Some(d) = dims[axis]
                && d != count
            {
                return Err(InferError::Attr {
                    attr: "num",
                    reason: format!("axis {axis} has length {d}, not {count}"),
                });
            }
            let rest = dims[..axis].iter().chain(&dims[axis + 1..]).copied();
            let one = Shape::partial(rest);
            let elements = cx
                .elements(0)
                .filter(|e| one.rank() == Some(0) && e.len() == count);
            for i in 0..count {
                cx.set(i, one.clone());
                if let Some(elements) = &elements {
                    cx.set_elements(i, vec![elements[i]]);
                }
            }
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let count = g.attrs().int("num").max(0) as usize;
            let dys = (0..count).map(|i| or_zeros(g.dy(i), g.output(i as u32)));
            let packed = g.graph().op("Pack").inputs(dys);
            smallvec![Some(packed.attr("axis", g.attrs().int("axis")).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(UNPACK, "T"),
        cpu(|p| unpack_moves(p)?.on_cpu()),
        gpu(|p| unpack_moves(p)?.on_gpu()),
    ],
};

fn unpack_moves(p: &Prepare<'_>) -> Result<BoxCopies, KernelError> {
    let dims = p.dims(0);
    let axis = resolve_axis(p.node.attrs.int("axis"), dims.len());
    let axis = axis.ok_or(KernelError::Argument("an axis"))?;
    let len = dims[axis + 1..].iter().product();
    cut(p, 0, dims[..axis].iter().product(), len)
}
