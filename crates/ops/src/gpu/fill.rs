//! GPU launches of Fill, ZerosLike, OnesLike, Range, Cast, SelectV2, OneHot and AddN, and of broadcasts of one input.

use bytemuck::NoUninit;
use thalweg_device::gpu::{Arg, Launch, Launches};
use thalweg_device::{KernelError, Prepare};
use thalweg_tensor::DType;

use super::elementwise::to_struct;
use super::sources::{BINARY, CAST, FILL, UNARY};
use super::strided_copy::{by_size, strided_copy};
use crate::support::elementwise::Walk;
use crate::support::strided_copy::{CopyAxis, StridedCopy, steps};

/// Fills the output with input 1.
pub(crate) fn fill(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let n = p.outputs[0].elements();
    let launch = Launch::over(n, &FILL, "Fill", &[by_size(p.dtype(1))?]);
    Ok(launch.input(1).output(0).indices(&[n]).into())
}

/// Fills the output with zeros.
pub(crate) fn zeros(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let n = p.outputs[0].elements();
    let launch = Launch::over(n, &FILL, "ZerosLike", &[by_size(p.dtype(0))?]);
    Ok(launch.output(0).indices(&[n]).into())
}

/// Fills output `i` with zeros.
pub(crate) fn zero(p: &Prepare<'_>, i: usize) -> Result<Launch, KernelError> {
    let output = p.outputs.get(i).ok_or(KernelError::Argument("an output"))?;
    let n = output.elements();
    let launch = Launch::over(n, &FILL, "ZerosLike", &[by_size(output.dtype)?]);
    Ok(launch.output(i).indices(&[n]))
}

/// Fills the output with ones.
pub(crate) fn ones(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let n = p.outputs[0].elements();
    let launch = Launch::over(n, &UNARY, "OnesLike", &[p.dtype(0)]);
    Ok(launch.output(0).indices(&[n]).into())
}

/// Numbers from `start` on, in steps of `delta`.
pub(crate) fn range<T: NoUninit>(p: &Prepare<'_>, start: T, delta: T) -> Launches {
    let n = p.outputs[0].elements();
    let launch = Launch::over(n, &UNARY, "Range", &[p.outputs[0].dtype]);
    let launch = launch.output(0).indices(&[n]);
    launch.value(start).value(delta).into()
}

/// Input 0 as another dtype.
pub(crate) fn cast(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let n = p.outputs[0].elements();
    let name = match p.outputs[0].dtype {
        DType::F16 => "Cast_f16",
        DType::BF16 => "Cast_bf16",
        DType::F32 => "Cast_f32",
        DType::F64 => "Cast_f64",
        DType::I8 => "Cast_i8",
        DType::I16 => "Cast_i16",
        DType::I32 => "Cast_i32",
        DType::I64 => "Cast_i64",
        DType::U8 => "Cast_u8",
        DType::U16 => "Cast_u16",
        DType::U32 => "Cast_u32",
        DType::U64 => "Cast_u64",
        DType::Bool => "Cast_bool",
        other => return Err(KernelError::DType(other)),
    };
    let launch = Launch::over(n, &CAST, name, &[p.dtype(0)]);
    let launch = launch.input(0).output(0).indices(&[n]);
    Ok(launch.multi_tensor().into())
}

/// Selects from inputs 1 and 2 by the condition in input 0, with broadcasting.
pub(crate) fn select(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let (n, out) = (p.outputs[0].elements(), p.output_dims(0));
    let walk = |i: usize| to_struct(&Walk::new(p.dims(0), p.dims(i), out));
    let launch = Launch::over(n, &FILL, "Select", &[by_size(p.dtype(1))?])
        .input(0)
        .input(1)
        .input(2)
        .output(0)
        .indices(&[n])
        .indices(&walk(1)?)
        .indices(&walk(2)?);
    Ok(launch.into())
}

/// Selects from inputs 1 and 2 by the condition in input 0: whole slices, where the condition has fewer elements.
pub(crate) fn select_slices(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let n = p.outputs[0].elements();
    let each = n / p.inputs[0].elements().max(1);
    let launch = Launch::over(n, &FILL, "SelectSlices", &[by_size(p.dtype(1))?])
        .input(0)
        .input(1)
        .input(2)
        .output(0)
        .indices(&[n])
        .indices(&[each.max(1)]);
    Ok(launch.into())
}

/// The band of matrices, with so many diagonals below and above the main one.
pub(crate) fn band_part(
    p: &Prepare<'_>,
    [rows, columns]: [usize; 2],
    [lower, upper]: [i64; 2],
) -> Result<Launches, KernelError> {
    let n = p.outputs[0].elements();
    let launch = Launch::over(n, &FILL, "MatrixBandPart", &[by_size(p.dtype(0))?])
        .input(0)
        .output(0)
        .indices(&[n])
        .indices(&[rows])
        .indices(&[columns])
        .value(lower)
        .value(upper);
    Ok(launch.into())
}

/// Rows with input 2 at the index from input 0, and input 3 elsewhere.
pub(crate) fn one_hot(
    p: &Prepare<'_>,
    depth: usize,
    inner: usize,
) -> Result<Launches, KernelError> {
    let n = p.outputs[0].elements();
    let launch = Launch::over(n, &FILL, "OneHot", &[by_size(p.dtype(2))?, p.dtype(0)])
        .input(0)
        .input(2)
        .input(3)
        .output(0)
        .indices(&[n])
        .indices(&[depth])
        .indices(&[inner]);
    Ok(launch.into())
}

/// Sum of all inputs, from the first to the last.
pub(crate) fn add_n(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let n = p.outputs[0].elements();
    let walk = to_struct(&Walk::new(&[n], &[n], &[n]))?;
    let mut launches = Launches::default();
    for i in 1..p.inputs.len() {
        // The first launch adds the first two inputs, the others are added to the output.
        let left = if i == 1 {
            Arg::Input(0)
        } else {
            Arg::Output(0)
        };
        let launch = Launch::over(n, &BINARY, "AddV2", &[p.dtype(0)])
            .arg(left)
            .input(i)
            .output(0)
            .indices(&[n])
            .indices(&walk);
        launches.list.push(launch);
    }
    if p.inputs.len() == 1 {
        return repeated(p);
    }
    Ok(launches)
}

/// Gradient of Relu for the sum of inputs 0 and 1, with the features in input 2.
pub(crate) fn relu_grad_sum(p: &Prepare<'_>) -> Launches {
    let n = p.outputs[0].elements();
    let launch = Launch::over(n, &BINARY, "ReluGradSum", &[p.dtype(0)]);
    let launch = (0..3).fold(launch, Launch::input);
    launch.output(0).indices(&[n]).into()
}

/// Broadcasts input 0 to the output's shape.
pub(crate) fn repeated(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let (own, out) = (p.dims(0), p.output_dims(0));
    let (read, write) = (steps(own), steps(out));
    let new = out.len() - own.len();
    let axes: Vec<CopyAxis> = (0..out.len())
        .map(|i| CopyAxis {
            len: out[i],
            from: match i.checked_sub(new) {
                Some(k) if own[k] != 1 => read[k],
                _ => 0,
            },
            to: write[i],
        })
        .collect();
    let all = StridedCopy::new(0, 0, &axes)?;
    match all.is_empty() {
        true => Ok(Launches::default()),
        false => Ok(strided_copy(p.dtype(0), &all, Some(Arg::Input(0)), Arg::Output(0))?.into()),
    }
}
