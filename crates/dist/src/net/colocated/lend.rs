//! What this process lends to others.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use thalweg_tensor::{Buffer, Tensor};
use tokio::runtime::Handle;

use super::link::Socket;
use crate::locked::locked;
use crate::net::messages as wire;

/// All that a task lends, to whoever it is.
#[derive(Debug, Default)]
pub(crate) struct Lender {
    /// Where receivers get descriptors, from the first that asks on; none where the system has no such
    /// socket.
    socket: OnceLock<Option<Socket>>,
    random: RandomState,
    lent: Mutex<Lent>,
    /// Whether it never answers who asks for a descriptor.
    #[cfg(test)]
    pub(crate) mute: std::sync::atomic::AtomicBool,
}

#[derive(Debug, Default)]
struct Lent {
    count: u64,
    /// By token, which is random: a receiver asks for what was lent to it.
    all: BTreeMap<u64, Arc<Buffer>>,
}

impl Lender {
    fn lent(&self) -> MutexGuard<'_, Lent> {
        locked(&self.lent)
    }

    /// Where receivers get descriptors. It listens on this runtime, has `most` connections at a time, and
    /// waits no longer than `patience` for what a receiver has to say or to take.
    pub(crate) fn socket(
        self: &Arc<Self>,
        runtime: &Handle,
        most: usize,
        patience: Duration,
    ) -> Option<wire::Colocation> {
        let listen = || Socket::listen(self, runtime, most, patience).ok();
        self.socket
            .get_or_init(listen)
            .as_ref()
            .map(Socket::message)
    }

    /// Lends what lies in this buffer; gives the token of the loan.
    fn lend(&self, buffer: Arc<Buffer>) -> u64 {
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

/// What is lent on one stream. What the receiver has not given back when this is dropped stays as it is for
/// good ([`Buffer::fix`]), and what would have been written there goes elsewhere.
#[derive(Debug)]
pub(crate) struct Loans {
    lender: Arc<Lender>,
    tokens: Vec<u64>,
}

impl Loans {
    /// None yet.
    pub(crate) fn new(lender: Arc<Lender>) -> Loans {
        Loans {
            lender,
            tokens: Vec::new(),
        }
    }

    /// Lends a tensor; none where it does not lie in a segment of this process.
    pub(crate) fn lend(&mut self, tensor: &Tensor) -> Option<wire::Loan> {
        let buffer = tensor.buffer()?;
        let segment = buffer.segment()?;
        let token = self.lender.lend(buffer.clone());
        self.tokens.push(token);
        Some(wire::Loan { token, segment })
    }

    /// Whether nothing was lent.
    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        for &token in &self.tokens {
            if let Some(buffer) = self.lender.back(token) {
                buffer.fix();
            }
        }
    }
}
