//! Buffers that are lent, by token.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};

use thalweg_tensor::Buffer;

use crate::runtime::lock::locked;

/// Values from this size on are lent, in bytes: a loan takes messages of its own.
pub(crate) const MIN_LENT_BYTES: usize = thalweg_tensor::MIN_SHARED_BYTES;

/// All that a task lends, to whoever it is.
#[derive(Debug, Default)]
pub(crate) struct LoanTable {
    random: RandomState,
    lent: Mutex<OpenLoans>,
    /// Whether it never answers who asks for a descriptor.
    #[cfg(test)]
    pub(crate) mute: std::sync::atomic::AtomicBool,
}

#[derive(Debug, Default)]
struct OpenLoans {
    count: u64,
    /// By token, which is random: a receiver asks for what was lent to it.
    all: BTreeMap<u64, Arc<Buffer>>,
}

impl LoanTable {
    fn lent(&self) -> MutexGuard<'_, OpenLoans> {
        locked(&self.lent)
    }

    /// Lends what lies in this buffer; gives the token of the loan.
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

    /// What is lent by this token.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "nobody asks"))]
    pub(super) fn buffer(&self, token: u64) -> Option<Arc<Buffer>> {
        self.lent().all.get(&token).cloned()
    }

    #[cfg(test)]
    pub(super) fn is_mute(&self) -> bool {
        self.mute.load(std::sync::atomic::Ordering::SeqCst)
    }

    /// Ends a loan.
    pub(super) fn back(&self, token: u64) -> Option<Arc<Buffer>> {
        self.lent().all.remove(&token)
    }
}
