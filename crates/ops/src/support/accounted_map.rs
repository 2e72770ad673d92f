//! Hash maps whose size the graph determines: their bytes count against a memory account.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use foldhash::fast::RandomState;
use thalweg_device::KernelError;
use thalweg_tensor::{Memory, Reservation};

/// A map that reserves its memory before it grows; exceeding the limit or the system's memory is an error.
pub(crate) struct AccountedMap<K, V> {
    entries: HashMap<K, V, RandomState>,
    held: Reservation,
}

impl<K: Eq + Hash, V: Copy> AccountedMap<K, V> {
    /// An empty map.
    pub(crate) fn new(memory: &Arc<Memory>) -> AccountedMap<K, V> {
        AccountedMap {
            entries: HashMap::default(),
            held: Reservation::of(Some(memory)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// The value of a key, which is `value` if it is new; `key_bytes` is the memory of the key behind pointers.
    ///
    /// # Errors
    /// There is no memory for another entry.
    pub(crate) fn or_insert(
        &mut self,
        key: K,
        value: V,
        key_bytes: usize,
    ) -> Result<V, KernelError> {
        self.make_room(key_bytes)?;
        Ok(*self.entries.entry(key).or_insert(value))
    }

    /// The value of a key.
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).copied()
    }

    /// Removes a key, whose memory behind pointers is `key_bytes`.
    pub(crate) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, key_bytes: usize) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let removed = self.entries.remove(key)?;
        self.held.shrink(key_bytes);
        Some(removed)
    }

    /// All entries, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, V)> {
        self.entries.iter().map(|(key, value)| (key, *value))
    }

    fn make_room(&mut self, key_bytes: usize) -> Result<(), KernelError> {
        let full = self.entries.len() == self.entries.capacity();
        let more = if full { self.entries.len().max(16) } else { 0 };
        // A table has a byte beside each entry, is at least seven eighths full when it doubles, and is copied then.
        let bytes = more * 3 * (size_of::<(K, V)>() + 1) + key_bytes;
        if self.held.grow(bytes) && self.entries.try_reserve(more).is_ok() {
            return Ok(());
        }
        Err(KernelError::Memory { bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_stops_growing_at_the_limit_of_its_memory() {
        let memory = Arc::new(Memory::new(Some(10_000)));
        let mut map = AccountedMap::new(&memory);
        let mut insert = |key: u64| map.or_insert(key, key, 0);
        assert!((0..16).all(|key| insert(key % 8).is_ok_and(|found| found == key % 8)));
        assert!((0..10_000).any(|key| insert(key).is_err()));
        assert!(memory.used() <= 10_000);
        drop(map);
        assert_eq!(memory.used(), 0);
    }
}
