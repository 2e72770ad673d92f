//! Elementwise loops: one input, or two inputs with broadcasting. They run on threads in chunks of a fixed size.
//!
//! A function is compiled only for the types that numbers are computed in (see [`Compute`]): elements of narrower
//! dtypes are widened before and narrowed after it, a block at a time. Loops over floats are compiled for each instruction
//! set, those over integers for two. All other code exists once, for every function.

mod binary;
mod block;
mod chunks;
pub(crate) mod compute;
mod loops;
mod unary;
mod walk;

pub(crate) use binary::{binary, binary_to};
pub(crate) use block::BLOCK;
pub(crate) use chunks::{CHUNK, copy_broadcast};
pub(crate) use compute::{Compute, Conversion, computed, rounding};
pub(crate) use loops::{Any, Function, InF64};
pub(crate) use unary::{convert, unary, unary_of, unary_with_exceptions};
pub(crate) use walk::Walk;
