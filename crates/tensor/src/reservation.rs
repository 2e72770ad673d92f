//! A reservation of bytes against a memory account.

use std::sync::Arc;

use crate::buffer::Memory;

/// Bytes counted against a memory account until this is dropped: for objects other than
/// [`Buffer`](crate::Buffer)s that grow as a graph or a caller demands.
///
/// ```
/// use std::sync::Arc;
/// use thalweg_tensor::{Memory, Reservation};
///
/// let memory = Arc::new(Memory::new(Some(100)));
/// let mut taken = Reservation::of(Some(&memory));
/// assert!(taken.grow(80) && !taken.grow(30) && memory.used() == 80);
/// drop(taken);
/// assert_eq!(memory.used(), 0);
/// ```
pub struct Reservation {
    memory: Option<Arc<Memory>>,
    bytes: usize,
}

impl Reservation {
    /// An empty reservation in this memory; without one, nothing is counted.
    pub fn of(memory: Option<&Arc<Memory>>) -> Reservation {
        Reservation {
            memory: memory.cloned(),
            bytes: 0,
        }
    }

    /// Another reservation of as many bytes; `None` if the limit does not allow it.
    pub fn try_clone(&self) -> Option<Reservation> {
        let mut other = Reservation::of(self.memory.as_ref());
        other.grow(self.bytes).then_some(other)
    }

    /// The reserved bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The limit of the account; `None` without one.
    pub fn limit(&self) -> Option<usize> {
        self.memory.as_ref()?.limit()
    }

    /// Reserves `bytes` more; `false` if that would exceed the limit.
    pub fn grow(&mut self, bytes: usize) -> bool {
        // The account is shared: a loop that mostly asks for nothing leaves it alone.
        if bytes == 0 {
            return true;
        }
        let may = self.memory.as_ref().is_none_or(|m| m.grow(bytes));
        if may {
            self.bytes += bytes;
        }
        may
    }

    /// Releases `bytes`, at most all that are reserved.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.memory.iter().for_each(|m| m.shrink(bytes));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_share_the_limit_of_their_account() {
        let memory = Arc::new(Memory::new(Some(10)));
        let [mut first, mut second] = [(); 2].map(|()| Reservation::of(Some(&memory)));
        assert!(first.grow(6) && !second.grow(5) && !second.grow(usize::MAX));
        assert!(second.grow(4) && !second.grow(1));
        first.shrink(1);
        assert!(second.grow(1));
        assert_eq!((first.bytes(), second.bytes(), memory.used()), (5, 5, 10));
        // At most all that it has.
        first.shrink(7);
        assert_eq!((first.bytes(), memory.used()), (0, 5));
        drop((first, second));
        assert_eq!(memory.used(), 0);
    }
}
