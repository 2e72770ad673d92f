//! TensorStridedSliceUpdate.

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, Prepare, cpu, gpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg};

use super::strided_slice::{ATTRS, with_masks};
use super::strided_slice_assign::{check_value, copy_to_slice};
use crate::array::box_copies::{BoxCopies, BoxCopy, CopySource};
use crate::math::broadcast::sum_to;
use crate::support::numbered_elements::numbered_kernel;
use crate::support::strided_copy::{CopyAxis, StridedCopy};

/// A copy with other values in a slice.
pub(crate) static TENSOR_STRIDED_SLICE_UPDATE: Op = Op {
    def: OpDef {
        name: "TensorStridedSliceUpdate",
        summary: "The input, with the value in place of the elements that StridedSlice would take.",
        inputs: &[
            arg("input", "T"),
            arg("begin", "Index").host(),
            arg("end", "Index").host(),
            arg("strides", "Index").host(),
            arg("value", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| {
            check_value(cx, cx.shape(0))?;
            cx.set(0, cx.shape(0).clone());
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let of_slice = |op, more| {
                let node = g.graph().op(op).input(g.grad());
                let node = node.inputs((1..4).map(|i| g.input(i))).inputs(more);
                with_masks(node, g.attrs()).output()
            };
            let dv = of_slice("StridedSlice", None);
            let zeros = g.graph().op("ZerosLike").input(dv).output();
            let dx = of_slice("TensorStridedSliceUpdate", Some(zeros));
            // The value may be broadcast to the slice.
            smallvec![Some(dx), None, None, None, Some(sum_to(dv, g.input(4), dv))]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(TENSOR_STRIDED_SLICE_UPDATE, "T"),
        cpu(|p| moves(p)?.on_cpu()),
        gpu(|p| moves(p)?.on_gpu()),
    ],
};

fn moves(p: &Prepare<'_>) -> Result<BoxCopies, KernelError> {
    let elements = p.outputs[0].elements();
    let all = CopyAxis {
        len: elements,
        from: 1,
        to: 1,
    };
    let copied = StridedCopy::new(0, 0, &[all])?;
    let (moved, _) = copy_to_slice(p)?;
    Ok(BoxCopies {
        dtype: p.dtype(4),
        elements,
        parts: vec![
            BoxCopy::of(CopySource::Input(0), copied),
            BoxCopy::of(CopySource::Input(4), moved),
        ],
    })
}
