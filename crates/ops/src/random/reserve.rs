//! Blocks that a run reserves in its sequence, so that the next run draws other numbers.

use std::sync::atomic::Ordering;

use thalweg_device::{KernelCx, KernelError};

/// Number of blocks reserved for each element, used or not: the next run starts after them,
/// as in TensorFlow.
const RESERVED_PER_ELEMENT: u64 = 256;

/// Number of blocks reserved by a run that draws `elements` numbers.
pub(super) fn reserved_blocks(elements: usize) -> u64 {
    (elements as u64).wrapping_mul(RESERVED_PER_ELEMENT)
}

/// First block of this run, which draws `elements` numbers.
pub(super) fn first_block(cx: &KernelCx<'_>, elements: usize) -> Result<u64, KernelError> {
    take_blocks(cx, reserved_blocks(elements))
}

/// Reserves `blocks` blocks, and returns the first.
pub(crate) fn take_blocks(cx: &KernelCx<'_>, blocks: u64) -> Result<u64, KernelError> {
    Ok(cx.counter()?.fetch_add(blocks, Ordering::Relaxed))
}

/// The counter after so many blocks. A carry out of the count itself is lost, as in TensorFlow.
pub(super) fn skipped(counter: [u64; 2], blocks: u64) -> [u64; 2] {
    let halves = |v: u64| (v as u32, (v >> 32) as u32);
    let ((low, high), (add_low, add_high)) = (halves(counter[0]), halves(blocks));
    let (low, carry) = low.overflowing_add(add_low);
    let add_high = add_high.wrapping_add(u32::from(carry));
    let high = high.wrapping_add(add_high);
    let carry = u64::from(high < add_high);
    let first = u64::from(low) | u64::from(high) << 32;
    [first, counter[1].wrapping_add(carry)]
}
