//! GPU launches of gathers and of segment sums.

use thalweg_device::gpu::{Arg, Fault, Launch, Launches};
use thalweg_device::{KernelError, Prepare};

use super::sources::GATHER;
use super::strided_copy::by_size;

/// Gathers slices of input 0 by the indices in input 1: `[batch][outer][len][inner]` by
/// `[batch][count]`.
pub(crate) fn gather(
    p: &Prepare<'_>,
    [batch, outer, len, inner, count]: [usize; 5],
) -> Result<Launches, KernelError> {
    let (n, indices) = (p.outputs[0].elements(), p.inputs[1].elements());
    let longest = n.max(indices).max(p.inputs[0].elements()).max(len);
    let types = [by_size(p.dtype(0))?, p.dtype(1)];
    let launch = Launch::over(longest, &GATHER, "GatherV2", &types)
        .input(0)
        .input(1)
        .output(0)
        .indices(&[n])
        .indices(&[batch, outer, len, inner, count])
        .arg(Arg::Status);
    Ok(Launches {
        fault: Some(Fault {
            input: 1,
            reason: format!("the index is not within 0..{len}"),
        }),
        ..launch.into()
    })
}

/// Sums the slices of input 0 for each id in input 1.
pub(crate) fn segment_sum(p: &Prepare<'_>, segments: usize, inner: usize) -> Launches {
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
