//! Cached facts about a buffer's bytes: finiteness, and one derived object.

use std::any::Any;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use crate::dtype::DType;

/// Facts about a buffer's bytes that one reader leaves for later readers. They hold until the bytes
/// are written.
#[derive(Debug, Default)]
pub struct Notes {
    /// A bit for each dtype as which all elements are finite.
    finite: AtomicU8,
    /// The direction of the last read.
    from_end: AtomicBool,
    /// The number of requests for a derived object, until one was made.
    reads: AtomicU32,
    kept: OnceLock<Box<dyn Any + Send + Sync>>,
    /// The number of derived objects that were dropped because the bytes were written.
    lost: u32,
}

/// After this many reads, bytes are assumed to stay unchanged. Parameters in training are read a
/// few times, by the replicas of a model, before they are written again. Each wrong guess
/// multiplies the number by as much again.
const READS_BEFORE_DERIVING: u32 = 16;

impl Notes {
    /// The bit of a floating-point dtype; 0 for a dtype without one.
    fn bit(dtype: DType) -> u8 {
        match dtype {
            DType::F32 => 1,
            DType::F64 => 2,
            _ => 0,
        }
    }

    /// `true` if all elements, as this dtype, are known to be finite: neither infinities nor NaN.
    pub fn finite(&self, dtype: DType) -> bool {
        // Writes are published by other means, and the notes are reset before a write.
        self.finite.load(Ordering::Relaxed) & Self::bit(dtype) != 0
    }

    /// Records that all elements, as this dtype, are finite.
    pub fn set_finite(&self, dtype: DType) {
        self.finite.fetch_or(Self::bit(dtype), Ordering::Relaxed);
    }

    /// Alternates the direction of scans (`true`: from the end), so that a scan starts with the
    /// part that the last one left in a cache which does not hold all.
    pub fn flip_scan_direction(&self) -> bool {
        self.from_end.fetch_xor(true, Ordering::Relaxed)
    }

    /// An object derived from the bytes, kept for later readers. If there is none yet, the bytes
    /// have been read often, and memory allows it, `make` makes it. There is one object, the first
    /// that is made, until the bytes are written: `None` if it is of another type.
    pub fn derived<M: Any + Send + Sync>(&self, make: impl FnOnce() -> Option<M>) -> Option<&M> {
        if let Some(kept) = self.kept.get() {
            return kept.downcast_ref();
        }
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        if reads < READS_BEFORE_DERIVING.saturating_pow(self.lost.saturating_add(1)) {
            return None;
        }
        // Another thread that was faster has made it from the same bytes.
        let _ = self.kept.set(Box::new(make()?));
        self.kept.get()?.downcast_ref()
    }

    /// Resets the notes: the bytes are about to be written.
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
    fn derived_objects_are_kept_after_many_reads_and_dropped_on_a_write() {
        let mut notes = Notes::default();
        for reads in [16, 256] {
            for _ in 0..reads {
                assert_eq!(notes.derived(|| Some(7u8)), None);
            }
            // It is made once, and an object of another type is not there.
            assert_eq!(notes.derived(|| None::<u8>), None);
            assert_eq!(notes.derived(|| Some(8u8)), Some(&8));
            assert_eq!(notes.derived(|| Some(9u8)), Some(&8));
            assert_eq!(notes.derived(|| Some(9u16)), None);
            notes.forget();
        }
    }
}
