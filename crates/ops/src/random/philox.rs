//! Philox 4x32-10, a counter-based random number generator (Salmon et al., "Parallel random numbers: as easy as
//! 1, 2, 3", 2011). Any block can be computed without those before it.

use std::hash::{BuildHasher, RandomState};

use thalweg_graph::Attrs;

/// Multipliers of a round.
const MULTIPLIERS: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// Increments of the key's two words after each round.
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// A sequence of blocks of four random words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Philox {
    /// Key of each round.
    keys: [[u32; 2]; ROUNDS],
    /// Upper half of the counter: selects one of the key's sequences.
    stream: [u32; 2],
}

impl Philox {
    /// Sequence of a pair of seeds: the first is the key, the second the upper half of the
    /// counter.
    pub(crate) fn new(seed: u64, seed2: u64) -> Philox {
        let words = |v: u64| [v as u32, (v >> 32) as u32];
        let mut key = words(seed);
        let keys = std::array::from_fn(|_| {
            let round = key;
            key = [0, 1].map(|i| key[i].wrapping_add(KEY_STEPS[i]));
            round
        });
        Philox {
            keys,
            stream: words(seed2),
        }
    }

    /// Sequence of a node's `seed` and `seed2`. If both are 0 it is unpredictable, and
    /// differs between plans.
    pub(crate) fn of(attrs: &Attrs) -> Philox {
        match (attrs.int("seed"), attrs.int("seed2")) {
            (0, 0) => {
                let entropy = RandomState::new();
                Philox::new(entropy.hash_one(0u8), entropy.hash_one(1u8))
            }
            (seed, seed2) => Philox::new(seed as u64, seed2 as u64),
        }
    }

    /// The seeds: the key, and the upper half of the counter.
    pub(super) fn seeds(&self) -> [u32; 4] {
        let ([k0, k1], [s0, s1]) = (self.keys[0], self.stream);
        [k0, k1, s0, s1]
    }

    /// The four words of block `at`.
    #[inline(always)]
    pub(crate) fn block(&self, at: u64) -> [u32; 4] {
        // Uses words of twice the width without clearing their upper halves: a vector
        // multiplication takes the lower halves, and no data moves between lanes.
        const LOW: u64 = 0xffff_ffff;
        let [s0, s1] = self.stream.map(u64::from);
        let mut x = [at, at >> 32, s0, s1];
        for key in self.keys {
            let a = MULTIPLIERS[0] * (x[0] & LOW);
            let b = MULTIPLIERS[1] * (x[2] & LOW);
            x = [
                (b >> 32) ^ x[1] ^ u64::from(key[0]),
                b,
                (a >> 32) ^ x[3] ^ u64::from(key[1]),
                a,
            ];
        }
        x.map(|x| x as u32)
    }

    /// The words from the start of block `first` on: those of ops that draw one after the other.
    pub(crate) fn words(self, first: u64) -> impl FnMut() -> u32 {
        let (mut at, mut block) = (0, [0; 4]);
        move || {
            if at % 4 == 0 {
                block = self.block(first.wrapping_add(at / 4));
            }
            let word = block[at as usize % 4];
            at += 1;
            word
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_match_the_published_test_vectors() {
        let wide = |lo: u32, hi: u32| u64::from(lo) | u64::from(hi) << 32;
        let cases = [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [u32::MAX; 4],
                [u32::MAX; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in cases {
            let philox = Philox::new(wide(key[0], key[1]), wide(counter[2], counter[3]));
            assert_eq!(philox.block(wide(counter[0], counter[1])), expected);
        }
    }

    #[test]
    fn sequences_without_seeds_differ() {
        let attrs = Attrs::default();
        let (a, b) = (Philox::of(&attrs), Philox::of(&attrs));
        assert_ne!(a.block(0), b.block(0));
    }
}
