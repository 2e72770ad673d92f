//! A reservation of bytes against a memory account.

use std::sync::Arc;

use crate::buffer::Memory;

/// Bytes counted against a memory account until this is dropped: for objects other than
/// [`Buffer`](crate::Buffer)s that grow as a graph demands.
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

    /// Reserves `bytes` more; `false` if that would exceed the limit.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let may = self.memory.as_ref().is_none_or(|m| m.grow(bytes));
        if may {
            self.bytes += bytes;
        }
        may
    }

    /// Releases `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.memory.iter().for_each(|m| m.shrink(bytes));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}
