//! Rows of logits.

use thalweg_device::gpu::{Launch, Launches, THREADS};
use thalweg_device::{KernelError, Prepare};

use super::SOFTMAX;

/// Each row of input 0 by the function of `kernels/softmax.cu` with the op's name.
pub(crate) fn softmax(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let elements = p.inputs[0].elements();
    let classes = p.dims(0).last().copied().unwrap_or(1).max(1);
    let rows = elements / classes;
    let mut launch = Launch::over(elements, &SOFTMAX, p.node.op.name, &[p.dtype(0)])
        .input(0)
        .output(0)
        .indices(&[rows])
        .indices(&[classes]);
    launch.blocks = u32::try_from(rows).unwrap_or(u32::MAX).clamp(1, 1 << 16);
    // A power of two: a block joins what its threads have by halves.
    let threads = classes.next_power_of_two().clamp(32, THREADS as usize);
    launch.threads = threads as u32;
    Ok(launch.into())
}
