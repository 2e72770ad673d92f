//! Counts of classes as weights, in a tree of sums: TensorFlow's `WeightedPicker`.

use std::sync::Arc;

use thalweg_device::KernelError;
use thalweg_tensor::Memory;

use super::ranges::Distribution;
use super::simple_philox::SimplePhilox;
use crate::support::tensors::AccountedVec;

/// A distribution by the counts of the classes that were seen, each of which starts at 1.
pub(super) struct WeightTree {
    leaves: usize,
    /// Node 1 is the root; the children of node `i` are `2 * i` and `2 * i + 1`.
    sums: AccountedVec<i32>,
}

impl WeightTree {
    /// A tree of `range` weights of 1.
    ///
    /// # Errors
    /// The range exceeds what counts hold, or the memory.
    pub(super) fn new(range: i64, memory: &Arc<Memory>) -> Result<WeightTree, KernelError> {
        if range >= i64::from(i32::MAX) {
            return Err(KernelError::Invalid(format!(
                "a unigram sampler counts fewer than {} classes, and range_max is {range}",
                i32::MAX
            )));
        }
        let range = usize::try_from(range).unwrap_or(1);
        let leaves = range.next_power_of_two();
        let mut sums = AccountedVec::filled(2 * leaves, 0, memory)?;
        sums[leaves..][..range].fill(1);
        for i in (1..leaves).rev() {
            sums[i] = sums[2 * i] + sums[2 * i + 1];
        }
        Ok(WeightTree { leaves, sums })
    }

    fn total(&self) -> i32 {
        self.sums[1]
    }

    /// Counts classes, until the sum of the counts is the largest that there is.
    pub(super) fn count(&mut self, classes: &[i64]) {
        let most = usize::try_from(i32::MAX - self.total()).unwrap_or(0);
        for &class in classes.iter().take(most) {
            let mut at = self.leaves + class as usize;
            while at > 0 {
                self.sums[at] += 1;
                at /= 2;
            }
        }
    }
}

impl Distribution for WeightTree {
    fn sample(&self, numbers: &mut SimplePhilox<'_>) -> i64 {
        let mut place = numbers.below(self.total() as u32) as i32;
        let mut at = 1;
        while at < self.leaves {
            at *= 2;
            let left = self.sums[at];
            if place >= left {
                place -= left;
                at += 1;
            }
        }
        (at - self.leaves) as i64
    }

    fn probability(&self, class: i64) -> f32 {
        self.sums[self.leaves + class as usize] as f32 / self.total() as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_classes_get_likelier() {
        let memory = Arc::new(Memory::new(None));
        let mut tree = WeightTree::new(5, &memory).unwrap();
        tree.count(&[3, 3, 0]);
        let shares = (0..5).map(|class| tree.probability(class) * 8.0);
        assert_eq!(shares.collect::<Vec<_>>(), [2.0, 1.0, 1.0, 3.0, 1.0]);
        // The total is 8: the low bits of a word are the place among the weights.
        let drawn = (0..8u32).map(|word| tree.sample(&mut SimplePhilox::new(&mut || word)));
        assert_eq!(drawn.collect::<Vec<_>>(), [0, 0, 1, 2, 3, 3, 3, 4]);
    }
}
