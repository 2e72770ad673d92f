//! ToBool.

use thalweg_device::{Op, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, type_attr};
use thalweg_tensor::{DType, Shape, dispatch};

/// A value as a condition.
pub(crate) static TO_BOOL: Op = Op {
    def: OpDef {
        name: "ToBool",
        summary: "true for a scalar that is not zero, for a string that is not empty, and for another tensor that has elements.",
        inputs: &[arg("input", "T")],
        outputs: &[arg_of("output", DType::Bool)],
        attrs: &[type_attr("T", DType::ELEMENTS)],
        shape: |cx| {
            cx.set(0, Shape::scalar());
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let input = cx.tensor(0)?;
        let holds = match input.dtype() {
            _ if !input.dims().is_empty() => !input.is_empty(),
            DType::String => cx.strings(0)?.iter().any(|s| !s.is_empty()),
            dtype => dispatch!(dtype, PLAIN, T => {
                cx.slice::<T>(0)?.iter().any(|x| *x != T::default())
            }, else return Err(thalweg_device::KernelError::DType(dtype))),
        };
        Ok(vec![cx.tensor_of(&[], &[holds])?])
    })],
};
