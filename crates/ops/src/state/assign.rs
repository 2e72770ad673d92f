//! AssignVariableOp, AssignAddVariableOp, AssignSubVariableOp.

use thalweg_device::{
    KernelCx, KernelError, Op, Prepare, Prepared, Variable, cpu, cpu_tensors, gpu,
};
use thalweg_graph::op::{Effect, Gradient, arg, arg_of, bool_attr, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::var_handle::expect_dtype;
use crate::support::elementwise::CHUNK;
use crate::support::join_rows::{JoinRows, join_each};
use crate::support::numbered_elements::OPAQUE;
use crate::support::tensors::bytes_mut;
use thalweg_cpu::number::Arithmetic;
use thalweg_cpu::parallel::for_chunks;

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let variable = expect_dtype(cx, "dtype")?;
    match variable.merge(cx.shape(1)) {
        Some(_) => Ok(()),
        None => Err(InferError::Mismatch {
            what: "the value must have the variable's shape".to_owned(),
            left: cx.shape(1).clone(),
            right: variable,
        }),
    }
}

/// Assigns a value to a variable.
pub(crate) static ASSIGN: Op = Op {
    def: OpDef {
        name: "AssignVariableOp",
        summary: "Assigns a value to a variable.",
        inputs: &[arg_of("resource", DType::Resource), arg("value", "dtype")],
        attrs: &[
            type_attr("dtype", &DType::ALL),
            bool_attr("validate_shape", false),
        ],
        shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| Ok(assign(p))).only(&[("dtype", DType::PLAIN)]),
        cpu_tensors(|cx| {
            let (variable, value) = (cx.variable(0)?, cx.held(1)?);
            if cx.attrs().bool("validate_shape") {
                expect_shape(variable, value.dims())?;
            }
            variable.assign(value)?;
            Ok(Vec::new())
        })
        .only(&[("dtype", OPAQUE)]),
        gpu(crate::gpu::assign),
    ],
};

/// Fails if the variable has a value of other dimensions.
fn expect_shape(variable: &Variable, dims: &[usize]) -> Result<(), KernelError> {
    match variable.lock().as_ref() {
        Some(held) if held.dims() != dims => Err(KernelError::Variable {
            variable: variable.name().to_owned(),
            expected_dtype: held.dtype(),
            expected: held.shape(),
            found_dtype: variable.dtype(),
            found: Shape::known(dims),
        }),
        _ => Ok(()),
    }
}

/// Overwrites a tensor's elements by `bytes`.
fn overwrite(tensor: &mut Tensor, bytes: &[u8]) -> Result<(), KernelError> {
    match tensor.dtype() {
        DType::Bool => {
            let bools = bytemuck::checked::try_cast_slice::<u8, bool>(bytes);
            let bools = bools.map_err(|_| KernelError::Argument("bools"))?;
            tensor.as_mut_slice::<bool>()?.copy_from_slice(bools);
        }
        dtype => bytes_mut(tensor, dtype)?.copy_from_slice(bytes),
    }
    Ok(())
}

fn assign(p: &Prepare<'_>) -> Prepared {
    let dtype = p.dtype(1);
    let dims: Vec<usize> = p.dims(1).to_vec();
    let validate = p.node.attrs.bool("validate_shape");
    Prepared::new(p.inputs[1].elements(), move |cx| {
        let (value, variable) = (cx.input_bytes(1)?, cx.variable(0)?);
        {
            // Reuses the variable's buffer, unless something else holds it.
            let mut held = variable.lock();
            if let Some(old) = held.as_mut()
                && old.dims() == &dims[..]
                && old.dtype() == dtype
            {
                return match variable.successor(old)? {
                    None => overwrite(old, value),
                    Some(mut next) => {
                        overwrite(&mut next, value)?;
                        variable.keep_spare(std::mem::replace(old, next));
                        Ok(())
                    }
                };
            }
        }
        if validate {
            expect_shape(variable, &dims)?;
        }
        let memory = Some(cx.cpu().memory());
        variable.assign(Tensor::from_bytes_in(dtype, &dims, value, memory)?)
    })
}

/// Adds to a variable.
pub(crate) static ASSIGN_ADD: Op = Op {
    def: OpDef {
        name: "AssignAddVariableOp",
        summary: "Adds to the value of a variable.",
        inputs: &[arg_of("resource", DType::Resource), arg("value", "dtype")],
        attrs: &[type_attr("dtype", DType::ALL_NUMBERS)],
        shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(
            |p| dispatch!(p.dtype(1), ALL_NUMBERS, T => Ok(accumulate::<T>(p, |to, from| join_each(to, from, T::add))), else Err(KernelError::DType(p.dtype(1)))),
        ),
        gpu(|p| crate::gpu::assign_by(p, "AddV2")),
    ],
};

/// Subtracts from a variable.
pub(crate) static ASSIGN_SUB: Op = Op {
    def: OpDef {
        name: "AssignSubVariableOp",
        summary: "Subtracts from the value of a variable.",
        inputs: &[arg_of("resource", DType::Resource), arg("value", "dtype")],
        attrs: &[type_attr("dtype", DType::ALL_NUMBERS)],
        shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(
            |p| dispatch!(p.dtype(1), ALL_NUMBERS, T => Ok(accumulate::<T>(p, |to, from| join_each(to, from, T::sub))), else Err(KernelError::DType(p.dtype(1)))),
        ),
        gpu(|p| crate::gpu::assign_by(p, "Sub")),
    ],
};

fn accumulate<T: Arithmetic>(p: &Prepare<'_>, join: JoinRows<T>) -> Prepared {
    Prepared::new(p.inputs[1].elements(), move |cx: &KernelCx<'_>| {
        let value = cx.input::<T>(1)?;
        cx.update::<T, 1>([0], |[variable]| {
            if variable.len() != value.len() {
                return Err(KernelError::Invalid(format!(
                    "the value has {}, the variable {}: give it the variable's shape",
                    counted(value.len(), "element"),
                    variable.len()
                )));
            }
            for_chunks(cx.pool(), variable, CHUNK, &|task, part| {
                join(part, &value[task * CHUNK..][..part.len()]);
            });
            Ok(())
        })
    })
}
