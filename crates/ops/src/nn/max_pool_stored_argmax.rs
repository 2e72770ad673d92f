//! _MaxPoolStoreArgmax, _MaxPoolGradStoredArgmax: max pooling that stores the index of each window's largest pixel in a
//! byte, and its gradient from these indices.
//! The planner creates both ops in place of `MaxPool` and `MaxPoolGrad`.

use thalweg_device::{KernelError, Op, cpu, gpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{AttrDef, Gradient, arg, arg_of, type_attr};
use thalweg_tensor::{DType, dispatch};

use super::max_pool::ATTRS;
use super::pool::{geometry, pool_kernel};
use crate::support::cpu::slice_cpu;
use crate::support::widened::widened;
use thalweg_cpu::pooling::{max_pool_grad_stored_argmax, max_pool_store_argmax};

const FLOAT_ATTRS: &[AttrDef] = &[
    type_attr("T", DType::FLOATS),
    ATTRS[1],
    ATTRS[2],
    ATTRS[3],
    ATTRS[4],
    ATTRS[5],
];

/// Maximum of each window, and its index in the window, row by row.
pub static MAX_POOL_STORE_ARGMAX: Op = Op {
    def: OpDef {
        name: "_MaxPoolStoreArgmax",
        summary: "The maximum of each window, and its index in the window.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "T"), arg_of("which", DType::U8)],
        attrs: FLOAT_ATTRS,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let g = geometry(p, p.dims(0))?;
            widened(p, &[0], &[0], &|p| {
                dispatch!(p.dtype(0), [F32 F64], T => Ok(pool_kernel(g, move |cx| {
                let (output, which) = (cx.output(0)?, cx.output(1)?);
                max_pool_store_argmax::<T>(slice_cpu(cx.cpu()), &g, cx.input(0)?, output, which);
                Ok(())
            })), else Err(KernelError::DType(p.dtype(0))))
            })
        }),
        gpu(|p| {
            let g = geometry(p, p.dims(0))?;
            Ok(crate::gpu::pool(p, "MaxPoolStoreArgmax", &g, &[0]))
        }),
    ],
};

/// Adds the gradient of each window at the stored index.
pub static MAX_POOL_GRAD_STORED_ARGMAX: Op = Op {
    def: OpDef {
        name: "_MaxPoolGradStoredArgmax",
        summary: "The gradient of each window, at the stored index.",
        inputs: &[arg("grad", "T"), arg_of("which", DType::U8)],
        outputs: &[arg("output", "T")],
        attrs: FLOAT_ATTRS,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let g = geometry(p, p.output_dims(0))?;
            dispatch!(p.dtype(0), FLOATS, T => Ok(pool_kernel(g, move |cx| {
                max_pool_grad_stored_argmax::<T>(slice_cpu(cx.cpu()), &g, cx.input(0)?, cx.input(1)?, cx.output(0)?);
                Ok(())
            })), else Err(KernelError::DType(p.dtype(0))))
        }),
        gpu(|p| {
            let g = geometry(p, p.output_dims(0))?;
            Ok(crate::gpu::pool(p, "MaxPoolGradStoredArgmax", &g, &[0, 1]))
        }),
    ],
};
