//! Sparse matrices in compressed rows, as variants: conversions, products, sums, softmax.

pub(super) mod convert;
pub(super) mod elementwise;
pub(super) mod products;
