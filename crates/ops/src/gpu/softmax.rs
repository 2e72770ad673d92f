//! GPU launches on rows of logits: softmax and cross entropy.

use thalweg_device::gpu::{Launch, Launches, THREADS};
use thalweg_device::{KernelError, Prepare};
use thalweg_tensor::DType;

use super::sources::SOFTMAX;

/// Maps each row of input 0 by the function of `kernels/softmax.cu` with the op's name.
pub(crate) fn softmax(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let classes = p.dims(0).last().copied().unwrap_or(1).max(1);
    let rows = p.inputs[0].elements() / classes;
    let launch = over_rows(p, &[p.dtype(0)], rows, classes)
        .input(0)
        .output(0);
    Ok(launch.indices(&[rows]).indices(&[classes]).into())
}

/// Losses and their gradients, from the logits in input 0 and the labels in input 1; `steps` to the next row
/// and class for labels that are distributions.
pub(crate) fn cross_entropy(
    p: &Prepare<'_>,
    steps: Option<[usize; 4]>,
) -> Result<Launches, KernelError> {
    // Without classes, each row still has a loss.
    let classes = p.output_dims(1).last().copied().unwrap_or(1);
    let rows = p.outputs[0].elements();
    let types = match steps {
        Some(_) => &[p.dtype(0)][..],
        None => &[p.dtype(0), p.dtype(1)],
    };
    let launch = over_rows(p, types, rows, classes)
        .input(0)
        .input(1)
        .output(0)
        .output(1)
        .indices(&[rows])
        .indices(&[classes]);
    Ok(match steps {
        Some(steps) => launch.indices(&steps).into(),
        None => launch.into(),
    })
}

/// Launch with a block for each row, by the function of `kernels/softmax.cu` with the op's name.
fn over_rows(p: &Prepare<'_>, types: &[DType], rows: usize, classes: usize) -> Launch {
    let elements = rows.saturating_mul(classes);
    let mut launch = Launch::over(elements, &SOFTMAX, p.node.op.name, types);
    launch.blocks = u32::try_from(rows).unwrap_or(u32::MAX).clamp(1, 1 << 16);
    // A power of two: a block joins the results of its threads by halves.
    let threads = classes.next_power_of_two().clamp(32, THREADS as usize);
    launch.threads = threads as u32;
    launch
}
