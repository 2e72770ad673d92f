//! ResourceConditionalAccumulator, ResourceAccumulatorApplyGradient, ResourceAccumulatorTakeGradient,
//! ResourceAccumulatorNumAccumulated, ResourceAccumulatorSetGlobalStep; and _SparseConditionalAccumulator,
//! _SparseAccumulatorApplyGradient, _SparseAccumulatorTakeGradient, which TensorFlow has on references alone.

use std::sync::{Arc, Mutex};

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, AttrDef, Effect, Gradient, arg, arg_of, attr, str_attr, type_attr};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

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

/// Attributes of an accumulator.
pub(super) const ACCUMULATOR_ATTRS: &[AttrDef] = &[
    type_attr("dtype", DType::NUMBERS),
    attr("shape", AttrKind::Shape),
    str_attr("container", "", &[]),
    str_attr("shared_name", "", &[]),
    str_attr("reduction_type", "MEAN", &["MEAN", "SUM"]),
];

fn create(cx: &TensorCx<'_>, sparse: bool) -> Result<Vec<Tensor>, KernelError> {
    resource_handle(cx, &|_| {
        Ok(Arc::new(Accumulator {
            dtype: cx.attrs().dtype("dtype").unwrap_or(DType::F32),
            shape: cx.attrs().shape("shape"),
            mean: cx.attrs().str("reduction_type") == "MEAN",
            sparse,
            state: Mutex::new(AccumulatorState::default()),
        }))
    })
}

/// Removes the sum or mean of an accumulator of this kind.
fn take(cx: &TensorCx<'_>, sparse: bool) -> Result<Vec<Tensor>, KernelError> {
    let accumulator = accumulator(cx)?;
    match accumulator.sparse == sparse {
        true => accumulator.take(cx, cx.int(1)?),
        false => Err(KernelError::Invalid(
            "the op takes whole gradients and the accumulator has rows of them, or the other way round".to_owned(),
        )),
    }
}

/// Creates an accumulator.
pub(crate) static ACCUMULATOR: Op = Op {
    def: OpDef {
        name: "ResourceConditionalAccumulator",
        summary: "Adds up gradients until they are taken; drops those of earlier steps.",
        outputs: &[HANDLE],
        attrs: ACCUMULATOR_ATTRS,
        shape: crate::support::shapes::scalar,
        ..ACCUMULATOR_OP
    },
    kernels: &[cpu_tensors(|cx| create(cx, false))],
};

/// Creates an accumulator of rows.
pub(crate) static SPARSE_ACCUMULATOR: Op = Op {
    def: OpDef {
        name: "_SparseConditionalAccumulator",
        summary: "Adds up rows of gradients until they are taken; drops those of earlier steps.",
        ..ACCUMULATOR.def
    },
    kernels: &[cpu_tensors(|cx| create(cx, true))],
};

/// Attributes of the op that adds rows of a gradient.
pub(super) const APPLY_ROWS_ATTRS: &[AttrDef] = &[
    type_attr("dtype", DType::NUMBERS),
    attr("has_known_shape", AttrKind::Bool),
];

/// Adds rows of a gradient.
pub(crate) static APPLY_SPARSE_GRADIENT: Op = Op {
    def: OpDef {
        name: "_SparseAccumulatorApplyGradient",
        summary: "Adds rows of a gradient to an accumulator, unless its step is over.",
        inputs: &[
            HANDLE,
            arg_of("local_step", DType::I64),
            arg_of("gradient_indices", DType::I64),
            arg("gradient_values", "dtype"),
            arg_of("gradient_shape", DType::I64),
        ],
        attrs: APPLY_ROWS_ATTRS,
        ..ACCUMULATOR_OP
    },
    kernels: &[cpu_tensors(|cx| {
        accumulator(cx)?.apply_rows(cx, cx.int(1)?)?;
        Ok(Vec::new())
    })],
};

/// Rows of a gradient.
pub(super) const ROWS_OUT: &[Arg] = &[
    arg_of("indices", DType::I64),
    arg("values", "dtype"),
    arg_of("shape", DType::I64),
];

/// Removes the sum or mean of rows.
pub(crate) static TAKE_SPARSE_GRADIENT: Op = Op {
    def: OpDef {
        name: "_SparseAccumulatorTakeGradient",
        summary: "Removes the mean or sum of the rows of gradients as soon as there are enough.",
        inputs: &[HANDLE, arg_of("num_required", DType::I32)],
        outputs: ROWS_OUT,
        attrs: &[type_attr("dtype", DType::NUMBERS)],
        shape: |cx| {
            cx.set(0, Shape::of_rank(1));
            cx.set(2, Shape::of_rank(1));
            Ok(())
        },
        effect: Effect::Blocking,
        ..ACCUMULATOR_OP
    },
    kernels: &[cpu_tensors(|cx| take(cx, true))],
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
    kernels: &[cpu_tensors(|cx| take(cx, false))],
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
