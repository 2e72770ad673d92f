//! Memory of values that come in: how much at a time, and that of large values that have come before, to
//! be filled again: memory that is new to a process is cleared by the system, which costs as much as a
//! copy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use thalweg_tensor::Buffer;

use super::wire_error::WireError;
use crate::limit_names::{FLIGHT_BYTES, VALUE_BYTES};
use crate::metrics::tally::Refusals;
use crate::runtime::lock::locked;

/// Values from this size on are kept in mind, in bytes.
const LEAST: usize = 64 << 10;
/// The most values that are.
const MOST: usize = 1024;

/// Buffers that were filled. Each is a tensor's for as long as there is one, and free then.
pub(crate) struct Spare {
    limit: usize,
    known: Mutex<Known>,
    /// The most bytes of values that have come in on calls which go on, and how many have.
    most: u64,
    flying: AtomicU64,
    refusals: Arc<Refusals>,
}

/// Bytes of values that have come in on one call, counted until this is dropped.
pub(crate) struct Flight(Arc<Spare>, u64);

impl Flight {
    /// Nothing has come in yet.
    pub(crate) fn new(spare: Arc<Spare>) -> Flight {
        Flight(spare, 0)
    }

    /// Lets so many bytes more come in.
    ///
    /// # Errors
    /// [`WireError::Flight`].
    pub(crate) fn more(&mut self, bytes: usize) -> Result<(), WireError> {
        let (bytes, most) = (bytes as u64, self.0.most);
        let more = |now: u64| now.checked_add(bytes).filter(|&n| n <= most);
        let taken = (self.0.flying).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map_err(|_| {
            let full = WireError::Flight { limit: most };
            self.0.refusals.limit(FLIGHT_BYTES, &full);
            full
        })?;
        self.1 += bytes;
        Ok(())
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.0.flying.fetch_sub(self.1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Known {
    buffers: Vec<Arc<Buffer>>,
    bytes: usize,
}

impl Spare {
    /// None yet; what is kept in mind has at most `limit` bytes, what comes in at a time `most`.
    pub(crate) fn new(limit: usize, most: u64, refusals: Arc<Refusals>) -> Spare {
        Spare {
            limit,
            known: Mutex::default(),
            most,
            flying: AtomicU64::new(0),
            refusals,
        }
    }

    /// A value that is not taken.
    pub(crate) fn refused(&self, error: WireError) -> WireError {
        if let WireError::Large { .. } = error {
            self.refusals.limit(VALUE_BYTES, &error);
        }
        error
    }

    /// How many bytes may come in at a time.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// Memory of this many bytes, whatever they are; none where the system has none.
    pub(crate) fn take(&self, bytes: usize) -> Option<Buffer> {
        if bytes >= LEAST {
            let mut known = locked(&self.known);
            let free = |b: &Arc<Buffer>| b.len() == bytes && Arc::strong_count(b) == 1;
            if let Some(at) = known.buffers.iter().position(free) {
                let buffer = known.buffers.remove(at);
                known.bytes -= bytes;
                // Nobody else has it: nothing can get hold of it but through this list.
                if let Ok(buffer) = Arc::try_unwrap(buffer) {
                    return Some(buffer);
                }
            }
        }
        Buffer::try_zeroed(bytes)
    }

    /// Keeps a buffer in mind that has been filled.
    pub(crate) fn keep(&self, buffer: &Arc<Buffer>) {
        let bytes = buffer.len();
        if bytes < LEAST || bytes > self.limit {
            return;
        }
        let mut known = locked(&self.known);
        // The oldest go first; a tensor that has one keeps it.
        while known.bytes + bytes > self.limit || known.buffers.len() >= MOST {
            let old = known.buffers.remove(0);
            known.bytes -= old.len();
        }
        known.bytes += bytes;
        known.buffers.push(buffer.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_again_when_nobody_has_it_any_more() {
        let spare = Spare::new(4 * LEAST, 0, Arc::default());
        let first = Arc::new(spare.take(LEAST).unwrap());
        let at = first.as_ptr();
        spare.keep(&first);
        // It is in use.
        let second = spare.take(LEAST).unwrap();
        assert_ne!(second.as_ptr(), at);
        drop(first);
        assert_eq!(spare.take(LEAST).unwrap().as_ptr(), at);
    }

    #[test]
    fn what_is_kept_in_mind_is_bounded() {
        let spare = Spare::new(3 * LEAST, 0, Arc::default());
        for _ in 0..10 {
            spare.keep(&Arc::new(spare.take(LEAST + 1).unwrap()));
            spare.keep(&Arc::new(spare.take(2 * LEAST).unwrap()));
            spare.keep(&Arc::new(spare.take(4 * LEAST).unwrap()));
        }
        let known = spare.known.lock().unwrap();
        assert!(known.bytes <= 3 * LEAST);
        let bytes: usize = known.buffers.iter().map(|b| b.len()).sum();
        assert_eq!(known.bytes, bytes);
    }

    #[test]
    fn what_comes_in_at_a_time_is_bounded() {
        let spare = Arc::new(Spare::new(0, 10, Arc::default()));
        let flight = || Flight::new(spare.clone());
        let (mut first, mut second) = (flight(), flight());
        first.more(6).unwrap();
        let full = second.more(5);
        assert!(matches!(full, Err(WireError::Flight { limit: 10 })));
        assert!(second.more(usize::MAX).is_err());
        second.more(3).unwrap();
        second.more(1).unwrap();
        drop(first);
        flight().more(6).unwrap();
        drop(second);
        flight().more(10).unwrap();
    }
}
