//! The elements of a string tensor.

use crate::reservation::Reservation;

/// The approximate overhead of a string: its pointer, and the system allocator's.
pub(super) const STRING_OVERHEAD: usize = size_of::<Box<[u8]>>() + 16;

/// The strings of a tensor.
pub(super) struct Strings {
    pub(super) all: Box<[Box<[u8]>]>,
    /// Held for its drop.
    pub(super) _taken: Reservation,
}

impl Strings {
    /// Strings that count against no memory.
    pub(super) fn uncounted(all: Box<[Box<[u8]>]>) -> Strings {
        Strings {
            all,
            _taken: Reservation::of(None),
        }
    }

    /// The bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        self.all.iter().map(|s| s.len() + STRING_OVERHEAD).sum()
    }
}
