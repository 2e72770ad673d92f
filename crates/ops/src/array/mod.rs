//! Constants, feeds, shapes, and the rearranging of elements.

mod band;
mod basic;
mod batches;
mod bins;
mod blocks;
mod build;
mod cast;
mod concat;
mod diagonal;
mod fill;
mod gather;
mod gather_gradient;
mod gather_nd;
mod identity;
mod index;
mod index_map;
mod index_nd;
mod legacy;
mod mirror;
mod nth_element;
mod one_hot;
mod pack;
mod pad;
mod parts;
mod range;
pub(crate) mod reshape;
mod reverse;
mod scatter;
mod search;
mod segment;
mod segment_gradient;
mod segments;
mod shape_of;
mod slice;
mod sources;
mod sparse_segment;
mod split;
mod stitch;
mod stride;
mod strided_slice;
mod strided_slice_assign;
mod tables;
mod tile;
mod top_k;
mod transpose;
mod triangle;
mod unique;

pub use build::ArrayOps;
pub(crate) use gather_gradient::of_slices;
pub use index::{Index, NewAxis, Part, Rest};
pub(crate) use segment::shape as unsorted_shape;
pub use sources::SourceOps;
use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &batches::SPACE_TO_BATCH_ND,
    &batches::BATCH_TO_SPACE_ND,
    &batches::SPACE_TO_BATCH,
    &batches::BATCH_TO_SPACE,
    &blocks::SPACE_TO_DEPTH,
    &blocks::DEPTH_TO_SPACE,
    &diagonal::MATRIX_DIAG,
    &diagonal::MATRIX_DIAG_V2,
    &diagonal::MATRIX_DIAG_V3,
    &diagonal::MATRIX_DIAG_PART,
    &diagonal::MATRIX_DIAG_PART_V2,
    &diagonal::MATRIX_DIAG_PART_V3,
    &diagonal::MATRIX_SET_DIAG,
    &diagonal::MATRIX_SET_DIAG_V2,
    &diagonal::MATRIX_SET_DIAG_V3,
    &triangle::MATRIX_BAND_PART,
    &triangle::DIAG,
    &triangle::DIAG_PART,
    &mirror::MIRROR_PAD,
    &mirror::MIRROR_PAD_GRAD,
    &reverse::REVERSE_V2,
    &reverse::ROLL,
    &reverse::REVERSE_SEQUENCE,
    &basic::CONST,
    &basic::PLACEHOLDER,
    &basic::IDENTITY,
    &basic::NO_OP,
    &basic::ONES_LIKE,
    &cast::CAST,
    &fill::FILL,
    &fill::ZEROS_LIKE,
    &fill::BROADCAST_TO,
    &shape_of::SHAPE,
    &shape_of::RANK,
    &shape_of::SIZE,
    &reshape::RESHAPE,
    &reshape::EXPAND_DIMS,
    &reshape::SQUEEZE,
    &reshape::STOP_GRADIENT,
    &reshape::PLACEHOLDER_WITH_DEFAULT,
    &concat::CONCAT,
    &concat::CONCAT_V1,
    &concat::CONCAT_OFFSET,
    &gather::GATHER,
    &gather::GATHER_V1,
    &gather_nd::GATHER_ND,
    &scatter::SCATTER_ND,
    &scatter::TENSOR_SCATTER_UPDATE,
    &scatter::TENSOR_SCATTER_ADD,
    &scatter::TENSOR_SCATTER_SUB,
    &scatter::TENSOR_SCATTER_MAX,
    &scatter::TENSOR_SCATTER_MIN,
    &identity::ENSURE_SHAPE,
    &identity::SNAPSHOT,
    &identity::DEEP_COPY,
    &identity::PREVENT_GRADIENT,
    &identity::IDENTITY_N,
    &identity::BITCAST,
    &identity::EMPTY,
    &identity::BROADCAST_ARGS,
    &identity::SHAPE_N,
    &legacy::REVERSE,
    &legacy::SPARSE_TO_DENSE,
    &one_hot::ONE_HOT,
    &pack::PACK,
    &pack::UNPACK,
    &pad::PAD,
    &pad::PAD_V2,
    &range::RANGE,
    &range::LIN_SPACE,
    &segment::UNSORTED_SEGMENT_SUM,
    &segments::SEGMENT_SUM,
    &segments::SEGMENT_MEAN,
    &segments::SEGMENT_PROD,
    &segments::SEGMENT_MAX,
    &segments::SEGMENT_MIN,
    &segments::UNSORTED_SEGMENT_MAX,
    &segments::UNSORTED_SEGMENT_MIN,
    &segments::UNSORTED_SEGMENT_PROD,
    &sparse_segment::SPARSE_SEGMENT_SUM,
    &sparse_segment::SPARSE_SEGMENT_SUM_COUNTED,
    &sparse_segment::SPARSE_SEGMENT_SUM_GRAD,
    &sparse_segment::SPARSE_SEGMENT_MEAN,
    &sparse_segment::SPARSE_SEGMENT_MEAN_COUNTED,
    &sparse_segment::SPARSE_SEGMENT_MEAN_GRAD,
    &sparse_segment::SPARSE_SEGMENT_SQRT_N,
    &sparse_segment::SPARSE_SEGMENT_SQRT_N_COUNTED,
    &sparse_segment::SPARSE_SEGMENT_SQRT_N_GRAD,
    &stitch::DYNAMIC_STITCH,
    &stitch::PARALLEL_DYNAMIC_STITCH,
    &stitch::DYNAMIC_PARTITION,
    &unique::WHERE,
    &unique::UNIQUE,
    &unique::UNIQUE_V2,
    &unique::UNIQUE_WITH_COUNTS,
    &unique::UNIQUE_WITH_COUNTS_V2,
    &unique::LIST_DIFF,
    &search::LOWER_BOUND,
    &search::UPPER_BOUND,
    &bins::BUCKETIZE,
    &bins::HISTOGRAM,
    &search::BINCOUNT,
    &search::DENSE_BINCOUNT,
    &slice::SLICE,
    &nth_element::NTH_ELEMENT,
    &top_k::TOP_K,
    &top_k::TOP_K_V2,
    &top_k::IN_TOP_K,
    &top_k::IN_TOP_K_V2,
    &split::SPLIT,
    &split::SPLIT_V,
    &strided_slice::STRIDED_SLICE,
    &strided_slice::STRIDED_SLICE_GRAD,
    &strided_slice_assign::RESOURCE_STRIDED_SLICE_ASSIGN,
    &strided_slice_assign::STRIDED_SLICE_ASSIGN,
    &tile::TILE,
    &transpose::TRANSPOSE,
    &transpose::INVERT_PERMUTATION,
];
