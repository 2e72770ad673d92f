//! TemporaryVariable, DestroyTemporaryVariable, _TakeVariable: a variable for the sum of one step.

use thalweg_device::{Op, cpu_tensors};
use thalweg_graph::op::{AttrDef, Effect, Gradient, arg, arg_of, attr, str_attr, type_attr};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::DType;

/// Makes a variable. It is the session's, as the graph's others are: steps that run at one time share it.
pub(crate) static TEMPORARY_VARIABLE: Op = Op {
    def: OpDef {
        name: "TemporaryVariable",
        summary: "A variable without a value, as a reference to it.",
        outputs: &[arg("ref", "dtype").reference()],
        attrs: &[
            attr("shape", AttrKind::Shape),
            type_attr("dtype", &DType::ALL),
            str_attr("var_name", "", &[]),
        ],
        shape: |cx| {
            let (dtype, shape) = (cx.attrs().dtype("dtype"), cx.attrs().shape("shape"));
            cx.set_variable(0, dtype.unwrap_or(DType::F32), shape);
            Ok(())
        },
        gradient: Gradient::None,
        effect: Effect::Handle,
        on_handles: Some(super::var_handle::VAR_HANDLE.def.name),
        ..OpDef::EMPTY
    },
    kernels: &[],
};

fn value_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    cx.set(0, cx.variable_shape(0));
    Ok(())
}

const T: AttrDef = type_attr("T", &DType::ALL);

const TAKE_DEF: OpDef = OpDef {
    name: "_TakeVariable",
    summary: "The value of a variable, which then has none.",
    inputs: &[arg_of("resource", DType::Resource)],
    outputs: &[arg("value", "T")],
    attrs: &[T],
    shape: value_shape,
    gradient: Gradient::None,
    effect: Effect::Write,
    ..OpDef::EMPTY
};

/// Takes a variable's value away.
pub(crate) static TAKE: Op = Op {
    def: TAKE_DEF,
    kernels: &[cpu_tensors(|cx| {
        let variable = cx.variable(0)?;
        let value = variable.read()?;
        *variable.lock() = None;
        Ok(vec![value])
    })],
};

/// Ends a variable.
pub(crate) static DESTROY_TEMPORARY_VARIABLE: Op = Op {
    def: OpDef {
        name: "DestroyTemporaryVariable",
        inputs: &[arg("ref", "T").reference()],
        attrs: &[T, attr("var_name", AttrKind::Str)],
        on_handles: Some(TAKE_DEF.name),
        ..TAKE_DEF
    },
    kernels: &[],
};
