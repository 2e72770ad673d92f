//! A bounded cache of plans.

use std::hash::Hash;
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;
use thalweg_tensor::sync::Unpoisoned;

/// A bounded number of plans. The least recently used one is evicted first.
pub struct PlanCache<K, P> {
    most: usize,
    kept: Mutex<Kept<K, P>>,
}

struct Kept<K, P> {
    // A fast hash, though peers choose dimensions: there are few entries, whatever their keys.
    entries: FxHashMap<K, Entry<P>>,
    clock: u64,
}

struct Entry<P> {
    plan: Arc<P>,
    used: u64,
}

impl<K: Clone + Eq + Hash, P> PlanCache<K, P> {
    /// Room for at most so many plans, and for one at least.
    pub fn new(most: usize) -> PlanCache<K, P> {
        PlanCache {
            most: most.max(1),
            kept: Mutex::new(Kept {
                entries: FxHashMap::default(),
                clock: 0,
            }),
        }
    }

    /// Returns the cached plan of `key`.
    pub fn get(&self, key: &K) -> Option<Arc<P>> {
        let mut kept = self.kept.lock().unpoisoned();
        kept.clock += 1;
        let clock = kept.clock;
        let entry = kept.entries.get_mut(key)?;
        entry.used = clock;
        Some(entry.plan.clone())
    }

    /// Stores a plan, and returns the stored one: of two that were made at once the first.
    pub fn keep(&self, key: K, plan: Arc<P>) -> Arc<P> {
        // Evicted plans are dropped without the lock.
        let mut dropped = Vec::new();
        let mut kept = self.kept.lock().unpoisoned();
        let used = kept.clock;
        let entry = kept.entries.entry(key).or_insert(Entry { plan, used });
        let plan = entry.plan.clone();
        while kept.entries.len() > self.most {
            let oldest = kept.entries.iter().min_by_key(|(_, e)| e.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                break;
            };
            dropped.extend(kept.entries.remove(&oldest));
        }
        drop(kept);
        plan
    }

    /// Removes all plans.
    pub fn clear(&self) {
        let mut kept = self.kept.lock().unpoisoned();
        let dropped = std::mem::take(&mut kept.entries);
        drop(kept);
        drop(dropped);
    }

    /// Calls `look` with every cached plan.
    pub fn for_each(&self, look: impl FnMut(&Arc<P>)) {
        let kept = self.kept.lock().unpoisoned();
        kept.entries.values().map(|e| &e.plan).for_each(look);
    }
}
