//! GPU launches of convolutions: by a library, or as tiled GEMMs.

use smallvec::SmallVec;
use thalweg_cpu::Layout;
use thalweg_cpu::conv::ConvGeometry;
use thalweg_device::gpu::{
    self, ALIGNMENT, Arg, Call, Direction, Launch, Launches, LibraryStep, WithLibraries,
};
use thalweg_device::{KernelError, Prepare};
use thalweg_tensor::DType;

use super::gemm::GemmTiles;
use super::sources::CONVOLUTION;
use super::strided_copy::strided_copy;
use crate::support::conv_groups::{ConvDirection, ConvGroups, ConvTensor};
use crate::support::strided_copy::{CopyAxis, StridedCopy};

/// Launches of a convolution or of one of its gradients: by a library where there is one, or in tiles.
pub(crate) fn convolution(
    p: &Prepare<'_>,
    direction: ConvDirection,
    groups: &ConvGroups,
) -> Result<Launches, KernelError> {
    if groups.count > 1 {
        return grouped_launches(p, direction, groups);
    }
    let g = &groups.one;
    let [left, right] = direction.operands().map(Arg::Input);
    let tiles = match direction {
        // The sum over all pixels is long, and the filter small.
        ConvDirection::ToFilter => tiles_of(g, direction).segmented(),
        _ => tiles_of(g, direction),
    };
    let args = [left, right, Arg::Output(0)];
    Ok(Launches {
        with_libraries: library_calls(p, g, library_direction(direction)),
        ..tiled_launches(p, g, tiles, direction, args)
    })
}

/// The same direction for a library.
fn library_direction(direction: ConvDirection) -> Direction {
    match direction {
        ConvDirection::Forward => Direction::Forward,
        ConvDirection::ToImages => Direction::Images,
        ConvDirection::ToFilter => Direction::Filter,
    }
}

/// Rows, columns and depth of a convolution as a GEMM.
fn tiles_of(g: &ConvGeometry, direction: ConvDirection) -> GemmTiles {
    let taps = g.k_h * g.k_w;
    let shape = match direction {
        ConvDirection::Forward => [g.batch * g.out_h * g.out_w, g.out_c, taps * g.in_c],
        ConvDirection::ToImages => [g.batch * g.in_h * g.in_w, g.in_c, taps * g.out_c],
        ConvDirection::ToFilter => [taps * g.in_c, g.out_c, g.batch * g.out_h * g.out_w],
    };
    GemmTiles::new(1, shape)
}

/// Launches that move both operands into a block of scratch memory for each group, compute group after group in
/// tiles, and move the results to the output.
fn grouped_launches(
    p: &Prepare<'_>,
    direction: ConvDirection,
    groups: &ConvGroups,
) -> Result<Launches, KernelError> {
    let (g, dtype) = (&groups.one, p.outputs[0].dtype);
    if p.outputs[0].elements() == 0 {
        return Ok(Launches::default());
    }
    let mut scratch = 0;
    // Each block begins at a multiple of the alignment: its first byte, and the bytes from one to the next.
    let mut blocks = |tensor: ConvTensor| {
        let step = (groups.len(tensor) * dtype.size()).next_multiple_of(ALIGNMENT);
        let first = scratch;
        scratch += step * groups.count;
        (first, step)
    };
    let (tensors, result) = (direction.tensors(), direction.result());
    let operands = tensors.map(&mut blocks);
    let output = blocks(result);
    let mut list = SmallVec::new();
    for (i, (first, step)) in operands.into_iter().enumerate() {
        let moved = groups.split(tensors[i], step / dtype.size())?;
        if !moved.is_empty() {
            let (from, to) = (Arg::Input(direction.operands()[i]), Arg::Scratch(first));
            list.push(strided_copy(dtype, &moved, Some(from), to)?);
        }
    }
    for i in 0..groups.count {
        let block = |(first, step): (usize, usize)| Arg::Scratch(first + i * step);
        let args = [block(operands[0]), block(operands[1]), block(output)];
        let tiles = tiles_of(g, direction);
        list.extend(tiled_launches(p, g, tiles, direction, args).list);
    }
    let moved = groups.join(result, output.1 / dtype.size())?;
    let from = Arg::Scratch(output.0);
    list.push(strided_copy(dtype, &moved, Some(from), Arg::Output(0))?);
    Ok(Launches {
        list,
        scratch,
        ..Launches::default()
    })
}

/// Candidate library calls, the best first. The library's filters have the output channels first,
/// so the filter is moved to scratch memory and read there, or computed there and moved back.
fn library_calls(p: &Prepare<'_>, g: &ConvGeometry, direction: Direction) -> Vec<WithLibraries> {
    let dtype = p.outputs[0].dtype;
    let sizes = [g.input_len(), g.filter_len(), g.output_len()];
    if !DType::FLOATS.contains(&dtype) || sizes.contains(&0) {
        return Vec::new();
    }
    let call = gpu::Convolution {
        direction,
        dtype,
        channels_last: g.layout == Layout::Nhwc,
        images: [g.batch, g.in_c, g.in_h, g.in_w],
        filter: [g.out_c, g.in_c, g.k_h, g.k_w],
        output: [g.batch, g.out_c, g.out_h, g.out_w],
        before: [g.pad_top, g.pad_left],
        after: [
            zeros_after(g, 0, [g.in_h, g.pad_top, g.k_h, g.out_h]),
            zeros_after(g, 1, [g.in_w, g.pad_left, g.k_w, g.out_w]),
        ],
        stride: g.stride,
        dilation: g.dilation,
    };
    let ways = [
        library_call(g, call, None),
        with_even_padding(call).and_then(|even| library_call(g, even, Some(call.images))),
    ];
    ways.into_iter().flatten().collect()
}

