//! Convolutions as products in tiles.

use thalweg_device::Prepare;
use thalweg_device::gpu::{Arg, Launch, Launches};

use super::CONVOLUTION;
use super::product::Tiles;
use crate::cpu::Layout;
use crate::cpu::conv::ConvGeometry;

/// The convolution of images that are input 0 with a filter that is input 1.
pub(crate) fn convolution(p: &Prepare<'_>, g: &ConvGeometry) -> Launches {
    let places = g.k_h * g.k_w * g.in_c;
    let tiles = Tiles::new(1, [g.batch * g.out_h * g.out_w, g.out_c, places]);
    over(p, g, tiles, &[Arg::Input(0), Arg::Input(1), Arg::Output(0)])
}

/// The gradient of the images, of a filter that is input 1 and the output's gradient that is input 2.
pub(crate) fn convolution_input(p: &Prepare<'_>, g: &ConvGeometry) -> Launches {
    let places = g.k_h * g.k_w * g.out_c;
    let tiles = Tiles::new(1, [g.batch * g.in_h * g.in_w, g.in_c, places]);
    over(p, g, tiles, &[Arg::Input(1), Arg::Input(2), Arg::Output(0)])
}

/// The gradient of the filter, of images that are input 0 and the output's gradient that is input 2.
pub(crate) fn convolution_filter(p: &Prepare<'_>, g: &ConvGeometry) -> Launches {
    let pixels = g.batch * g.out_h * g.out_w;
    let tiles = Tiles::new(1, [g.k_h * g.k_w * g.in_c, g.out_c, pixels]).segmented();
    let args = [
        Arg::Input(0),
        Arg::Input(2),
        Arg::Output(0),
        Arg::Scratch(0),
    ];
    over(p, g, tiles, &args)
}

/// The function of `kernels/convolution.cu` with the op's name.
fn over(p: &Prepare<'_>, g: &ConvGeometry, tiles: Tiles, args: &[Arg]) -> Launches {
    if p.outputs[0].elements() == 0 {
        return Launches::default();
    }
    // Windows may reach beyond what the tensors hold.
    let reach = |out: usize, k: usize, axis: usize, pad: usize| {
        out * g.stride[axis] + k * g.dilation[axis] + pad
    };
    let reach = reach(g.out_h, g.k_h, 0, g.pad_top).max(reach(g.out_w, g.k_w, 1, g.pad_left));
    let longest = g.input_len().max(g.output_len()).max(g.filter_len());
    let most = longest.max(reach);
    let mut launch: Launch = tiles.launch(p, &CONVOLUTION, p.node.op.name, most);
    launch.args.extend(args.iter().cloned());
    let launch = launch.indices(&tiles.lay_out()).indices(&lay_out(g));
    tiles.joined(launch)
}

/// A geometry as `struct Convolution` of `kernels/convolution.cu`.
fn lay_out(g: &ConvGeometry) -> Vec<usize> {
    let image = |lines: usize, columns: usize, channels: usize| {
        let [pixel, channel] = match g.layout {
            Layout::Nhwc => [channels, 1],
            Layout::Nchw => [1, lines * columns],
        };
        [lines, columns, channels, pixel, channel]
    };
    let mut all = vec![g.batch];
    all.extend(image(g.in_h, g.in_w, g.in_c));
    all.extend(image(g.out_h, g.out_w, g.out_c));
    all.extend([g.k_h, g.k_w]);
    all.extend(g.stride);
    all.extend(g.dilation);
    all.extend([g.pad_top, g.pad_left]);
    all
}
