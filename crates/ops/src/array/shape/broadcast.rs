//! BroadcastTo, BroadcastArgs.

use smallvec::smallvec;
use thalweg_device::{Kernel, KernelError, Op, cpu, gpu};
use thalweg_graph::op::{Gradient, arg, type_attr, type_attr_or};
use thalweg_graph::{InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use crate::support::elementwise::copy_broadcast;
use crate::support::numbered_elements::numbered_kernel;
use crate::support::shape_inputs::{
    described_shape, int_tensor_for, ints_per_dim, kernel_error, known_outputs,
};
use crate::support::widened::as_uints;

/// Broadcasts to a larger shape.
pub(crate) static BROADCAST_TO: Op = Op {
    def: OpDef {
        name: "BroadcastTo",
        summary: "The input, repeated along dimensions of 1 and new ones in front to the given shape.",
        inputs: &[arg("input", "T"), arg("shape", "Tidx").host()],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", &DType::ALL),
            type_attr_or("Tidx", DType::INDICES, DType::I32),
        ],
        shape: |cx| {
            let shape = described_shape(cx, 1)?;
            let wrong = || InferError::Broadcast {
                left: cx.shape(0).clone(),
                right: shape.clone(),
            };
            let both = cx.shape(0).broadcast(&shape).ok_or_else(wrong)?;
            // A dimension of the input above 1 cannot become smaller.
            if both.merge(&shape).is_none() {
                return Err(wrong());
            }
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let (x, y) = (g.input(0), g.output(0));
            smallvec![Some(crate::math::broadcast::sum_to(g.grad(), x, y)), None]
        }),
        same_as: |cx| {
            let to = Shape::from(cx.ints(1)?);
            (to.is_known() && to == *cx.shape(0)).then_some(0)
        },
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(BROADCAST_TO, "T"),
        cpu(|p| {
            as_uints(
                p,
                &[0],
                &[0],
                &|p| dispatch!(p.dtype(0), SIZES, T => Ok(copy_broadcast::<T>(p)), else Err(KernelError::DType(p.dtype(0)))),
            )
        }),
        gpu(crate::gpu::repeated),
    ],
};

/// Broadcast of two shapes.
pub(crate) static BROADCAST_ARGS: Op = Op {
    def: OpDef {
        name: "BroadcastArgs",
        summary: "The shape of two tensors of the given shapes, broadcast together.",
        inputs: &[arg("s0", "T").host(), arg("s1", "T").host()],
        outputs: &[arg("r0", "T")],
        attrs: &[type_attr_or("T", DType::INDICES, DType::I32)],
        shape: |cx| {
            let (a, b) = (ints_per_dim(cx, 0)?, ints_per_dim(cx, 1)?);
            cx.set(0, Shape::of_rank(1));
            if let (Some(a), Some(b)) = (a, b) {
                let value = broadcast(cx.dtype(0), a, b)?;
                cx.set_value(0, value);
            }
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: BROADCAST_ARGS_KERNELS,
};

const BROADCAST_ARGS_KERNELS: &[Kernel] = &[
    cpu(|p| {
        let value = broadcast(p.dtype(0), p.ints(0)?, p.ints(1)?).map_err(kernel_error)?;
        known_outputs(p.dtype(0), vec![value])
    }),
    thalweg_device::on_host(),
];

fn broadcast(dtype: DType, a: Vec<i64>, b: Vec<i64>) -> Result<Tensor, InferError> {
    let (left, right) = (Shape::from(a), Shape::from(b));
    let both = left.broadcast(&right).and_then(|s| s.to_dims());
    let dims = both.ok_or(InferError::Broadcast { left, right })?;
    let dims: Vec<i64> = dims.iter().map(|&d| d as i64).collect();
    int_tensor_for("T", dtype, &[dims.len()], &dims)
}
