//! Transposes, reversals, rolls, pads, space to batch and to depth.

pub(crate) mod mirror_pad;
mod pad;
mod reverse_roll;
mod reverse_v1;
mod space_to_batch;
mod space_to_depth;
mod transpose;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &space_to_batch::SPACE_TO_BATCH_ND,
    &space_to_batch::BATCH_TO_SPACE_ND,
    &space_to_batch::SPACE_TO_BATCH,
    &space_to_batch::BATCH_TO_SPACE,
    &space_to_depth::SPACE_TO_DEPTH,
    &space_to_depth::DEPTH_TO_SPACE,
    &mirror_pad::MIRROR_PAD,
    &mirror_pad::MIRROR_PAD_GRAD,
    &reverse_roll::REVERSE_V2,
    &reverse_roll::ROLL,
    &reverse_roll::REVERSE_SEQUENCE,
    &reverse_v1::REVERSE,
    &pad::PAD,
    &pad::PAD_V2,
    &transpose::TRANSPOSE,
    &transpose::CONJUGATE_TRANSPOSE,
    &transpose::INVERT_PERMUTATION,
];
