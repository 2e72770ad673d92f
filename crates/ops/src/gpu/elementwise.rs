//! GPU launches of elementwise ops.

use thalweg_device::gpu::{Arg, Fault, Launch, Launches};
use thalweg_device::{KernelError, Prepare};

use super::sources::{BINARY, UNARY};
use crate::support::elementwise::Walk;

/// Maximum number of dimensions of a walk in `kernels/thalweg.cuh`, after those with equal strides
/// are merged.
const MAX_DIMS: usize = 8;

/// `out[i] = f(in[i])` by the function of `kernels/unary.cu` with the op's name.
pub(crate) fn unary(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let elements = p.outputs[0].elements();
    let launch = Launch::over(elements, &UNARY, p.node.op.name, &[p.dtype(0)])
        .input(0)
        .output(0)
        .indices(&[elements]);
    Ok(with_alpha(p, launch).into())
}

/// CheckNumerics: the input, or an error at an element that is not finite.
pub(crate) fn check_numerics(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let mut launches = unary(p)?;
    for launch in &mut launches.list {
        launch.args.push(Arg::Status);
    }
    let message = p.node.attrs.str("message");
    launches.fault = Some(Fault {
        input: 0,
        reason: format!("{message} : Tensor had Inf or NaN values"),
    });
    Ok(launches)
}

/// ClipByValue.
pub(crate) fn clip(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let n = p.outputs[0].elements();
    let each = |i: usize| usize::from(!p.dims(i).is_empty());
    let launch = Launch::over(n, &BINARY, "ClipByValue", &[p.dtype(0)])
        .input(0)
        .input(1)
        .input(2)
        .output(0)
        .indices(&[n])
        .indices(&[each(1)])
        .indices(&[each(2)]);
    Ok(launch.into())
}

/// `out = f(a, b)` with broadcasting, by the function of `kernels/binary.cu` with the op's name.
pub(crate) fn binary(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    binary_as(p, p.node.op.name)
}

/// Like [`binary`] for integers, after a check of all of input 1 by the function `check` of `kernels/binary.cu`;
/// elements that it refuses are errors with this reason.
pub(crate) fn checked(
    p: &Prepare<'_>,
    check: &'static str,
    reason: &'static str,
) -> Result<Launches, KernelError> {
    if p.outputs[0].elements() == 0 {
        return binary(p);
    }
    let n = p.inputs[1].elements();
    let first = Launch::over(n, &BINARY, check, &[p.dtype(1)])
        .input(1)
        .indices(&[n])
        .arg(Arg::Status);
    let mut launches = binary(p)?;
    // A launch of its own: even if the output is in place of an input, all of that is still there.
    launches.list.insert(0, first);
    launches.fault = Some(Fault {
        input: 1,
        reason: reason.to_owned(),
    });
    Ok(launches)
}

/// Like [`binary`], by the function of this name.
pub(crate) fn binary_as(p: &Prepare<'_>, name: &'static str) -> Result<Launches, KernelError> {
    broadcast(p, name, [p.dims(0), p.dims(1), p.output_dims(0)])
}

/// Like [`binary_as`], with these dimensions for the inputs and the output.
pub(crate) fn broadcast(
    p: &Prepare<'_>,
    name: &'static str,
    [a, b, out]: [&[usize]; 3],
) -> Result<Launches, KernelError> {
    let elements = p.outputs[0].elements();
    let walk = Walk::new(a, b, out);
    let launch = Launch::over(elements, &BINARY, name, &[p.dtype(0)])
        .input(0)
        .input(1)
        .output(0)
        .indices(&[elements])
        .indices(&to_struct(&walk)?);
    Ok(with_alpha(p, launch).into())
}

/// Adds attribute `alpha`, if the op has it, as the last argument.
fn with_alpha(p: &Prepare<'_>, launch: Launch) -> Launch {
    match p.node.attrs.get("alpha") {
        Some(_) => launch.value(p.node.attrs.float("alpha")),
        None => launch,
    }
}

/// A walk as `struct Walk` of `kernels/thalweg.cuh`.
pub(super) fn to_struct(walk: &Walk) -> Result<[usize; 1 + 3 * MAX_DIMS], KernelError> {
    let rank = walk.rank();
    if rank > MAX_DIMS {
        return Err(KernelError::Invalid(format!(
            "its inputs broadcast along {rank} dimensions that no two can be taken together of; a \
             GPU's kernel takes {MAX_DIMS}: Reshape them, or place it on a CPU"
        )));
    }
    let mut all = [0; 1 + 3 * MAX_DIMS];
    all[0] = rank;
    for (i, (len, [a, b])) in walk.dims().enumerate() {
        all[1 + i] = len;
        all[1 + MAX_DIMS + i] = a;
        all[1 + 2 * MAX_DIMS + i] = b;
    }
    Ok(all)
}
