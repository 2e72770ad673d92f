//! Cached facts about a buffer's bytes: finiteness, and derived objects.

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
    derived: [Derived; 2],
}

/// An object derived from the bytes, such as a matrix in the order in which a kernel reads it.
#[derive(Debug, Default)]
struct Derived {
    /// The number of requests since the bytes were written.
    reads: AtomicU32,
    kept: OnceLock<Box<dyn Any + Send + Sync>>,
    /// The number of objects that were dropped, after few reads, because the bytes were written.
    lost: u32,
}

/// An object that was read this often is taken to have paid for itself.
const READS_THAT_PAY: u32 = 8;
/// Each object that has not paid for itself multiplies the reads before the next one is made by this number.
const PATIENCE: u32 = 16;

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

    /// The object of this number, 0 or 1, that is derived from the bytes and kept for later readers. If there is none yet,
    /// the bytes have been read `reads` times, and memory allows it, `make` makes it. There is one object of a number, the
    /// first that is made, until the bytes are written: `None` if it is of another type. Parameters in training are read a
    /// few times, by the replicas of a model, before they are written again: objects that were made in vain let later ones
    /// wait for more reads.
    pub fn derived<M: Any + Send + Sync>(
        &self,
        number: usize,
        reads: u32,
        make: impl FnOnce() -> Option<M>,
    ) -> Option<&M> {
        let derived = self.derived.get(number)?;
        let before = derived.reads.fetch_add(1, Ordering::Relaxed);
        if let Some(kept) = derived.kept.get() {
            return kept.downcast_ref();
        }
        if before < reads.saturating_mul(PATIENCE.saturating_pow(derived.lost)) {
            return None;
        }
        // Another thread that was faster has made it from the same bytes.
        let _ = derived.kept.set(Box::new(make()?));
        derived.reads.store(0, Ordering::Relaxed);
        derived.kept.get()?.downcast_ref()
    }

    /// Resets the notes: the bytes are about to be written.
    pub(crate) fn forget(&mut self) {
        *self.finite.get_mut() = 0;
        for derived in &mut self.derived {
            let reads = std::mem::take(derived.reads.get_mut());
            if derived.kept.take().is_some() {
                derived.lost = match reads < READS_THAT_PAY {
                    true => derived.lost.saturating_add(1),
                    false => 0,
                };
            }
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
                assert_eq!(notes.derived(0, 16, || Some(7u8)), None);
            }
            // It is made once, and an object of another type is not there.
            assert_eq!(notes.derived(0, 16, || None::<u8>), None);
            assert_eq!(notes.derived(0, 16, || Some(8u8)), Some(&8));
            assert_eq!(notes.derived(0, 16, || Some(9u8)), Some(&8));
            assert_eq!(notes.derived(0, 16, || Some(9u16)), None);
            // The other one counts its own reads.
            assert_eq!(notes.derived(1, 1, || Some(5u16)), None);
            notes.forget();
        }
        assert_eq!(notes.derived(2, 0, || Some(1u8)), None);
    }

    #[test]
    fn an_object_that_was_read_often_is_made_again_as_soon() {
        let mut notes = Notes::default();
        for _ in 0..3 {
            assert_eq!(notes.derived(1, 1, || Some(7u8)), None);
            for _ in 0..=READS_THAT_PAY {
                assert_eq!(notes.derived(1, 1, || Some(7u8)), Some(&7));
            }
            notes.forget();
        }
    }
}
