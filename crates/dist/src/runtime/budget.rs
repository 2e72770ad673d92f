//! Memory that is held for callers, counted before it is asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many bytes may be held at a time, and how many are.
pub(crate) struct Account {
    most: u64,
    held: AtomicU64,
}

/// Bytes that one caller holds, counted until this is dropped.
pub(crate) struct Held {
    account: Arc<Account>,
    bytes: u64,
}

/// The account would hold more than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    /// How many bytes it may hold.
    pub(crate) most: u64,
}

impl Account {
    pub(crate) fn new(most: u64) -> Arc<Account> {
        Arc::new(Account {
            most,
            held: AtomicU64::new(0),
        })
    }

    /// How many bytes are held now.
    pub(crate) fn bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Nothing is held yet.
    pub(crate) fn open(self: &Arc<Account>) -> Held {
        Held {
            account: self.clone(),
            bytes: 0,
        }
    }
}

impl Held {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Holds so many bytes more.
    ///
    /// # Errors
    /// The account is full; as much is held as before.
    pub(crate) fn more(&mut self, bytes: u64) -> Result<(), Full> {
        let most = self.account.most;
        let more = |now: u64| now.checked_add(bytes).filter(|&n| n <= most);
        let held = &self.account.held;
        let taken = held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map_err(|_| Full { most })?;
        self.bytes += bytes;
        Ok(())
    }

    /// Gives so many bytes back, or all that there are.
    pub(crate) fn less(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.account.held.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes -= bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.less(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_holds_as_much_as_it_may() {
        let account = Account::new(10);
        let (mut first, mut second) = (account.open(), account.open());
        first.more(6).unwrap();
        assert_eq!(second.more(5), Err(Full { most: 10 }));
        assert_eq!(second.more(u64::MAX), Err(Full { most: 10 }));
        second.more(4).unwrap();
        first.less(1);
        second.more(1).unwrap();
        assert_eq!((first.bytes(), account.bytes()), (5, 10));
        drop(first);
        drop(second);
        assert_eq!(account.bytes(), 0);
    }
}
