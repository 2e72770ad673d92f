//! Assignments to variables.

use thalweg_device::{
    KernelCx, KernelError, Op, Prepare, Prepared, Variable, cpu, cpu_tensors, gpu,
};
use thalweg_graph::op::{Effect, Gradient, arg, arg_of, bool_attr, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Element, Shape, Tensor, dispatch};

use super::handle::expect_dtype;
use thalweg_cpu::number::Number;

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

/// Gives a variable a value.
pub(crate) static ASSIGN: Op = Op {
    def: OpDef {
        name: "AssignVariableOp",
        summary: "Gives a variable a value.",
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
        cpu(
            |p| dispatch!(p.dtype(1), PLAIN, T => Ok(assign::<T>(p)), else Err(KernelError::DType(p.dtype(1)))),
        )
        .only(&[("dtype", DType::PLAIN)]),
        cpu_tensors(|cx| {
            let (variable, value) = (cx.variable(0)?, cx.tensor(1)?);
            if cx.attrs().bool("validate_shape") {
                expect_shape(variable, value.dims())?;
            }
            variable.assign(value.clone())?;
            Ok(Vec::new())
        })
        .only(&[("dtype", &[DType::String, DType::Variant])]),
        gpu(crate::gpu::assign),
    ],
};

/// A variable that has a value must have one of these dimensions.
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

fn assign<T: Element>(p: &Prepare<'_>) -> Prepared {
    let dims: Vec<usize> = p.dims(1).to_vec();
    let validate = p.node.attrs.bool("validate_shape");
    Prepared::new(p.inputs[1].elements(), move |cx| {
        let value = cx.input::<T>(1)?;
        let variable = cx.variable(0)?;
        {
            // In the buffer that it has, where nobody else holds that.
            let mut held = variable.lock();
            if let Some(old) = held.as_mut()
                && old.dims() == &dims[..]
                && old.dtype() == T::DTYPE
            {
                match old.successor()? {
                    None => old.as_mut_slice::<T>()?.copy_from_slice(value),
                    Some(mut next) => {
                        next.as_mut_slice::<T>()?.copy_from_slice(value);
                        *old = next;
                    }
                }
                return Ok(());
            }
        }
        if validate {
            expect_shape(variable, &dims)?;
        }
        let (bytes, memory) = (cx.input_bytes(1)?, Some(cx.cpu().memory()));
        variable.assign(Tensor::from_bytes_in(T::DTYPE, &dims, bytes, memory)?)
    })
}

/// Adds to a variable.
pub(crate) static ASSIGN_ADD: Op = Op {
    def: OpDef {
        name: "AssignAddVariableOp",
        summary: "Adds to the value of a variable.",
        inputs: &[arg_of("resource", DType::Resource), arg("value", "dtype")],
        attrs: &[type_attr("dtype", DType::NUMBERS)],
        shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(
            |p| dispatch!(p.dtype(1), NUMBERS, T => Ok(accumulate(p, T::add)), else Err(KernelError::DType(p.dtype(1)))),
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
        attrs: &[type_attr("dtype", DType::NUMBERS)],
        shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(
            |p| dispatch!(p.dtype(1), NUMBERS, T => Ok(accumulate(p, T::sub)), else Err(KernelError::DType(p.dtype(1)))),
        ),
        gpu(|p| crate::gpu::assign_by(p, "Sub")),
    ],
};

fn accumulate<T: Number>(p: &Prepare<'_>, f: fn(T, T) -> T) -> Prepared {
    Prepared::new(p.inputs[1].elements(), move |cx: &KernelCx<'_>| {
        let value = cx.input::<T>(1)?;
        cx.update::<T, 1>([0], |[variable]| {
            if variable.len() != value.len() {
                return Err(KernelError::Invalid(format!(
                    "the value has {} elements, the variable {}: give it the variable's shape",
                    value.len(),
                    variable.len()
                )));
            }
            for (v, &x) in variable.iter_mut().zip(value) {
                *v = f(*v, x);
            }
            Ok(())
        })
    })
}
