//! SetSize.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, type_attr};
use thalweg_tensor::{DType, Tensor, dispatch};

use super::members::Member;
use super::operand::{MEMBERS, Operand, VALIDATE, groups};

/// Number of distinct members of each set.
pub(crate) static SET_SIZE: Op = Op {
    def: OpDef {
        name: "SetSize",
        summary: "The number of distinct members of each set along the last dimension of a sparse tensor.",
        inputs: &[
            arg_of("set_indices", DType::I64),
            arg("set_values", "T"),
            arg_of("set_shape", DType::I64),
        ],
        outputs: &[arg_of("size", DType::I32)],
        attrs: &[VALIDATE, type_attr("T", MEMBERS)],
        shape: |cx| {
            let shape = Operand::Sparse(0).shape(cx)?;
            cx.set(0, groups(&shape));
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(sizes)],
};

/// Sizes of the sets.
fn sizes(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let set = Operand::Sparse(0);
    let values = cx.tensor(set.values())?;
    if values.dtype() == DType::String {
        let strings = cx.strings(set.values())?.iter();
        return counts(cx, &set.members(cx, strings)?);
    }
    dispatch!(values.dtype(), [I8 I16 I32 I64 U8 U16], T => {
        let numbers = cx.slice::<T>(set.values())?.iter().copied();
        counts(cx, &set.members(cx, numbers)?)
    }, else Err(KernelError::DType(values.dtype())))
}

fn counts<T>(cx: &TensorCx<'_>, members: &[Member<T>]) -> Result<Vec<Tensor>, KernelError> {
    let mut dims = Operand::Sparse(0).dims(cx)?;
    dims.pop();
    let mut counts = cx.zeros(DType::I32, &dims)?;
    let to = counts.as_mut_slice::<i32>()?;
    for member in members {
        // A set may have more members than an i32 counts only with 2^31 values: it stays at that maximum.
        to[member.set] = to[member.set].saturating_add(1);
    }
    Ok(vec![counts])
}
