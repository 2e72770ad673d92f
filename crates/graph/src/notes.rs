//! What is noted about a buffer's bytes.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::dtype::DType;

/// What readers of a buffer's bytes note for those who read them later. It holds until they are written.
#[derive(Debug, Default)]
pub struct Notes {
    /// A bit for each dtype as which all elements are finite.
    finite: AtomicU8,
    from_end: AtomicBool,
}

impl Notes {
    /// The bit of a floating-point dtype; none of one that nothing is noted about.
    fn bit(dtype: DType) -> u8 {
        match dtype {
            DType::F32 => 1,
            DType::F64 => 2,
            _ => 0,
        }
    }

    /// Whether somebody has found that all elements, as this dtype, are finite: neither infinities nor NaN.
    pub fn finite(&self, dtype: DType) -> bool {
        // Written bytes are published by other means, and the notes on them were forgotten before that.
        self.finite.load(Ordering::Relaxed) & Self::bit(dtype) != 0
    }

    /// Notes that all elements, as this dtype, are finite.
    pub fn set_finite(&self, dtype: DType) {
        self.finite.fetch_or(Self::bit(dtype), Ordering::Relaxed);
    }

    /// Whether to read from the end this time: each time the other way than the time before, so that what
    /// was read last, and is in a cache that does not hold all, is read first.
    pub fn turn(&self) -> bool {
        self.from_end.fetch_xor(true, Ordering::Relaxed)
    }

    /// Forgets what follows from the bytes, which are about to be written.
    pub(crate) fn forget(&mut self) {
        *self.finite.get_mut() = 0;
    }
}