/// Number of zeros after the image that its last window reaches.
fn zeros_after(g: &ConvGeometry, axis: usize, [len, before, k, out]: [usize; 4]) -> usize {
    let window = (k - 1) * g.dilation[axis] + 1;
    ((out - 1) * g.stride[axis] + window).saturating_sub(len + before)
}

/// Gradient of images with more zeros after than before, computed for larger images with symmetric padding, for which
/// alone the library has exact engines. `None` if there are not more zeros after.
fn with_even_padding(mut call: gpu::Convolution) -> Option<gpu::Convolution> {
    let even = call.after == call.before;
    if even || call.direction != Direction::Images {
        return None;
    }
    for axis in 0..2 {
        let more = call.after[axis].checked_sub(call.before[axis])?;
        call.images[2 + axis] += more;
        call.after[axis] -= more;
    }
    Some(call)
}

/// A library call with the moves around it; if the gradient of images has more rows and columns than
/// `images` (images, channels, height, width), the rest is dropped.
fn library_call(
    g: &ConvGeometry,
    call: gpu::Convolution,
    images: Option<[usize; 4]>,
) -> Option<WithLibraries> {
    let dtype = call.dtype;
    let turned = Arg::Scratch(0);
    let filter_bytes = (g.filter_len() * dtype.size()).next_multiple_of(ALIGNMENT);
    let copy = |axes: &[CopyAxis], from: Arg, to: Arg| {
        let moved = StridedCopy::new(0, 0, axes).ok()?;
        Some(LibraryStep::Launch(
            strided_copy(dtype, &moved, Some(from), to).ok()?,
        ))
    };
    let (image, output) = (Arg::Input(0), Arg::Output(0));
    let mut scratch = filter_bytes;
    let mut steps = SmallVec::new();
    let library = |args| LibraryStep::Call(Call::Convolution(call), args);
    match (call.direction, images) {
        (Direction::Forward, _) => {
            steps.push(copy(&filter_axes(g, true), Arg::Input(1), turned.clone())?);
            steps.push(library([image, turned, output]));
        }
        (Direction::Images, None) => {
            steps.push(copy(&filter_axes(g, true), Arg::Input(1), turned.clone())?);
            steps.push(library([turned, Arg::Input(2), output]));
        }
        (Direction::Images, Some(images)) => {
            let whole = Arg::Scratch(scratch);
            scratch += call.images.iter().product::<usize>() * dtype.size();
            steps.push(copy(&filter_axes(g, true), Arg::Input(1), turned.clone())?);
            steps.push(library([turned, Arg::Input(2), whole.clone()]));
            steps.push(copy(&image_axes(g, images, call.images), whole, output)?);
        }
        (Direction::Filter, _) => {
            steps.push(library([image, Arg::Input(2), turned.clone()]));
            steps.push(copy(&filter_axes(g, false), turned, output)?);
        }
    }
    Some(WithLibraries { steps, scratch })
}

/// Axes of images that move out of larger ones.
fn image_axes(g: &ConvGeometry, images: [usize; 4], larger: [usize; 4]) -> [CopyAxis; 4] {
    let steps = |[_, channels, lines, columns]: [usize; 4]| match g.layout {
        Layout::Nhwc => [lines * columns * channels, 1, columns * channels, channels],
        Layout::Nchw => [channels * lines * columns, lines * columns, columns, 1],
    };
    let (from, to) = (steps(larger), steps(images));
    std::array::from_fn(|i| CopyAxis {
        len: images[i],
        from: from[i] as isize,
        to: to[i] as isize,
    })
}

/// Axes of a filter (height, width, input and output channels) that moves from the order of ops to the
/// order of libraries, or back.
fn filter_axes(g: &ConvGeometry, to_library: bool) -> [CopyAxis; 4] {
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
        CopyAxis { len, from, to }
    })
}

/// Launches of the function of `kernels/convolution.cu` with the op's name.
fn tiled_launches(
    p: &Prepare<'_>,
    g: &ConvGeometry,
    tiles: GemmTiles,
    direction: ConvDirection,
    args: [Arg; 3],
) -> Launches {
    if p.outputs[0].elements() == 0 {
        return Launches::default();
    }
    // Windows may reach beyond the tensors.
    let reach = |out: usize, k: usize, axis: usize, pad: usize| {
        out * g.stride[axis] + k * g.dilation[axis] + pad
    };
    let reach = reach(g.out_h, g.k_h, 0, g.pad_top).max(reach(g.out_w, g.k_w, 1, g.pad_left));
    let longest = g.input_len().max(g.output_len()).max(g.filter_len());
    let max_index = longest.max(reach);
    let mut launch: Launch = tiles.launch(p, &CONVOLUTION, p.node.op.name, max_index);
    launch.args.extend(args);
    if direction == ConvDirection::ToFilter {
        // The sums of segments, which are not read where there is one.
        launch = launch.arg(Arg::Scratch(0));
    }
    let launch = launch.indices(&tiles.to_struct()).indices(&to_struct(g));
    tiles.joined(launch)
}

/// A geometry as `struct Convolution` of `kernels/convolution.cu`.
fn to_struct(g: &ConvGeometry) -> Vec<usize> {
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
