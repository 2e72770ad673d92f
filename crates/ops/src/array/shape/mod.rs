//! Shape, Rank, Size, reshapes and broadcasts.

mod broadcast;
pub(crate) mod reshape;
mod shape_of;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &broadcast::BROADCAST_TO,
    &shape_of::SHAPE,
    &shape_of::RANK,
    &shape_of::SIZE,
    &reshape::RESHAPE,
    &reshape::EXPAND_DIMS,
    &reshape::SQUEEZE,
    &broadcast::BROADCAST_ARGS,
    &shape_of::SHAPE_N,
];
