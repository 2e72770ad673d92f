//! Sparse matrices in compressed rows, as variants: conversions, products, sums, softmax.

pub(super) mod convert;
pub(crate) mod elementwise;
mod matrix;
pub(super) mod products;
