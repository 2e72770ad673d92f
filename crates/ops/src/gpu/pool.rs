//! GPU launches of pooling.

use thalweg_cpu::Layout;
use thalweg_cpu::pooling::PoolGeometry;
use thalweg_device::Prepare;
use thalweg_device::gpu::{Arg, Fault, Launch, Launches};
use thalweg_tensor::DType;

use super::sources::POOL;

/// Pooling to all outputs, or its gradient, by the function of `kernels/pool.cu` with
/// this name, from these inputs.
pub(crate) fn pool(
    p: &Prepare<'_>,
    name: &'static str,
    g: &PoolGeometry,
    inputs: &[usize],
) -> Launches {
    let n = p.outputs[0].elements();
    let mut launch = launch(n, name, g, &[p.outputs[0].dtype]);
    for &i in inputs {
        launch = launch.input(i);
    }
    for i in 0..p.outputs.len() {
        launch = launch.output(i);
    }
    launch.indices(&[n]).indices(&to_struct(g)).into()
}

/// Maximum of each window and its index, which starts again after `image` elements.
pub(crate) fn pool_argmax(p: &Prepare<'_>, g: &PoolGeometry, image: usize) -> Launches {
    let (n, types) = (g.output_len(), [p.dtype(0), p.outputs[1].dtype]);
    let launch = launch(n, "MaxPoolWithArgmax", g, &types).input(0);
    let launch = launch.output(0).output(1).indices(&[n]);
    launch.indices(&to_struct(g)).indices(&[image]).into()
}

/// Gradient from these indices: an index outside of its window is an error.
pub(crate) fn pool_argmax_grad(p: &Prepare<'_>, g: &PoolGeometry, image: usize) -> Launches {
    let (n, windows, types) = (g.input_len(), g.output_len(), [p.dtype(0), p.dtype(2)]);
    let places = launch(windows, "MaxPoolPlaces", g, &types).input(2);
    let places = places.indices(&[windows]).indices(&to_struct(g));
    let gradient = launch(n, "MaxPoolGradWithArgmax", g, &types);
    let gradient = gradient.input(1).input(2).output(0).indices(&[n]);
    let gradient = gradient.indices(&to_struct(g)).indices(&[image]);
    Launches {
        list: [places.indices(&[image]).arg(Arg::Status), gradient]
            .into_iter()
            .collect(),
        fault: Some(Fault {
            input: 2,
            reason: "the place is not in its window".to_owned(),
        }),
        ..Launches::default()
    }
}

fn launch(n: usize, name: &'static str, g: &PoolGeometry, types: &[DType]) -> Launch {
    let mut launch = Launch::over(n, &POOL, name, types);
    // The end of a window, before it is cut off at the image's end.
    let end = |[len, _, window, stride, pad]: [usize; 5]| len + window + stride + pad;
    let ends = axes(g).map(end);
    let max_index = g.input_len().max(g.output_len()).max(ends[0]).max(ends[1]);
    launch.function.large |= max_index >= 1 << 31;
    launch
}

fn axes(g: &PoolGeometry) -> [[usize; 5]; 2] {
    [
        [g.in_h, g.out_h, g.k_h, g.stride[0], g.pad_top],
        [g.in_w, g.out_w, g.k_w, g.stride[1], g.pad_left],
    ]
}

/// A geometry as `struct Pool` of `kernels/pool.cu`.
fn to_struct(g: &PoolGeometry) -> Vec<usize> {
    let inner = match g.layout {
        Layout::Nhwc => g.channels,
        Layout::Nchw => 1,
    };
    axes(g).into_iter().flatten().chain([inner]).collect()
}
