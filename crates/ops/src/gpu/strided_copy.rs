//! GPU launches of strided copies.

use smallvec::SmallVec;
use thalweg_device::KernelError;
use thalweg_device::gpu::{Arg, Launch};
use thalweg_tensor::DType;

use super::sources::STRIDED_COPY;
use crate::support::strided_copy::StridedCopy;

/// Maximum number of axes of a box in `kernels/strided_copy.cu`, after those with equal strides are merged.
const MAX_AXES: usize = 12;

/// Unsigned integer type of this size: copies depend on the size of an element only.
pub(super) fn by_size(dtype: DType) -> Result<DType, KernelError> {
    match dtype.size() {
        1 => Ok(DType::U8),
        2 => Ok(DType::U16),
        4 => Ok(DType::U32),
        8 => Ok(DType::U64),
        _ => Err(KernelError::DType(dtype)),
    }
}

/// Copies a box from a source, or zeros, to a destination.
pub(crate) fn strided_copy(
    dtype: DType,
    moved: &StridedCopy,
    source: Option<Arg>,
    target: Arg,
) -> Result<Launch, KernelError> {
    let (axes, from, to) = moved.layout();
    if axes.len() > MAX_AXES {
        return Err(KernelError::Invalid(format!(
            "its elements move along {} axes that no two can be taken together of; a GPU's kernel \
             takes {MAX_AXES}: Reshape, or place it on a CPU",
            axes.len()
        )));
    }
    let elements = axes.iter().map(|a| a.len).product();
    let name = if source.is_some() { "Move" } else { "Zero" };
    let mut launch = Launch::over(elements, &STRIDED_COPY, name, &[by_size(dtype)?]);
    let reads = source.is_some();
    launch.args.extend(source);
    launch = launch.arg(target).indices(&[elements]);
    launch = match reads {
        true => launch.value(from as i64).value(to as i64),
        false => launch.value(to as i64),
    };
    Ok(with_box(launch, &axes))
}

/// Adds `struct Box` of `kernels/strided_copy.cu` as the last argument.
fn with_box(launch: Launch, axes: &[crate::support::strided_copy::CopyAxis]) -> Launch {
    let mut lens = [0; 1 + MAX_AXES];
    let mut steps = [0i64; 2 * MAX_AXES];
    lens[0] = axes.len();
    for (i, axis) in axes.iter().enumerate() {
        lens[1 + i] = axis.len;
        steps[i] = axis.from as i64;
        steps[MAX_AXES + i] = axis.to as i64;
    }
    // There is an odd number of 4-byte indices; the steps after them are aligned to 8 bytes.
    let mut bytes: SmallVec<[u8; 16]> = launch.index_bytes(&lens);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend_from_slice(bytemuck::bytes_of(&steps));
    launch.arg(Arg::Value(bytes))
}
