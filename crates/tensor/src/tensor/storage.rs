//! The elements of a string tensor.

use super::string_list::Strings;
use crate::reservation::Reservation;

/// The overhead of a string in bytes: its end.
pub(super) const STRING_OVERHEAD: usize = size_of::<usize>();

/// The strings of a tensor: their bytes, one string after the other, and the end of each in them.
pub(super) struct StringStorage {
    pub(super) bytes: Box<[u8]>,
    pub(super) ends: Box<[usize]>,
    /// Held for its drop.
    pub(super) _taken: Reservation,
}

impl StringStorage {
    /// One string, which counts against no memory.
    pub(super) fn one(string: &[u8]) -> StringStorage {
        StringStorage {
            bytes: string.into(),
            ends: [string.len()].into(),
            _taken: Reservation::of(None),
        }
    }

    /// The strings.
    pub(super) fn view(&self) -> Strings<'_> {
        Strings::new(&self.bytes, &self.ends)
    }

    /// The bytes that they take.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + self.ends.len() * STRING_OVERHEAD
    }
}
