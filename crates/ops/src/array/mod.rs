//! Constants, feeds, shapes, and the rearranging of elements.

mod basic;
mod build;
mod cast;
mod concat;
mod fill;
mod gather;
mod gather_gradient;
mod measure;
pub(crate) mod moves;
mod one_hot;
mod pack;
mod pad;
mod parts;
mod range;
pub(crate) mod reshape;
mod rules;
mod segment;
mod slice;
mod sources;
mod split;
mod stride;
mod strided_slice;
mod strided_slice_assign;
mod strings;
mod tile;
mod transpose;

pub(crate) use basic::VIEW;
pub use build::ArrayOps;
pub(crate) use gather_gradient::of_slices;
pub use sources::SourceOps;
pub(crate) use strings::moved_strings;
use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &basic::CONST,
    &basic::PLACEHOLDER,
    &basic::IDENTITY,
    &basic::NO_OP,
    &basic::ONES_LIKE,
    &cast::CAST,
    &fill::FILL,
    &fill::ZEROS_LIKE,
    &fill::BROADCAST_TO,
    &measure::SHAPE,
    &measure::RANK,
    &measure::SIZE,
    &reshape::RESHAPE,
    &reshape::EXPAND_DIMS,
    &reshape::SQUEEZE,
    &reshape::STOP_GRADIENT,
    &reshape::PLACEHOLDER_WITH_DEFAULT,
    &concat::CONCAT,
    &concat::CONCAT_OFFSET,
    &gather::GATHER,
    &one_hot::ONE_HOT,
    &pack::PACK,
    &pack::UNPACK,
    &pad::PAD,
    &pad::PAD_V2,
    &range::RANGE,
    &segment::UNSORTED_SEGMENT_SUM,
    &slice::SLICE,
    &split::SPLIT,
    &strided_slice::STRIDED_SLICE,
    &strided_slice::STRIDED_SLICE_GRAD,
    &strided_slice_assign::RESOURCE_STRIDED_SLICE_ASSIGN,
    &strided_slice_assign::STRIDED_SLICE_ASSIGN,
    &tile::TILE,
    &transpose::TRANSPOSE,
    &transpose::INVERT_PERMUTATION,
];
