//! Loops over elements: one input, two inputs with broadcasting. They run over threads in chunks of a fixed size.
//!
//! A function of elements is compiled for the types that numbers are computed in (see [`Compute`]) and for no other
//! dtype: elements of narrower ones are widened and narrowed a block at a time around it. Of the loops over `f32`, in
//! which models compute, there is one for each instruction set. All else is here once, for every function.

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
