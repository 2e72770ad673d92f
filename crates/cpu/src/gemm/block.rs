//! Blocks of a GEMM's inner dimension: the part of both operands that a task multiplies at a time.

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// A block of the inner dimension of one GEMM.
#[derive(Clone, Copy)]
pub(super) struct Block<'a, T> {
    pub a: &'a [T],
    pub b: &'a [T],
    /// Its start and length.
    pub at: usize,
    pub inner: usize,
}

/// An operand of a GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperandSide {
    A,
    B,
}

/// Elements of a cache line.
pub(super) fn in_line<S>() -> usize {
    LINE_BYTES / size_of::<S>()
}
