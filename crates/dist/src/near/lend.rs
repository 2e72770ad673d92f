//! What this process lends to others.
//!
//! Who copies a value looks at a mark beside it once it has the bytes: the mark goes before the bytes may
//! change. Who maps it needs no mark: where it does not say that it reads the value no more, its bytes stay
//! as they are for good ([`Buffer::fix`]), and what would have been written there goes elsewhere.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use thalweg_tensor::Buffer;

use crate::wire::messages as wire;

/// Bytes that another process may read here.
#[derive(Debug)]
pub(crate) struct Loan {
    bytes: Bytes,
    token: u64,
    mark: Box<AtomicU64>,
    /// Where they lie, if the other process may map them.
    shared: Option<Arc<Buffer>>,
}

impl Loan {
    /// Of bytes that lie in this buffer, and nowhere else, if there is one.
    pub(crate) fn new(bytes: Bytes, shared: Option<Arc<Buffer>>) -> Loan {
        // Another value than whatever was or will be there.
        let token = RandomState::new().hash_one(bytes.len()) | 1;
        Loan {
            bytes,
            token,
            mark: Box::new(AtomicU64::new(token)),
            shared,
        }
    }

    pub(crate) fn message(&self) -> wire::Loan {
        let segment = self.shared.as_ref().and_then(|b| b.segment());
        wire::Loan {
            at: self.bytes.as_ptr().expose_provenance() as u64,
            mark: self.mark.as_ptr().expose_provenance() as u64,
            token: self.token,
            segment: segment.map(|s| wire::Segment {
                descriptor: s.descriptor,
                inode: s.inode,
            }),
        }
    }

    /// It is read no more.
    fn back(mut self) {
        self.shared = None;
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        // Before anybody can write to the bytes.
        self.mark.store(0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if let Some(buffer) = &self.shared {
            buffer.fix();
        }
    }
}

/// What is lent on one stream, by token.
#[derive(Debug)]
pub(crate) struct Loans {
    /// Whether what lies in shared memory may be mapped: where the receiver says what it reads no more.
    mapped: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    all: BTreeMap<u64, Loan>,
    /// Whether the receiver has said all that it will.
    ended: bool,
    waker: Option<Waker>,
}

impl Loans {
    /// None yet.
    pub(crate) fn new(mapped: bool) -> Loans {
        Loans {
            mapped,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends these bytes, those of the buffer, if they lie in one.
    pub(crate) fn lend(&self, bytes: Bytes, buffer: Option<&Arc<Buffer>>) -> wire::Loan {
        let shared = buffer.filter(|b| self.mapped && b.segment().is_some());
        let loan = Loan::new(bytes, shared.cloned());
        let message = loan.message();
        self.state().all.insert(loan.token, loan);
        message
    }

    /// The receiver reads no more what it knows by this token.
    pub(crate) fn taken(&self, token: u64) {
        let loan = self.state().all.remove(&token);
        if let Some(loan) = loan {
            loan.back();
        }
    }

    /// The receiver has said all that it will.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits until it has.
    pub(crate) fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.ended {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}
