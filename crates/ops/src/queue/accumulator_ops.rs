//! ResourceConditionalAccumulator, ResourceAccumulatorApplyGradient, ResourceAccumulatorTakeGradient,
//! ResourceAccumulatorNumAccumulated, ResourceAccumulatorSetGlobalStep.

use std::sync::{Arc, Mutex};

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, Effect, Gradient, arg, arg_of, attr, str_attr, type_attr};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::{DType, Tensor};

use super::accumulator::{Accumulator, AccumulatorState};
use super::queues::resource_handle;

const HANDLE: Arg = arg_of("handle", DType::Resource);

/// Base definition of an op on accumulators.
const ACCUMULATOR_OP: OpDef = OpDef {
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

fn accumulator(cx: &TensorCx<'_>) -> Result<Arc<Accumulator>, KernelError> {
    cx.object::<Accumulator>(0)
}

/// Creates an accumulator.
pub(crate) static ACCUMULATOR: Op = Op {
    def: OpDef {
        name: "ResourceConditionalAccumulator",
        summary: "Adds up gradients until they are taken; drops those of earlier steps.",
        outputs: &[HANDLE],
        attrs: &[
            type_attr("dtype", DType::NUMBERS),
            attr("shape", AttrKind::Shape),
            str_attr("container", "", &[]),
            str_attr("shared_name", "", &[]),
            str_attr("reduction_type", "MEAN", &["MEAN", "SUM"]),
        ],
        shape: crate::support::shapes::scalar,
        ..ACCUMULATOR_OP
    },
    kernels: &[cpu_tensors(|cx| {
        resource_handle(cx, &|_| {
            Ok(Arc::new(Accumulator {
                dtype: cx.attrs().dtype("dtype").unwrap_or(DType::F32),
                shape: cx.attrs().shape("shape"),
                mean: cx.attrs().str("reduction_type") == "MEAN",
                state: Mutex::new(AccumulatorState::default()),
            }))
        })
    })],
};

/// Adds a gradient.
pub(crate) static APPLY_GRADIENT: Op = Op {
    def: OpDef {
        name: "ResourceAccumulatorApplyGradient",
        summary: "Adds a gradient to an accumulator, unless its step is over.",
        inputs: &[
            HANDLE,
            arg_of("local_step", DType::I64),
            arg("gradient", "dtype"),
        ],
        attrs: &[type_attr("dtype", DType::NUMBERS)],
        ..ACCUMULATOR_OP
    },
    kernels: &[cpu_tensors(|cx| {
        accumulator(cx)?.apply(cx.int(1)?, cx.tensor(2)?)?;
        Ok(Vec::new())
    })],
};

/// Removes the sum or mean.
pub(crate) static TAKE_GRADIENT: Op = Op {
    def: OpDef {
        name: "ResourceAccumulatorTakeGradient",
        summary: "Removes the mean or sum of the gradients as soon as there are enough.",
        inputs: &[HANDLE, arg_of("num_required", DType::I32)],
        outputs: &[arg("average", "dtype")],
        attrs: &[type_attr("dtype", DType::NUMBERS)],
        effect: Effect::Blocking,
        ..ACCUMULATOR_OP
    },
    kernels: &[cpu_tensors(|cx| {
        Ok(vec![accumulator(cx)?.take(cx, cx.int(1)?)?])
    })],
};

/// Number of gradients accumulated so far.
pub(crate) static NUM_ACCUMULATED: Op = Op {
    def: OpDef {
        name: "ResourceAccumulatorNumAccumulated",
        summary: "The number of gradients since the last were taken.",
        inputs: &[HANDLE],
        outputs: &[arg_of("num_accumulated", DType::I32)],
        shape: crate::support::shapes::scalar,
        ..ACCUMULATOR_OP
    },
    kernels: &[cpu_tensors(|cx| {
        Ok(vec![Tensor::scalar(accumulator(cx)?.count() as i32)])
    })],
};

/// Sets the current step, below which gradients are dropped.
pub(crate) static SET_GLOBAL_STEP: Op = Op {
    def: OpDef {
        name: "ResourceAccumulatorSetGlobalStep",
        summary: "Sets the current step: gradients of earlier ones are dropped.",
        inputs: &[HANDLE, arg_of("new_global_step", DType::I64)],
        ..ACCUMULATOR_OP
    },
    kernels: &[cpu_tensors(|cx| {
        accumulator(cx)?.set_step(cx.int(1)?);
        Ok(Vec::new())
    })],
};
