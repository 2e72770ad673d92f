//! Memory of incoming values: bounds the bytes in flight, and reuses the buffers of large values. Memory that is new
//! to a process is cleared by the system, which costs as much as a copy.

use std::sync::{Arc, Mutex};

use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{Buffer, Memory, Reservation};

use super::wire_error::WireError;
use crate::limits::settings::limit_name;
use crate::metrics::tally::Refusals;

/// Minimum size of a pooled buffer, in bytes.
const MIN_POOLED_BYTES: usize = 64 << 10;
/// Maximum number of pooled buffers.
const MAX_POOLED_BUFFERS: usize = 1024;

/// Pool of filled buffers. A buffer is in use while a tensor has it, and free afterwards.
pub(crate) struct BufferPool {
    limit: usize,
    known: Mutex<PooledBuffers>,
    /// Account of the bytes in flight: received on calls that have not ended.
    flight: Arc<Memory>,
    refusals: Arc<Refusals>,
}

/// Bytes in flight of one call. A drop gives them back.
pub(crate) struct InFlightBytes {
    taken: Reservation,
    pool: Arc<BufferPool>,
}

impl InFlightBytes {
    /// Returns a count of no bytes.
    pub(crate) fn new(pool: Arc<BufferPool>) -> InFlightBytes {
        InFlightBytes {
            taken: Reservation::of(Some(&pool.flight)),
            pool,
        }
    }

    /// Counts `bytes` more.
    ///
    /// # Errors
    /// [`WireError::Flight`].
    pub(crate) fn more(&mut self, bytes: usize) -> Result<(), WireError> {
        if self.taken.grow(bytes) {
            return Ok(());
        }
        let full = WireError::Flight {
            limit: self.pool.most(),
        };
        let refusals = &self.pool.refusals;
        refusals.count_limit(const { limit_name("flight_bytes") }, &full);
        Err(full)
    }
}

#[derive(Default)]
struct PooledBuffers {
    buffers: Vec<Arc<Buffer>>,
    bytes: usize,
}

impl BufferPool {
    /// Returns an empty pool. `limit` bounds the bytes of pooled buffers, `flight` those in flight.
    pub(crate) fn new(limit: usize, flight: Arc<Memory>, refusals: Arc<Refusals>) -> BufferPool {
        BufferPool {
            limit,
            known: Mutex::default(),
            flight,
            refusals,
        }
    }

    /// Counts a refused value, and returns the error.
    pub(crate) fn refused(&self, error: WireError) -> WireError {
        if let WireError::Large { .. } = error {
            self.refusals
                .count_limit(const { limit_name("value_bytes") }, &error);
        }
        error
    }

    /// Returns the limit of the bytes in flight.
    pub(crate) fn most(&self) -> u64 {
        self.flight.limit().unwrap_or(usize::MAX) as u64
    }

    /// Returns a buffer of this length, with arbitrary contents. `None` if the system has no memory.
    pub(crate) fn take(&self, bytes: usize) -> Option<Buffer> {
        if bytes >= MIN_POOLED_BYTES {
            let mut known = self.known.lock().unpoisoned();
            let free = |b: &Arc<Buffer>| b.len() == bytes && Arc::strong_count(b) == 1;
            if let Some(at) = known.buffers.iter().position(free) {
                let buffer = known.buffers.remove(at);
                known.bytes -= bytes;
                // No other reference exists: new ones are made through this list only.
                if let Ok(buffer) = Arc::try_unwrap(buffer) {
                    return Some(buffer);
                }
            }
        }
        Buffer::try_zeroed(bytes)
    }

    /// Adds a filled buffer.
    pub(crate) fn keep(&self, buffer: &Arc<Buffer>) {
        let bytes = buffer.len();
        if bytes < MIN_POOLED_BYTES || bytes > self.limit {
            return;
        }
        let mut known = self.known.lock().unpoisoned();
        // The oldest buffers are removed first; a tensor keeps its buffer.
        while known.bytes + bytes > self.limit || known.buffers.len() >= MAX_POOLED_BUFFERS {
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
    use crate::limits::server_limits::memory_account;

    #[test]
    fn a_free_buffer_is_reused() {
        let pool = BufferPool::new(4 * MIN_POOLED_BYTES, memory_account(0), Arc::default());
        let first = Arc::new(pool.take(MIN_POOLED_BYTES).unwrap());
        let at = first.as_ptr();
        pool.keep(&first);
        // It is in use.
        let second = pool.take(MIN_POOLED_BYTES).unwrap();
        assert_ne!(second.as_ptr(), at);
        drop(first);
        assert_eq!(pool.take(MIN_POOLED_BYTES).unwrap().as_ptr(), at);
    }

    #[test]
    fn the_pool_is_bounded() {
        let pool = BufferPool::new(3 * MIN_POOLED_BYTES, memory_account(0), Arc::default());
        for _ in 0..10 {
            pool.keep(&Arc::new(pool.take(MIN_POOLED_BYTES + 1).unwrap()));
            pool.keep(&Arc::new(pool.take(2 * MIN_POOLED_BYTES).unwrap()));
            pool.keep(&Arc::new(pool.take(4 * MIN_POOLED_BYTES).unwrap()));
        }
        let known = pool.known.lock().unwrap();
        assert!(known.bytes <= 3 * MIN_POOLED_BYTES);
        let bytes: usize = known.buffers.iter().map(|b| b.len()).sum();
        assert_eq!(known.bytes, bytes);
    }

    #[test]
    fn bytes_in_flight_are_bounded() {
        let pool = Arc::new(BufferPool::new(0, memory_account(10), Arc::default()));
        let flight = || InFlightBytes::new(pool.clone());
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
