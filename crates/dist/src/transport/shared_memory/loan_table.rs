//! Table of the buffers that co-located tasks may map (loans), by token.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};

use thalweg_tensor::Buffer;
use thalweg_tensor::sync::Unpoisoned;

/// Minimum size of a lent value, in bytes: a loan takes messages of its own.
pub(crate) const MIN_LENT_BYTES: usize = thalweg_tensor::MIN_SHARED_BYTES;

/// Open loans of a task, to all receivers.
#[derive(Debug, Default)]
pub(crate) struct LoanTable {
    random: RandomState,
    lent: Mutex<OpenLoans>,
    /// `true` to leave requests for descriptors unanswered.
    #[cfg(test)]
    pub(crate) mute: std::sync::atomic::AtomicBool,
}

#[derive(Debug, Default)]
struct OpenLoans {
    count: u64,
    /// By token. Tokens are random: a receiver can request only its own loans.
    all: BTreeMap<u64, Arc<Buffer>>,
}

impl LoanTable {
    fn lent(&self) -> MutexGuard<'_, OpenLoans> {
        self.lent.lock().unpoisoned()
    }

    /// Lends this buffer. Returns the token of the loan.
    pub(super) fn lend(&self, buffer: Arc<Buffer>) -> u64 {
        let mut lent = self.lent();
        loop {
            lent.count += 1;
            let token = self.random.hash_one(lent.count);
            if let std::collections::btree_map::Entry::Vacant(room) = lent.all.entry(token) {
                room.insert(buffer);
                return token;
            }
        }
    }

    /// Returns the buffer of this loan.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "nobody asks"))]
    pub(super) fn buffer(&self, token: u64) -> Option<Arc<Buffer>> {
        self.lent().all.get(&token).cloned()
    }

    #[cfg(test)]
    pub(super) fn is_mute(&self) -> bool {
        self.mute.load(std::sync::atomic::Ordering::SeqCst)
    }

    /// Ends a loan and returns its buffer.
    pub(super) fn end_loan(&self, token: u64) -> Option<Arc<Buffer>> {
        self.lent().all.remove(&token)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_found_by_the_token_of_an_open_loan_only() {
        let table = LoanTable::default();
        let buffer = Arc::new(Buffer::zeroed(16));
        let (first, second) = (table.lend(buffer.clone()), table.lend(buffer.clone()));
        assert_ne!(first, second);
        let is_open = |token| {
            table
                .buffer(token)
                .is_some_and(|b| Arc::ptr_eq(&b, &buffer))
        };
        assert!(is_open(first) && is_open(second) && !is_open(first ^ second));
        assert!(table.end_loan(first).is_some());
        assert!(table.end_loan(first).is_none());
        assert!(!is_open(first) && is_open(second));
    }
}
