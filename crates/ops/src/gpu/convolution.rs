//! GPU launches of convolutions: by a library, or as tiled GEMMs.

use smallvec::SmallVec;
use thalweg_cpu::Layout;
use thalweg_cpu::conv::ConvGeometry;
use thalweg_device::gpu::{ALIGNMENT, Arg, Launch, Launches};
use thalweg_device::{KernelError, Prepare};

use super::convolution_calls::library_calls;
use super::gemm::GemmTiles;
use super::sources::CONVOLUTION;
use super::strided_copy::strided_copy;
use crate::support::conv_groups::{ConvDirection, ConvGroups, ConvTensor};

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
        with_libraries: library_calls(p.outputs[0].dtype, g, direction),
        ..tiled_launches(p, g, tiles, direction, args)
    })
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
