//! GPU launches of depthwise convolutions.

use thalweg_cpu::Layout;
use thalweg_cpu::conv::ConvGeometry;
use thalweg_device::Prepare;
use thalweg_device::gpu::{Arg, Launch, Launches};

use super::segments::SumSegments;
use super::sources::DEPTHWISE;

/// An image from the other image, input `i`, and the filter in input `filter`.
pub(crate) fn depthwise(p: &Prepare<'_>, g: &ConvGeometry, inputs: [usize; 2]) -> Launches {
    let n = p.outputs[0].elements();
    if n == 0 {
        return Launches::default();
    }
    let launch = launch(p, g, p.node.op.name);
    let launch = inputs.into_iter().fold(launch, Launch::input).output(0);
    launch.indices(&[n]).indices(&to_struct(g)).into()
}

/// Gradient of the filter.
pub(crate) fn depthwise_filter(p: &Prepare<'_>, g: &ConvGeometry) -> Launches {
    let outputs = g.k_h * g.k_w * g.out_c;
    let count = g.batch * g.out_h * g.out_w;
    if outputs == 0 {
        return Launches::default();
    }
    let segments = SumSegments::new(outputs, count, g.layout == Layout::Nchw);
    let sums = launch(p, g, "DepthwiseFilterSums").input(0).input(2);
    let sums = sums.arg(Arg::Scratch(0)).indices(&to_struct(g));
    let all = launch(p, g, "DepthwiseFilter")
        .arg(Arg::Scratch(0))
        .output(0);
    Launches {
        list: [
            segments.partial_sums(sums.indices(&segments.to_struct())),
            segments.join(all.indices(&segments.to_struct())),
        ]
        .into_iter()
        .collect(),
        // A sum has at most 8 bytes.
        scratch: segments.bytes(8),
        ..Launches::default()
    }
}

fn launch(p: &Prepare<'_>, g: &ConvGeometry, name: &'static str) -> Launch {
    // Windows may reach beyond the tensors.
    let reach = |out: usize, k: usize, axis: usize, pad: usize| {
        out * g.stride[axis] + k * g.dilation[axis] + pad
    };
    let reach = reach(g.out_h, g.k_h, 0, g.pad_top).max(reach(g.out_w, g.k_w, 1, g.pad_left));
    let max_index = g.input_len().max(g.output_len()).max(reach);
    let mut launch = Launch::over(
        p.outputs[0].elements(),
        &DEPTHWISE,
        name,
        &[p.outputs[0].dtype],
    );
    launch.function.large |= max_index >= 1 << 31;
    launch
}

/// A geometry as `struct Depthwise` of `kernels/depthwise.cu`.
fn to_struct(g: &ConvGeometry) -> Vec<usize> {
    let image = |lines: usize, columns: usize, channels: usize| {
        let [pixel, channel] = match g.layout {
            Layout::Nhwc => [channels, 1],
            Layout::Nchw => [1, lines * columns],
        };
        [lines, columns, channels, pixel, channel]
    };
    let mut all = image(g.in_h, g.in_w, g.in_c).to_vec();
    all.extend(image(g.out_h, g.out_w, g.out_c));
    all.extend([g.k_h, g.stride[0], g.dilation[0], g.pad_top]);
    all.extend([g.k_w, g.stride[1], g.dilation[1], g.pad_left]);
    all.push(g.out_c / g.in_c.max(1));
    all
}
