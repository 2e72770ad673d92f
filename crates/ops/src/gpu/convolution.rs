//! Convolutions as GEMMs in tiles.

use thalweg_device::Prepare;
use thalweg_device::gpu::{
    self, Arg, Call, Direction, Launch, Launches, LibraryStep, WithLibraries,
};
use thalweg_tensor::DType;

use super::gemm::Tiles;
use super::{CONVOLUTION, strided_copy};
use crate::array::moves::{Axis, Move};
use thalweg_cpu::Layout;
use thalweg_cpu::conv::ConvGeometry;

/// The convolution of images that are input 0 with a filter that is input 1.
pub(crate) fn convolution(p: &Prepare<'_>, g: &ConvGeometry) -> Launches {
    let places = g.k_h * g.k_w * g.in_c;
    let tiles = Tiles::new(1, [g.batch * g.out_h * g.out_w, g.out_c, places]);
    let launches = over(p, g, tiles, &[Arg::Input(0), Arg::Input(1), Arg::Output(0)]);
    with_library(p, g, Direction::Forward, launches)
}

/// The gradient of the images, of a filter that is input 1 and the output's gradient that is input 2.
pub(crate) fn convolution_input(p: &Prepare<'_>, g: &ConvGeometry) -> Launches {
    let places = g.k_h * g.k_w * g.out_c;
    let tiles = Tiles::new(1, [g.batch * g.in_h * g.in_w, g.in_c, places]);
    let launches = over(p, g, tiles, &[Arg::Input(1), Arg::Input(2), Arg::Output(0)]);
    with_library(p, g, Direction::Images, launches)
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
    let launches = over(p, g, tiles, &args);
    with_library(p, g, Direction::Filter, launches)
}

/// The same, with what is done where there is a library of convolutions.
fn with_library(
    p: &Prepare<'_>,
    g: &ConvGeometry,
    direction: Direction,
    launches: Launches,
) -> Launches {
    Launches {
        with_libraries: by_library(p, g, direction).map(Box::new),
        ..launches
    }
}

/// A convolution by a library: it takes filters with the output channels first, so the filter is
/// moved to scratch memory and there taken, or made and moved from there.
fn by_library(p: &Prepare<'_>, g: &ConvGeometry, direction: Direction) -> Option<WithLibraries> {
    let dtype = p.outputs[0].dtype;
    let sizes = [g.input_len(), g.filter_len(), g.output_len()];
    if !DType::FLOATS.contains(&dtype) || sizes.contains(&0) {
        return None;
    }
    // It has as many zeros behind the image as before it; where that makes no other output, what
    // is behind does not matter.
    let even = |len: usize, pad: usize, k: usize, out: usize, axis: usize| {
        let window = (k - 1) * g.dilation[axis] + 1;
        let places = (len + 2 * pad).checked_sub(window)?;
        (places / g.stride[axis] + 1 == out).then_some(())
    };
    even(g.in_h, g.pad_top, g.k_h, g.out_h, 0)?;
    even(g.in_w, g.pad_left, g.k_w, g.out_w, 1)?;
    let call = Call::Convolution(gpu::Convolution {
        direction,
        dtype,
        channels_last: g.layout == Layout::Nhwc,
        images: [g.batch, g.in_c, g.in_h, g.in_w],
        filter: [g.out_c, g.in_c, g.k_h, g.k_w],
        output: [g.batch, g.out_c, g.out_h, g.out_w],
        padding: [g.pad_top, g.pad_left],
        stride: g.stride,
        dilation: g.dilation,
    });
    let turned = Arg::Scratch(0);
    let move_filter = |to_library: bool, from: Arg, to: Arg| {
        let axes = filter_axes(g, to_library);
        strided_copy(dtype, &Move::new(0, 0, &axes).ok()?, Some(from), to).ok()
    };
    let (image, output) = (Arg::Input(0), Arg::Output(0));
    let steps = match direction {
        Direction::Forward => [
            LibraryStep::Launch(move_filter(true, Arg::Input(1), turned.clone())?),
            LibraryStep::Call(call, [image, turned, output]),
        ],
        Direction::Images => [
            LibraryStep::Launch(move_filter(true, Arg::Input(1), turned.clone())?),
            LibraryStep::Call(call, [turned, Arg::Input(2), output]),
        ],
        Direction::Filter => [
            LibraryStep::Call(call, [image, Arg::Input(2), turned.clone()]),
            LibraryStep::Launch(move_filter(false, turned, output)?),
        ],
    };
    Some(WithLibraries {
        steps: steps.into_iter().collect(),
        scratch: g.filter_len() * dtype.size(),
    })
}

/// The axes of a filter (lines, columns, input and output channels), which moves from the order that
/// ops have to the one that libraries have, or back.
fn filter_axes(g: &ConvGeometry, to_library: bool) -> [Axis; 4] {
    let lens = [g.k_h, g.k_w, g.in_c, g.out_c];
    let own = [g.k_w * g.in_c * g.out_c, g.in_c * g.out_c, g.out_c, 1];
    let library = match g.layout {
        Layout::Nhwc => [g.k_w * g.in_c, g.in_c, 1, g.k_h * g.k_w * g.in_c],
        Layout::Nchw => [g.k_w, 1, g.k_h * g.k_w, g.in_c * g.k_h * g.k_w],
    };
    std::array::from_fn(|i| {
        let (own, library) = (own[i] as isize, library[i] as isize);
        let (from, to) = match to_library {
            true => (own, library),
            false => (library, own),
        };
        let len = lens[i];
        Axis { len, from, to }
    })
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
