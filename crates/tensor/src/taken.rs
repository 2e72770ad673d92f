//! Bytes of an account that one thing has taken.

use std::sync::Arc;

use crate::buffer::Memory;

/// Bytes of a memory that are given back when this is dropped: for what is no [`Buffer`](crate::Buffer) and grows
/// as a graph tells it to.
///
/// ```
/// use std::sync::Arc;
/// use thalweg_tensor::{Memory, Taken};
///
/// let memory = Arc::new(Memory::new(Some(100)));
/// let mut taken = Taken::of(Some(&memory));
/// assert!(taken.more(80) && !taken.more(30) && memory.used() == 80);
/// drop(taken);
/// assert_eq!(memory.used(), 0);
/// ```
pub struct Taken {
    memory: Option<Arc<Memory>>,
    bytes: usize,
}

impl Taken {
    /// No bytes yet of this memory; without one, nothing is counted.
    pub fn of(memory: Option<&Arc<Memory>>) -> Taken {
        Taken {
            memory: memory.cloned(),
            bytes: 0,
        }
    }

    /// Takes so many bytes more; false where the limit does not allow it.
    pub fn more(&mut self, bytes: usize) -> bool {
        let may = self.memory.as_ref().is_none_or(|m| m.more(bytes));
        if may {
            self.bytes += bytes;
        }
        may
    }

    /// Gives so many of them back.
    pub fn less(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.memory.iter().for_each(|m| m.less(bytes));
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.less(self.bytes);
    }
}
