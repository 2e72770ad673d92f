//! One arena for all that a step computes: offsets from lifetimes, and who has to be waited for
//! when memory is used again.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

/// A part of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) offset: usize,
    pub(super) len: usize,
}

/// Lays blocks out while a sequence is walked.
///
/// Memory that is given back remembers the steps that touched it last: a step that takes it again
/// waits for them, whatever order threads run them in. Taking and giving take logarithmic time.
pub(super) struct Arena {
    /// What offsets are multiples of.
    alignment: usize,
    /// Free memory that hangs together: offset to length.
    holes: BTreeMap<usize, usize>,
    /// The same by length, to find the smallest that is large enough.
    by_len: BTreeSet<(usize, usize)>,
    /// Free memory as it was given back: offset to length and the steps that touched it last.
    pieces: BTreeMap<usize, (usize, SmallVec<[u32; 4]>)>,
    len: usize,
}

impl Arena {
    /// An arena whose blocks begin at multiples of `alignment`.
    pub(super) fn new(alignment: usize) -> Arena {
        Arena {
            alignment,
            holes: BTreeMap::new(),
            by_len: BTreeSet::new(),
            pieces: BTreeMap::new(),
            len: 0,
        }
    }

    /// The bytes that the arena needs.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// A block of at least `bytes`; whoever has touched its memory is added to `waits_for`.
    pub(super) fn take(&mut self, bytes: usize, waits_for: &mut Vec<u32>) -> Block {
        let len = bytes.max(1).next_multiple_of(self.alignment);
        // The smallest hole that is large enough; of equal ones the first.
        if let Some(&(hole, offset)) = self.by_len.range((len, 0)..).next() {
            self.remove_hole(offset, hole);
            if hole > len {
                self.add_hole(offset + len, hole - len);
            }
            self.take_pieces(offset, offset + len, waits_for);
            return Block { offset, len };
        }
        // No hole is large enough: grow, over a hole at the end where there is one.
        let end = self.holes.last_key_value().map(|(&o, &l)| (o, l));
        let offset = match end {
            Some((o, l)) if o + l == self.len => {
                self.remove_hole(o, l);
                self.take_pieces(o, o + l, waits_for);
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
        self.pieces
            .insert(offset, (len, SmallVec::from_slice(touched)));
        if let Some((&o, &l)) = self.holes.range(..offset).next_back()
            && o + l == offset
        {
            self.remove_hole(o, l);
            (offset, len) = (o, l + len);
        }
        if let Some(&l) = self.holes.get(&(offset + len)) {
            self.remove_hole(offset + len, l);
            len += l;
        }
        self.add_hole(offset, len);
    }

    fn add_hole(&mut self, offset: usize, len: usize) {
        self.holes.insert(offset, len);
        self.by_len.insert((len, offset));
    }

    fn remove_hole(&mut self, offset: usize, len: usize) {
        self.holes.remove(&offset);
        self.by_len.remove(&(len, offset));
    }

    /// Takes the pieces between two offsets, the first of which begins one.
    fn take_pieces(&mut self, mut at: usize, end: usize, waits_for: &mut Vec<u32>) {
        while at < end {
            let Some((len, touched)) = self.pieces.remove(&at) else {
                return;
            };
            waits_for.extend(&touched);
            if at + len > end {
                self.pieces.insert(end, (at + len - end, touched));
            }
            at += len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memory_that_is_taken_again_waits_for_who_touched_it() {
        let mut arena = Arena::new(64);
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
            let mut arena = Arena::new(64);
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
