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

#[cfg(test)]
mod tests {
    use super::*;

    use smallvec::smallvec;
    use thalweg_graph::{NodeId, OutputId};
    use thalweg_tensor::{DType, Dims};

    use crate::request::Fetch;

    /// A cache with plans 0, 1, ... of these keys.
    fn filled<K: Clone + Eq + Hash>(most: usize, keys: &[K]) -> PlanCache<K, usize> {
        let cache = PlanCache::new(most);
        for (i, key) in keys.iter().enumerate() {
            cache.keep(key.clone(), Arc::new(i));
        }
        cache
    }

    fn kept(cache: &PlanCache<&str, usize>, keys: &[&'static str]) -> Vec<bool> {
        keys.iter().map(|k| cache.get(k).is_some()).collect()
    }

    #[test]
    fn a_plan_is_found_by_the_same_fetches_and_feeds_alone() {
        type Key = (Vec<Fetch>, Vec<(DType, Dims)>);
        let output = |index| OutputId {
            node: NodeId::INVALID,
            index,
        };
        let key = |fetches: &[Fetch], dtype, dims: Dims| -> Key {
            (fetches.to_vec(), vec![(dtype, dims)])
        };
        let (value, run) = (Fetch::Value(output(0)), Fetch::Run(NodeId::INVALID));
        let cache = filled(8, &[key(&[value], DType::F32, smallvec![2, 3])]);
        let cases = [
            (key(&[value], DType::F32, smallvec![2, 3]), Some(0)),
            (key(&[value], DType::F64, smallvec![2, 3]), None),
            (key(&[value], DType::F32, smallvec![3, 2]), None),
            (key(&[value], DType::F32, smallvec![2, 3, 1]), None),
            (
                key(&[Fetch::Value(output(1))], DType::F32, smallvec![2, 3]),
                None,
            ),
            (key(&[run], DType::F32, smallvec![2, 3]), None),
            (key(&[value, value], DType::F32, smallvec![2, 3]), None),
            (key(&[], DType::F32, smallvec![2, 3]), None),
        ];
        for (key, expected) in cases {
            assert_eq!(cache.get(&key).map(|plan| *plan), expected, "{key:?}");
        }
    }

    #[test]
    fn the_least_recently_used_plan_is_evicted_first() {
        let cache = filled(2, &["a", "b"]);
        cache.get(&"a");
        cache.keep("c", Arc::new(2));
        assert_eq!(kept(&cache, &["a", "b", "c"]), [true, false, true]);
        cache.get(&"a");
        cache.keep("d", Arc::new(3));
        assert_eq!(kept(&cache, &["a", "c", "d"]), [true, false, true]);
    }

    #[test]
    fn there_is_room_for_one_plan_at_least() {
        let cache = filled(0, &["a"]);
        assert_eq!(kept(&cache, &["a"]), [true]);
    }

    #[test]
    fn of_two_plans_that_were_made_at_once_the_first_is_kept() {
        let cache = filled(2, &["a"]);
        assert_eq!(*cache.keep("a", Arc::new(7)), 0);
        assert_eq!(cache.get(&"a").as_deref(), Some(&0));
    }

    #[test]
    fn a_cleared_cache_has_no_plans_and_a_holder_keeps_its_own() {
        let cache = filled(3, &["a", "b"]);
        let held = cache.get(&"b");
        let mut seen = Vec::new();
        cache.for_each(|plan| seen.push(**plan));
        seen.sort_unstable();
        assert_eq!(seen, [0, 1]);
        cache.clear();
        cache.for_each(|_| panic!("it is empty"));
        assert_eq!(
            (kept(&cache, &["a", "b"]), held.as_deref()),
            (vec![false, false], Some(&1))
        );
    }
}
