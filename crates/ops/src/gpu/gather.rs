//! GPU launches of gathers, of segment sums and of reversed sequences.

use thalweg_device::gpu::{Arg, Fault, Launch, Launches};
use thalweg_device::{KernelError, Prepare};
use thalweg_tensor::DType;

use super::sources::GATHER;
use super::strided_copy::by_size;

/// Gathers slices of input 0 by the indices in input 1: `[batch][outer][len][inner]` by
/// `[batch][count]`.
pub(crate) fn gather(
    p: &Prepare<'_>,
    [batch, outer, len, inner, count]: [usize; 5],
) -> Result<Launches, KernelError> {
    gather_of(
        p,
        (Arg::Input(0), p.dtype(0)),
        [batch, outer, len, inner, count],
    )
}

/// As [`gather`], of these parameters.
pub(crate) fn gather_of(
    p: &Prepare<'_>,
    (params, dtype): (Arg, DType),
    sizes: [usize; 5],
) -> Result<Launches, KernelError> {
    let len = sizes[2];
    let params = (params, by_size(dtype)?);
    let launch = gather_rows(p, params, (Arg::Input(1), p.dtype(1)), sizes, Arg::Status);
    Ok(Launches {
        fault: Some(Fault {
            input: 1,
            reason: format!("the index is not within 0..{len}"),
        }),
        ..launch.into()
    })
}

/// The launch of [`gather_of`], of elements of a size by these indices.
pub(super) fn gather_rows(
    p: &Prepare<'_>,
    (params, size): (Arg, DType),
    (indices, index_type): (Arg, DType),
    sizes: [usize; 5],
    status: Arg,
) -> Launch {
    let [batch, outer, len, inner, count] = sizes;
    let n = p.outputs[0].elements();
    let longest = n
        .max(batch * count)
        .max(batch * outer * len * inner)
        .max(len);
    Launch::over(longest, &GATHER, "GatherV2", &[size, index_type])
        .arg(params)
        .arg(indices)
        .output(0)
        .indices(&[n])
        .indices(&[batch, outer, len, inner, count])
        .arg(status)
}

/// Sums the slices of input 0 for each id in input 1, each result by a thread that goes through all ids.
pub(super) fn short_segment_sum(p: &Prepare<'_>, segments: usize, inner: usize) -> Launches {
    let (n, rows) = (p.outputs[0].elements(), p.inputs[1].elements());
    let longest = n.max(rows).max(p.inputs[0].elements()).max(segments);
    let types = [p.dtype(0), p.dtype(1)];
    let launch = Launch::over(longest, &GATHER, "UnsortedSegmentSum", &types)
        .input(0)
        .input(1)
        .output(0)
        .indices(&[n])
        .indices(&[rows])
        .indices(&[inner])
        .indices(&[segments])
        .arg(Arg::Status);
    Launches {
        fault: Some(Fault {
            input: 1,
            reason: format!("the segment is not below {segments}"),
        }),
        ..launch.into()
    }
}

/// Reverses the first elements of each sequence: `batches` lengths in input 1, sequences of `len` elements, and the steps
/// along both axes.
pub(crate) fn reverse_sequence(
    p: &Prepare<'_>,
    [batches, len, batch_step, step]: [usize; 4],
) -> Result<Launches, KernelError> {
    let n = p.outputs[0].elements();
    let longest = n.max(batches).max(len);
    let types = [by_size(p.dtype(0))?, p.dtype(1)];
    let launch = Launch::over(longest, &GATHER, "ReverseSequence", &types);
    let launch = launch.input(0).input(1).output(0).indices(&[n]);
    let launch = launch.indices(&[batches, len, batch_step, step]);
    Ok(Launches {
        fault: Some(Fault {
            input: 1,
            reason: format!("a sequence has between 0 and {len} elements"),
        }),
        ..launch.arg(Arg::Status).into()
    })
}
