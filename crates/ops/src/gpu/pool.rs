//! Windows that slide over images.

use thalweg_device::Prepare;
use thalweg_device::gpu::{Launch, Launches};

use super::POOL;
use crate::cpu::Layout;
use crate::cpu::pooling::PoolGeometry;

/// What windows give, or the gradient of what they see, by the function of `kernels/pool.cu` with the
/// op's name, of these inputs.
pub(crate) fn pool(p: &Prepare<'_>, g: &PoolGeometry, inputs: &[usize]) -> Launches {
    let n = p.outputs[0].elements();
    let mut launch = Launch::over(n, &POOL, p.node.op.name, &[p.outputs[0].dtype]);
    let inner = match g.layout {
        Layout::Nhwc => g.channels,
        Layout::Nchw => 1,
    };
    let axes = [
        [g.in_h, g.out_h, g.k_h, g.stride[0], g.pad_top],
        [g.in_w, g.out_w, g.k_w, g.stride[1], g.pad_left],
    ];
    // The end of a window is counted before it is cut at the image's.
    let ends = axes.map(|[len, _, window, stride, pad]| len + window + stride + pad);
    let most = g.input_len().max(g.output_len()).max(ends[0]).max(ends[1]);
    launch.function.large |= most >= 1 << 31;
    for &i in inputs {
        launch = launch.input(i);
    }
    let launch = launch.output(0).indices(&[n]);
    let geometry: Vec<usize> = axes.into_iter().flatten().chain([inner]).collect();
    launch.indices(&geometry).into()
}
