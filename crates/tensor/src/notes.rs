//! What is noted about a buffer's bytes.

use std::any::Any;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use crate::dtype::DType;

/// What readers of a buffer's bytes note for those who read them later. What follows from the bytes holds until they are
/// written.
#[derive(Debug, Default)]
pub struct Notes {
    /// A bit for each dtype as which all elements are finite.
    finite: AtomicU8,
    /// Which way they were read last.
    from_end: AtomicBool,
    /// How often somebody has read them who would have kept something, until one did.
    reads: AtomicU32,
    kept: OnceLock<Box<dyn Any + Send + Sync>>,
    /// How often what was kept has been forgotten.
    lost: u32,
}

/// After so many reads bytes are thought to stay as they are. Parameters that are trained are read a few times, by the
/// copies of a model, before they are written again. Where that was too soon, it takes as many times as many the next time.
const READS: u32 = 16;

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

    /// What somebody has made of the bytes, and keeps for those who read them later; if it is not there yet, the bytes
    /// have been read often, and memory allows it, `make` makes it. There is one such thing, the first that somebody makes,
    /// until the bytes are written: none where another kind of it is kept.
    pub fn kept<M: Any + Send + Sync>(&self, make: impl FnOnce() -> Option<M>) -> Option<&M> {
        if let Some(kept) = self.kept.get() {
            return kept.downcast_ref();
        }
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        if reads < READS.saturating_pow(self.lost.saturating_add(1)) {
            return None;
        }
        // Who has been faster has made it of the same bytes.
        let _ = self.kept.set(Box::new(make()?));
        self.kept.get()?.downcast_ref()
    }

    /// Forgets what follows from the bytes, which are about to be written.
    pub(crate) fn forget(&mut self) {
        *self.finite.get_mut() = 0;
        *self.reads.get_mut() = 0;
        if self.kept.take().is_some() {
            self.lost = self.lost.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_kept_of_what_is_read_often_and_forgotten_when_that_is_written() {
        let mut notes = Notes::default();
        for reads in [16, 256] {
            for _ in 0..reads {
                assert_eq!(notes.kept(|| Some(7u8)), None);
            }
            // It is made once, and another kind of thing is not there.
            assert_eq!(notes.kept(|| None::<u8>), None);
            assert_eq!(notes.kept(|| Some(8u8)), Some(&8));
            assert_eq!(notes.kept(|| Some(9u8)), Some(&8));
            assert_eq!(notes.kept(|| Some(9u16)), None);
            notes.forget();
        }
    }
}
