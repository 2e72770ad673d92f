//! Elementwise loops: one input, or two inputs with broadcasting. They run on threads in chunks of a fixed size.
//!
//! A function is compiled only for the types that numbers are computed in (see [`Compute`]): elements of narrower
//! dtypes are widened before and narrowed after it, a block at a time. Loops over `f32`, in which models compute, are
//! compiled for each instruction set. All other code exists once, for every function.

mod binary;
mod chunks;
pub(crate) mod compute;
mod loops;
mod unary;
mod walk;

pub(crate) use binary::{binary, binary_to};
pub(crate) use chunks::{BLOCK, CHUNK, copy_broadcast};
pub(crate) use compute::{Compute, Conversion, computed, rounding};
pub(crate) use unary::{convert, unary};
pub(crate) use walk::Walk;
