//! Permutation of the numbers up to a limit by a small block cipher, that of TensorFlow's `random_index_shuffle.cc`:
//! Simon (Beaulieu et al., <https://eprint.iacr.org/2013/404>) with blocks of any even size, and cycle walking.

use smallvec::SmallVec;

/// Rounds of the cipher of a data set.
const ROUNDS: usize = 8;
/// Size of the smallest block in bits: smaller ones show patterns.
const MIN_BLOCK: u32 = 16;

/// Words of half a block.
#[derive(Clone, Copy)]
struct Word {
    bits: u32,
    mask: u64,
}

impl Word {
    fn left(self, x: u64, by: u32) -> u64 {
        ((x << by) | (x >> (self.bits - by))) & self.mask
    }

    fn right(self, x: u64, by: u32) -> u64 {
        ((x >> by) | (x << (self.bits - by))) & self.mask
    }

    /// The round function.
    fn mixed(self, x: u64) -> u64 {
        (self.left(x, 1) & self.left(x, 8)) ^ self.left(x, 2)
    }

    /// The keys of the rounds.
    fn keys(self, key: [u32; 3], rounds: usize) -> SmallVec<[u64; ROUNDS]> {
        let mut keys = SmallVec::from_elem(0, rounds);
        for (round, part) in keys.iter_mut().zip(key) {
            *round = u64::from(part) & self.mask;
        }
        let constant = 0xffff_fffc & self.mask;
        let mut sequence = 0x7369_f885_192c_0ef5 & self.mask;
        for i in key.len()..rounds {
            let before = keys[i - 1];
            keys[i] = constant
                ^ (sequence & 1)
                ^ keys[i - 3]
                ^ self.right(before, 3)
                ^ self.right(before, 4);
            sequence >>= 1;
        }
        keys
    }
}

/// A permutation of `0..=last`.
pub(crate) struct Permutation {
    word: Word,
    keys: SmallVec<[u64; ROUNDS]>,
    last: u64,
}

impl Permutation {
    /// The permutation that a key chooses, of an even number of rounds.
    pub(crate) fn new(key: [u32; 3], last: u64, rounds: usize) -> Permutation {
        // TensorFlow has a bit less for a power of two, which its block then cannot hold: a number comes twice.
        let bits = u64::BITS - last.leading_zeros();
        let block = bits.next_multiple_of(2).max(MIN_BLOCK);
        let word = Word {
            bits: block / 2,
            mask: (1 << (block / 2)) - 1,
        };
        Permutation {
            word,
            keys: word.keys(key, rounds),
            last,
        }
    }

    /// The number in the place of `index`, which is not beyond the last.
    pub(crate) fn of(&self, index: u64) -> u64 {
        if self.last == 0 {
            return 0;
        }
        let (word, mut number) = (self.word, index);
        // Numbers beyond the limit are enciphered again: the cycle of `index` comes back to one within it.
        loop {
            let (mut high, mut low) = ((number >> word.bits) & word.mask, number & word.mask);
            for pair in self.keys.as_chunks::<2>().0 {
                high ^= word.mixed(low) ^ pair[0];
                low ^= word.mixed(high) ^ pair[1];
            }
            number = (high << word.bits) | low;
            if number <= self.last {
                return number;
            }
        }
    }
}

/// The number in the place of `index` in a permutation of `0..=last`.
pub(crate) fn shuffled(index: u64, key: [u32; 3], last: u64) -> u64 {
    Permutation::new(key, last, ROUNDS).of(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_numbers_have_tensorflows_order() {
        let order: Vec<u64> = (0..10).map(|i| shuffled(i, [3, 5, 3], 9)).collect();
        assert_eq!(order, [5, 6, 9, 1, 2, 0, 7, 4, 8, 3]);
    }

    #[test]
    fn each_number_comes_once() {
        for last in [0u64, 1, 2, 255, 65_536, 70_000] {
            let mut all: Vec<u64> = (0..=last).map(|i| shuffled(i, [7, 0, 9], last)).collect();
            all.sort_unstable();
            assert!(all.iter().copied().eq(0..=last), "{last}");
        }
        assert!(shuffled(u64::MAX, [1, 2, 3], u64::MAX) > 0);
    }
}
