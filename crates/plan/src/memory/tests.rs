use super::*;
use proptest::prelude::*;

fn last_use(instructions: &[u32], done: u64) -> LastUse {
    LastUse {
        instructions: SmallVec::from_slice(instructions),
        done,
    }
}

#[test]
fn reused_memory_waits_for_its_last_users() {
    let mut arena = Arena::new(64, 0);
    let mut waits = Vec::new();
    let a = arena.allocate(100, 0, &mut waits);
    let b = arena.allocate(100, 0, &mut waits);
    assert!(waits.is_empty());
    arena.free(a, last_use(&[1, 2], 10));
    arena.free(b, last_use(&[3], 20));
    arena.allocate(200, 0, &mut waits);
    assert_eq!(waits, [1, 2, 3]);
    assert_eq!(arena.len(), 256);
}

#[test]
fn memory_that_is_done_in_time_is_taken_before_a_smaller_hole_that_is_not() {
    let mut arena = Arena::new(64, 0);
    let mut waits = Vec::new();
    let large = arena.allocate(256, 0, &mut waits);
    arena.allocate(64, 0, &mut waits);
    let small = arena.allocate(64, 0, &mut waits);
    arena.allocate(64, 0, &mut waits);
    arena.free(large, last_use(&[1], 10));
    arena.free(small, last_use(&[2], 30));
    let taken = arena.allocate(64, 20, &mut waits);
    assert_eq!((taken.offset, &waits[..]), (large.offset, &[1][..]));
}

#[test]
fn the_arena_grows_by_its_spare_bytes_before_instructions_wait() {
    let mut arena = Arena::new(64, 128);
    let mut waits = Vec::new();
    for (instruction, len) in [(1, 64), (2, 128), (3, 192)] {
        let block = arena.allocate(64, 0, &mut waits);
        assert!(waits.is_empty(), "{waits:?}");
        assert_eq!(arena.len(), len);
        arena.free(block, last_use(&[instruction], 10));
    }
    arena.allocate(64, 0, &mut waits);
    assert_eq!(arena.len(), 192);
    assert_eq!(waits, [1]);
}

proptest! {
    #[test]
    fn live_blocks_never_overlap(
        sizes in proptest::collection::vec((1usize..500, 0usize..6), 1..60),
        spare in 0usize..2000,
    ) {
        let mut arena = Arena::new(64, spare);
        let mut live: Vec<ArenaBlock> = Vec::new();
        for (i, (size, drop)) in sizes.into_iter().enumerate() {
            let block = arena.allocate(size, i as u64 / 2, &mut Vec::new());
            prop_assert!(block.offset + block.len <= arena.len());
            for other in &live {
                prop_assert!(block.offset + block.len <= other.offset || other.offset + other.len <= block.offset);
            }
            live.push(block);
            if drop < live.len() {
                arena.free(live.swap_remove(drop), last_use(&[i as u32], i as u64));
            }
        }
    }
}

#[test]
fn a_block_is_a_multiple_of_the_alignment_and_never_empty() {
    for (bytes, len) in [(0, 64), (1, 64), (64, 64), (65, 128), (200, 256)] {
        let mut arena = Arena::new(64, 0);
        let first = arena.allocate(bytes, 0, &mut Vec::new());
        let second = arena.allocate(bytes, 0, &mut Vec::new());
        assert_eq!((first.offset, first.len), (0, len), "{bytes}");
        assert_eq!((second.offset, second.len), (len, len), "{bytes}");
    }
}

#[test]
fn neighbouring_free_blocks_merge_in_any_order_of_freeing() {
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let mut arena = Arena::new(64, 0);
        let blocks: Vec<ArenaBlock> = (0..3)
            .map(|_| arena.allocate(64, 0, &mut Vec::new()))
            .collect();
        for i in order {
            arena.free(blocks[i], last_use(&[i as u32], 0));
        }
        let mut waits = Vec::new();
        let whole = arena.allocate(192, 0, &mut waits);
        assert_eq!((whole.offset, arena.len()), (0, 192), "{order:?}");
        assert_eq!(waits, [0, 1, 2], "{order:?}");
    }
}

