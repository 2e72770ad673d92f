//! Constants, placeholders, identities, fills, casts, ranges.

pub(crate) mod cast_bitcast;
mod constant;
mod fill_zeros_ones;
mod identity;
mod no_op;
mod placeholder;
mod range_lin_space;
mod to_bool;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &constant::CONST,
    &constant::HOST_CONST,
    &placeholder::PLACEHOLDER,
    &placeholder::PLACEHOLDER_V2,
    &identity::IDENTITY,
    &no_op::NO_OP,
    &fill_zeros_ones::ONES_LIKE,
    &cast_bitcast::CAST,
    &fill_zeros_ones::FILL,
    &fill_zeros_ones::ZEROS_LIKE,
    &identity::STOP_GRADIENT,
    &placeholder::PLACEHOLDER_WITH_DEFAULT,
    &identity::ENSURE_SHAPE,
    &identity::GUARANTEE_CONST,
    &to_bool::TO_BOOL,
    &identity::SNAPSHOT,
    &identity::DEBUG_GRADIENT_IDENTITY,
    &identity::DEEP_COPY,
    &identity::PREVENT_GRADIENT,
    &identity::IDENTITY_N,
    &cast_bitcast::BITCAST,
    &fill_zeros_ones::EMPTY,
    &range_lin_space::RANGE,
    &range_lin_space::LIN_SPACE,
];
