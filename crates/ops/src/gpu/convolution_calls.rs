//! Library calls of convolutions: by cuDNN, or as GEMMs.

use smallvec::{SmallVec, smallvec};
use thalweg_cpu::Layout;
use thalweg_cpu::conv::ConvGeometry;
use thalweg_device::gpu::{
    self, ALIGNMENT, Arg, Call, Direction, Gemm, LibraryStep, WithLibraries,
};
use thalweg_tensor::DType;

use super::strided_copy::strided_copy;
use crate::support::conv_groups::ConvDirection;
use crate::support::strided_copy::{CopyAxis, StridedCopy};

/// Candidate library calls, the best first. The library's filters have the output channels first,
/// so the filter is moved to scratch memory and read there, or computed there and moved back.
pub(super) fn library_calls(
    dtype: DType,
    g: &ConvGeometry,
    direction: ConvDirection,
) -> Vec<WithLibraries> {
    let direction = library_direction(direction);
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
        pointwise_gemm(g, &call),
        library_call(g, call, None),
        with_even_padding(call).and_then(|even| library_call(g, even, Some(call.images))),
        moved_gemm(g, &call),
    ];
    ways.into_iter().flatten().collect()
}

/// `true` for a filter of one line and one column, without zeros around the images.
fn is_pointwise(c: &gpu::Convolution) -> bool {
    c.filter[2..] == [1, 1] && [c.before, c.after] == [[0, 0]; 2]
}

/// A convolution with a filter of one pixel, and its gradients, as a GEMM: it takes the filter as ops lay it out.
fn pointwise_gemm(g: &ConvGeometry, c: &gpu::Convolution) -> Option<WithLibraries> {
    if !is_pointwise(c) || c.stride != [1, 1] {
        return None;
    }
    let [images, filter, gradient] = [0, 1, 2].map(Arg::Input);
    let pixels = g.in_h * g.in_w;
    let (call, [left, right]) = match (c.direction, g.layout) {
        (Direction::Forward, Layout::Nhwc) => (
            plain_gemm(c.dtype, [g.batch * pixels, g.out_c, g.in_c]),
            [images, filter],
        ),
        (Direction::Images, Layout::Nhwc) => (
            Gemm {
                transpose_right: true,
                ..plain_gemm(c.dtype, [g.batch * pixels, g.in_c, g.out_c])
            },
            [gradient, filter],
        ),
        (Direction::Filter, Layout::Nhwc) => (
            Gemm {
                transpose_left: true,
                ..plain_gemm(c.dtype, [g.in_c, g.out_c, g.batch * pixels])
            },
            [images, gradient],
        ),
        // One GEMM for each image; all take the same filter.
        (Direction::Forward, Layout::Nchw) => (
            Gemm {
                batches: g.batch,
                transpose_left: true,
                right_step: g.in_c * pixels,
                ..plain_gemm(c.dtype, [g.out_c, pixels, g.in_c])
            },
            [filter, images],
        ),
        (Direction::Images, Layout::Nchw) => (
            Gemm {
                batches: g.batch,
                right_step: g.out_c * pixels,
                ..plain_gemm(c.dtype, [g.in_c, pixels, g.out_c])
            },
            [filter, gradient],
        ),
        // A sum over the images is no GEMM of theirs.
        (Direction::Filter, Layout::Nchw) => return None,
    };
    let call = LibraryStep::Call(Call::Gemm(call), [left, right, Arg::Output(0)]);
    Some(WithLibraries {
        steps: smallvec![call],
        scratch: 0,
    })
}

/// The gradient to a filter of one pixel as a GEMM of copies, which have the channels last and the pixels alone that the
/// filter meets: for exact dtypes, for which the library lacks engines at large batches.
fn moved_gemm(g: &ConvGeometry, c: &gpu::Convolution) -> Option<WithLibraries> {
    if !is_pointwise(c) || c.direction != Direction::Filter {
        return None;
    }
    let mut scratch = 0;
    let mut steps = SmallVec::new();
    let mut moved = |input: usize, channels: usize, of: [usize; 4], stride: [usize; 2]| {
        let met = [g.batch, channels, g.out_h, g.out_w];
        let (mut from, to) = (image_steps(g.layout, of), image_steps(Layout::Nhwc, met));
        from[2] *= stride[0];
        from[3] *= stride[1];
        let axes: [CopyAxis; 4] = std::array::from_fn(|i| CopyAxis {
            len: met[i],
            from: from[i] as isize,
            to: to[i] as isize,
        });
        let place = Arg::Scratch(scratch);
        scratch += (met.iter().product::<usize>() * c.dtype.size()).next_multiple_of(ALIGNMENT);
        let copy = StridedCopy::new(0, 0, &axes).ok()?;
        let copy = strided_copy(c.dtype, &copy, Some(Arg::Input(input)), place.clone());
        steps.push(LibraryStep::Launch(copy.ok()?));
        Some(place)
    };
    let images = moved(0, g.in_c, c.images, g.stride)?;
    let gradient = moved(2, g.out_c, c.output, [1, 1])?;
    let call = Gemm {
        transpose_left: true,
        ..plain_gemm(c.dtype, [g.in_c, g.out_c, g.batch * g.out_h * g.out_w])
    };
    let call = Call::Gemm(call);
    steps.push(LibraryStep::Call(call, [images, gradient, Arg::Output(0)]));
    Some(WithLibraries { steps, scratch })
}

/// One GEMM of matrices that are not transposed, with these rows, columns and inner elements.
fn plain_gemm(dtype: DType, [rows, columns, depth]: [usize; 3]) -> Gemm {
    Gemm {
        dtype,
        batches: 1,
        left_step: 0,
        right_step: 0,
        rows,
        columns,
        depth,
        transpose_left: false,
        transpose_right: false,
    }
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

/// Elements from one image, channel, line and column to the next, of images with these numbers of them.
fn image_steps(layout: Layout, [_, channels, lines, columns]: [usize; 4]) -> [usize; 4] {
    match layout {
        Layout::Nhwc => [lines * columns * channels, 1, columns * channels, channels],
        Layout::Nchw => [channels * lines * columns, lines * columns, columns, 1],
    }
}

/// Axes of images that move out of larger ones.
fn image_axes(g: &ConvGeometry, images: [usize; 4], larger: [usize; 4]) -> [CopyAxis; 4] {
    let (from, to) = (image_steps(g.layout, larger), image_steps(g.layout, images));
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

/// The same direction for a library.
fn library_direction(direction: ConvDirection) -> Direction {
    match direction {
        ConvDirection::Forward => Direction::Forward,
        ConvDirection::ToImages => Direction::Images,
        ConvDirection::ToFilter => Direction::Filter,
    }
}
