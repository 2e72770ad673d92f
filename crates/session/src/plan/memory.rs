//! One arena for all that a step computes: offsets from lifetimes, and who has to be waited for
//! when memory is used again.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use thalweg_graph::tensor::ALIGNMENT;

/// A part of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) offset: usize,
    pub(super) len: usize,
}

/// Lays blocks out while a sequence is walked.
///
/// Memory that is given back remembers the steps that touched it last: a step that takes it again
/// waits for them, whatever order threads run them in.
#[derive(Default)]
pub(super) struct Arena {
    /// Free memory: offset to length and the steps that touched it last.
    free: BTreeMap<usize, (usize, SmallVec<[u32; 4]>)>,
    len: usize,
}

impl Arena {
    /// The bytes that the arena needs.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// A block of at least `bytes`; whoever has touched its memory is added to `waits_for`.
    pub(super) fn take(&mut self, bytes: usize, waits_for: &mut Vec<u32>) -> Block {
        let len = bytes.max(1).next_multiple_of(ALIGNMENT);
        // The smallest hole that is large enough; of equal ones the first.
        let hole = self
            .free
            .iter()
            .filter(|(_, (l, _))| *l >= len)
            .min_by_key(|(_, (l, _))| *l)
            .map(|(&o, _)| o);
        if let Some(offset) = hole
            && let Some((hole_len, touched)) = self.free.remove(&offset)
        {
            waits_for.extend(&touched);
            if hole_len > len {
                self.free.insert(offset + len, (hole_len - len, touched));
            }
            return Block { offset, len };
        }
        // No hole is large enough: grow, over a hole at the end where there is one.
        let end = self.free.last_key_value().map(|(&o, (l, _))| (o, *l));
        let offset = match end {
            Some((o, l)) if o + l == self.len => {
                if let Some((_, touched)) = self.free.remove(&o) {
                    waits_for.extend(&touched);
                }
                o
            }
            _ => self.len,
        };
        self.len = offset + len;
        Block { offset, len }
    }

    /// Gives a block back, last touched by the steps `touched`.
    pub(super) fn give(&mut self, block: Block, touched: &[u32]) {
        let (mut offset, mut len) = (block.offset, block.len);
        let mut all: SmallVec<[u32; 4]> = SmallVec::from_slice(touched);
        if let Some((&o, &(l, _))) = self.free.range(..offset).next_back()
            && o + l == offset
            && let Some((_, t)) = self.free.remove(&o)
        {
            (offset, len) = (o, l + len);
            all.extend(t);
        }
        if let Some((l, t)) = self.free.remove(&(offset + len)) {
            len += l;
            all.extend(t);
        }
        all.sort_unstable();
        all.dedup();
        self.free.insert(offset, (len, all));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memory_that_is_taken_again_waits_for_who_touched_it() {
        let mut arena = Arena::default();
        let mut waits = Vec::new();
        let a = arena.take(100, &mut waits);
        let b = arena.take(100, &mut waits);
        assert!(waits.is_empty());
        arena.give(a, &[1, 2]);
        arena.give(b, &[3]);
        arena.take(200, &mut waits);
        assert_eq!(waits, [1, 2, 3]);
        assert_eq!(arena.len(), 256);
    }

    proptest! {
        #[test]
        fn live_blocks_never_overlap(sizes in proptest::collection::vec((1usize..500, 0usize..6), 1..60)) {
            let mut arena = Arena::default();
            let mut live: Vec<Block> = Vec::new();
            for (i, (size, drop)) in sizes.into_iter().enumerate() {
                let block = arena.take(size, &mut Vec::new());
                prop_assert!(block.offset + block.len <= arena.len());
                for other in &live {
                    prop_assert!(block.offset + block.len <= other.offset || other.offset + other.len <= block.offset);
                }
                live.push(block);
                if drop < live.len() {
                    arena.give(live.swap_remove(drop), &[i as u32]);
                }
            }
        }
    }
}
