//! GPU launches of strided copies.

use smallvec::SmallVec;
use thalweg_device::KernelError;
use thalweg_device::gpu::{Arg, Launch};
use thalweg_tensor::DType;

use super::sources::STRIDED_COPY;
use crate::support::strided_copy::{CopyAxis, StridedCopy};

/// Maximum number of axes of a box in `kernels/strided_copy.cu`, after those with equal strides are merged.
const MAX_AXES: usize = 12;

/// Unsigned integer type of this size: copies depend on the size of an element only.
pub(super) fn by_size(dtype: DType) -> Result<DType, KernelError> {
    match dtype.size() {
        1 => Ok(DType::U8),
        2 => Ok(DType::U16),
        4 => Ok(DType::U32),
        8 => Ok(DType::U64),
        _ => Err(KernelError::DType(dtype)),
    }
}

/// Copies a box from a source, or zeros, to a destination.
pub(crate) fn strided_copy(
    dtype: DType,
    moved: &StridedCopy,
    source: Option<Arg>,
    target: Arg,
) -> Result<Launch, KernelError> {
    let (axes, from, to) = moved.layout();
    if axes.len() > MAX_AXES {
        return Err(KernelError::Invalid(format!(
            "its elements move along {} axes that no two can be taken together of; a GPU's kernel \
             takes {MAX_AXES}: Reshape, or place it on a CPU",
            axes.len()
        )));
    }
    if let Some(source) = &source
        && let Some(tile) = Tile::of(&axes)
    {
        return move_tiles(dtype, &axes, tile, (source.clone(), from), (target, to));
    }
    let elements = axes.iter().map(|a| a.len).product();
    let name = if source.is_some() { "Move" } else { "Zero" };
    let mut launch = Launch::over(elements, &STRIDED_COPY, name, &[by_size(dtype)?]);
    let reads = source.is_some();
    launch.args.extend(source);
    launch = launch.arg(target).indices(&[elements]);
    launch = match reads {
        true => launch.value(from as i64).value(to as i64),
        false => launch.value(to as i64),
    };
    Ok(with_box(launch, &axes))
}

/// Side of the squares that go through shared memory: `SIDE` of `kernels/strided_copy.cu`.
const SIDE: usize = 32;

/// Axes of a box whose elements are adjacent for reading, and for writing.
#[derive(Clone, Copy)]
struct Tile {
    reads: usize,
    writes: usize,
}

impl Tile {
    /// The two axes, where they are not the same and fill half of a square at least.
    fn of(axes: &[CopyAxis]) -> Option<Tile> {
        let long = |step: fn(&CopyAxis) -> isize| {
            let mut axes = axes.iter();
            axes.position(|a| step(a) == 1 && a.len >= SIDE / 2)
        };
        let (reads, writes) = (long(|a| a.from)?, long(|a| a.to)?);
        (reads != writes).then_some(Tile { reads, writes })
    }
}

/// Copies a box by squares, each from an offset in its memory.
fn move_tiles(
    dtype: DType,
    axes: &[CopyAxis],
    tile: Tile,
    (source, from): (Arg, usize),
    (target, to): (Arg, usize),
) -> Result<Launch, KernelError> {
    let (reads, writes) = (axes[tile.reads], axes[tile.writes]);
    let others = axes.iter().enumerate();
    let others = others.filter(|(i, _)| *i != tile.reads && *i != tile.writes);
    let others: SmallVec<[CopyAxis; 8]> = others.map(|(_, axis)| *axis).collect();
    let boxes: usize = others.iter().map(|a| a.len).product();
    let units = boxes * reads.len.div_ceil(SIDE) * writes.len.div_ceil(SIDE);
    // A block moves a square at a time.
    let elements = units * SIDE * SIDE;
    let mut launch = Launch::over(elements, &STRIDED_COPY, "MoveTiles", &[by_size(dtype)?]);
    launch = launch.arg(source).arg(target).indices(&[units]);
    launch = launch.value(from as i64).value(to as i64);
    // `struct Tile`.
    let tile = [
        reads.len as i64,
        writes.len as i64,
        reads.to as i64,
        writes.from as i64,
    ];
    Ok(with_box(launch.value(tile), &others))
}

/// Adds `struct Box` of `kernels/strided_copy.cu` as the last argument.
fn with_box(launch: Launch, axes: &[CopyAxis]) -> Launch {
    let mut lens = [0; 1 + MAX_AXES];
    let mut steps = [0i64; 2 * MAX_AXES];
    lens[0] = axes.len();
    for (i, axis) in axes.iter().enumerate() {
        lens[1 + i] = axis.len;
        steps[i] = axis.from as i64;
        steps[MAX_AXES + i] = axis.to as i64;
    }
    // There is an odd number of 4-byte indices; the steps after them are aligned to 8 bytes.
    let mut bytes: SmallVec<[u8; 16]> = launch.index_bytes(&lens);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend_from_slice(bytemuck::bytes_of(&steps));
    launch.arg(Arg::Value(bytes))
}
