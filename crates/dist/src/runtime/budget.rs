//! A budget of memory, from which callers reserve before they allocate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limit of reserved bytes, and the bytes that are reserved.
pub(crate) struct MemoryBudget {
    most: u64,
    held: AtomicU64,
}

/// Bytes that one caller has reserved. A drop gives them back.
pub(crate) struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

/// The reservation would exceed the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BudgetExceeded {
    /// Limit of the budget, in bytes.
    pub(crate) most: u64,
}

impl MemoryBudget {
    pub(crate) fn new(most: u64) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget {
            most,
            held: AtomicU64::new(0),
        })
    }

    /// Returns the bytes that are reserved now.
    pub(crate) fn bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns a reservation of no bytes.
    pub(crate) fn reservation(self: &Arc<MemoryBudget>) -> Reservation {
        Reservation {
            budget: self.clone(),
            bytes: 0,
        }
    }
}

impl Reservation {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reserves `bytes` more.
    ///
    /// # Errors
    /// The budget would be exceeded; the reservation is unchanged.
    pub(crate) fn reserve(&mut self, bytes: u64) -> Result<(), BudgetExceeded> {
        let most = self.budget.most;
        let more = |now: u64| now.checked_add(bytes).filter(|&n| n <= most);
        let held = &self.budget.held;
        let taken = held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map_err(|_| BudgetExceeded { most })?;
        self.bytes += bytes;
        Ok(())
    }

    /// Gives back `bytes`, at most all that are reserved.
    pub(crate) fn release(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.budget.held.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes -= bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_grants_no_more_than_its_limit() {
        let budget = MemoryBudget::new(10);
        let (mut first, mut second) = (budget.reservation(), budget.reservation());
        first.reserve(6).unwrap();
        assert_eq!(second.reserve(5), Err(BudgetExceeded { most: 10 }));
        assert_eq!(second.reserve(u64::MAX), Err(BudgetExceeded { most: 10 }));
        second.reserve(4).unwrap();
        first.release(1);
        second.reserve(1).unwrap();
        assert_eq!((first.bytes(), budget.bytes()), (5, 10));
        drop(first);
        drop(second);
        assert_eq!(budget.bytes(), 0);
    }
}
