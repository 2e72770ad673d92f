//! GPU launches on variables: assignments, and the steps of optimizers.

use thalweg_device::gpu::{Arg, Launch, Launches};
use thalweg_device::{KernelError, Prepare};
use thalweg_tensor::DType;

use super::elementwise::to_struct;
use super::sources::{BINARY, OPTIMIZER};
use super::strided_copy::strided_copy;
use crate::support::elementwise::Walk;
use crate::support::strided_copy::{CopyAxis, StridedCopy};

/// Assigns input 1 to variable 0.
pub(crate) fn assign(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let all = CopyAxis {
        len: p.inputs[1].elements(),
        from: 1,
        to: 1,
    };
    let all = StridedCopy::new(0, 0, &[all])?;
    let mut launches = Launches {
        assigns: true,
        ..Launches::default()
    };
    if !all.is_empty() {
        let launch = strided_copy(p.dtype(1), &all, Some(Arg::Input(1)), Arg::Variable(0))?;
        launches.list.push(launch);
    }
    Ok(launches)
}

/// Updates variable 0 by input 1 and a function of `kernels/binary.cu`.
pub(crate) fn assign_by(p: &Prepare<'_>, name: &'static str) -> Result<Launches, KernelError> {
    let n = p.inputs[1].elements();
    let launch = Launch::over(n, &BINARY, name, &[p.dtype(1)])
        .arg(Arg::Variable(0))
        .input(1)
        .arg(Arg::Variable(0))
        .indices(&[n])
        .indices(&to_struct(&Walk::new(&[n], &[n], &[n]))?);
    Ok(launch.into())
}

/// Optimizer step by the function of `kernels/optimizer.cu` with the op's name.
pub(crate) fn step(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let is_grad = |arg: &thalweg_graph::op::Arg| matches!(arg.name, "grad" | "delta");
    let grad = p.node.op.inputs.iter().position(is_grad);
    let grad = grad.ok_or(KernelError::Argument("a gradient"))?;
    let n = p.inputs[grad].elements();
    let launch = Launch::over(n, &OPTIMIZER, p.node.op.name, &[p.dtype(grad)]);
    // No row numbers: all elements are updated.
    let launch = optimizer_arguments(p, launch, n, None)
        .value(0u64)
        .value(0u64)
        .indices(&[0])
        .indices(&[0])
        .indices(&[0])
        .value(0u64);
    Ok(launch.multi_tensor().into())
}

/// Adds the arguments of an optimizer's function: the inputs of its op but the indices, the number of elements, and a flag.
pub(super) fn optimizer_arguments(
    p: &Prepare<'_>,
    mut launch: Launch,
    n: usize,
    indices: Option<usize>,
) -> Launch {
    let inputs = p.node.op.inputs.iter().enumerate();
    for (i, arg) in inputs.filter(|(i, _)| Some(*i) != indices) {
        let variable = arg.ty == thalweg_graph::op::ArgType::Is(DType::Resource);
        launch = launch.arg(match variable {
            true => Arg::Variable(i),
            false => Arg::Input(i),
        });
    }
    launch = launch.indices(&[n]);
    let flags = ["use_nesterov", "update_slots", "multiply_linear_by_lr"];
    for flag in flags.iter().filter(|f| p.node.attrs.get(f).is_some()) {
        launch = launch.value(u32::from(p.node.attrs.bool(flag)));
    }
    launch
}
