//! Concatenation, packs, splits, tiles, dynamic stitches and partitions.

mod concat;
mod dynamic_stitch_partition;
mod pack_unpack;
mod split;
mod tile;
mod tile_grad;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &concat::CONCAT,
    &concat::CONCAT_V1,
    &concat::CONCAT_OFFSET,
    &pack_unpack::PACK,
    &pack_unpack::UNPACK,
    &dynamic_stitch_partition::DYNAMIC_STITCH,
    &dynamic_stitch_partition::PARALLEL_DYNAMIC_STITCH,
    &dynamic_stitch_partition::DYNAMIC_PARTITION,
    &split::SPLIT,
    &split::SPLIT_V,
    &tile::TILE,
    &tile_grad::TILE_GRAD,
    &tile_grad::PARALLEL_CONCAT,
];