#[test]
fn the_smallest_hole_that_fits_is_taken_and_of_equal_ones_the_first() {
    let mut arena = Arena::new(64, 0);
    let mut blocks = Vec::new();
    // Holes of 256, 128 and 128 bytes, with blocks in use between them.
    for len in [256, 64, 128, 64, 128, 64] {
        blocks.push(arena.allocate(len, 0, &mut Vec::new()));
    }
    for hole in [0, 2, 4] {
        arena.free(blocks[hole], LastUse::default());
    }
    for (len, offset) in [(100, 320), (128, 512), (64, 0), (192, 64), (64, 704)] {
        assert_eq!(arena.allocate(len, 0, &mut Vec::new()).offset, offset);
    }
}

#[test]
fn a_split_piece_keeps_its_last_users() {
    let mut arena = Arena::new(64, 0);
    let block = arena.allocate(192, 0, &mut Vec::new());
    arena.free(block, last_use(&[7], 0));
    for offset in [0, 64, 128] {
        let mut waits = Vec::new();
        let part = arena.allocate(64, 0, &mut waits);
        assert_eq!((part.offset, &waits[..]), (offset, &[7][..]));
    }
}

/// An arena of unit blocks whose bytes know their last users, to check the real one against.
#[derive(Default)]
struct NaiveArena {
    /// By unit: `None` while it is in use, and its last users while it is free.
    units: Vec<Option<Vec<u32>>>,
}

impl NaiveArena {
    const UNIT: usize = 64;

    /// Takes the units of a block; returns the instructions to wait for.
    fn take(&mut self, block: ArenaBlock) -> Result<Vec<u32>, TestCaseError> {
        let units = block.offset / Self::UNIT..(block.offset + block.len) / Self::UNIT;
        let new = self.units.len().max(units.end);
        self.units.resize(new, Some(Vec::new()));
        let mut waits = Vec::new();
        for unit in units {
            let users = self.units[unit].take();
            waits.extend(users.ok_or_else(|| TestCaseError::fail("taken twice"))?);
        }
        waits.sort_unstable();
        waits.dedup();
        Ok(waits)
    }

    fn give(&mut self, block: ArenaBlock, users: &[u32]) {
        for unit in block.offset / Self::UNIT..(block.offset + block.len) / Self::UNIT {
            self.units[unit] = Some(users.to_vec());
        }
    }
}

proptest! {
    #[test]
    fn blocks_are_aligned_apart_and_wait_for_the_last_users_of_all_their_bytes(
        steps in proptest::collection::vec((1usize..700, 0usize..8, 0u64..40), 1..80),
        spare in 0usize..1500,
    ) {
        let mut arena = Arena::new(NaiveArena::UNIT, spare);
        let mut naive = NaiveArena::default();
        let (mut live, mut in_use, mut peak) = (Vec::<ArenaBlock>::new(), 0, 0);
        for (i, (bytes, drop, done)) in steps.into_iter().enumerate() {
            let mut waits = Vec::new();
            let block = arena.allocate(bytes, i as u64, &mut waits);
            prop_assert!(block.offset.is_multiple_of(NaiveArena::UNIT) && block.len >= bytes);
            waits.sort_unstable();
            waits.dedup();
            prop_assert_eq!(waits, naive.take(block)?);
            prop_assert_eq!(naive.units.len() * NaiveArena::UNIT, arena.len());
            live.push(block);
            in_use += block.len;
            peak = peak.max(in_use);
            prop_assert!(arena.len() >= peak);
            if drop < live.len() {
                let block = live.swap_remove(drop);
                in_use -= block.len;
                let users = [i as u32, 1000 + i as u32];
                naive.give(block, &users);
                arena.free(block, last_use(&users, done));
            }
        }
        // All that was given back is one hole again.
        for block in live {
            naive.give(block, &[]);
            arena.free(block, LastUse::default());
        }
        let len = arena.len();
        prop_assert_eq!(arena.allocate(len, u64::MAX, &mut Vec::new()).len, len);
        prop_assert_eq!(arena.len(), len);
    }
}
