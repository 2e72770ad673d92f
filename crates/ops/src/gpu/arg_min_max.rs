//! GPU launches of ArgMax and ArgMin.

use thalweg_device::Prepare;
use thalweg_device::gpu::{Launch, Launches, THREADS};

use super::sources::ARG_MIN_MAX;

/// Index along the middle one of three dimensions (the last is `inner` long), by the function of
/// `kernels/arg_min_max.cu` with the op's name.
pub(crate) fn position(p: &Prepare<'_>, n: usize, inner: usize) -> Launches {
    let outputs = p.outputs[0].elements();
    if outputs == 0 {
        return Launches::default();
    }
    let types = [p.dtype(0), p.outputs[0].dtype];
    // One thread for each row if a block would not share a row evenly.
    let together = n >= 2 * THREADS as usize;
    let mut launch = Launch::over(p.inputs[0].elements(), &ARG_MIN_MAX, p.node.op.name, &types);
    let blocks = match together {
        true => outputs,
        false => outputs.div_ceil(THREADS as usize),
    };
    launch.blocks = u32::try_from(blocks).unwrap_or(u32::MAX).clamp(1, 1 << 16);
    launch
        .input(0)
        .output(0)
        .indices(&[outputs, n, inner])
        .value(u32::from(together))
        .into()
}
