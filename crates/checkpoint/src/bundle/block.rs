//! Copies of blocks between tensors of different dimensions.

/// A block that two tensors share: its lengths, and the index of its first element in each.
pub(super) struct SharedBlock<'a> {
    pub(super) lengths: &'a [usize],
    pub(super) from_dims: &'a [usize],
    pub(super) from: &'a [usize],
    pub(super) to_dims: &'a [usize],
    pub(super) to: &'a [usize],
}

impl SharedBlock<'_> {
    /// Calls `each` for each run of elements that is contiguous in both tensors, with the index of
    /// its first element in the one and in the other, and its length.
    pub(super) fn for_each_run(&self, mut each: impl FnMut(usize, usize, usize)) {
        let rank = self.lengths.len();
        if self.lengths.contains(&0) {
            return;
        }
        // Dimensions that are taken whole in both belong to the run.
        let mut outer = rank;
        let mut run = 1;
        while outer > 0 {
            outer -= 1;
            run *= self.lengths[outer];
            let whole = self.lengths[outer] == self.from_dims[outer]
                && self.lengths[outer] == self.to_dims[outer];
            if !whole {
                break;
            }
        }
        let from_steps = steps(self.from_dims);
        let to_steps = steps(self.to_dims);
        let mut from = dot(self.from, &from_steps);
        let mut to = dot(self.to, &to_steps);
        let mut at = vec![0; outer];
        loop {
            each(from, to, run);
            let Some(moved) = (0..outer).rev().find(|&d| at[d] + 1 < self.lengths[d]) else {
                return;
            };
            for d in moved + 1..outer {
                from -= at[d] * from_steps[d];
                to -= at[d] * to_steps[d];
                at[d] = 0;
            }
            at[moved] += 1;
            from += from_steps[moved];
            to += to_steps[moved];
        }
    }
}

/// The strides of row-major dimensions, in elements.
fn steps(dims: &[usize]) -> Vec<usize> {
    let mut steps = vec![1; dims.len()];
    for d in (1..dims.len()).rev() {
        steps[d - 1] = steps[d] * dims[d];
    }
    steps
}

fn dot(a: &[usize], b: &[usize]) -> usize {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// The set of elements of a tensor that have been filled.
pub(super) struct FilledSet {
    bits: Vec<u64>,
    missing: usize,
}

impl FilledSet {
    pub(super) fn none_of(elements: usize) -> FilledSet {
        FilledSet {
            bits: vec![0; elements.div_ceil(64)],
            missing: elements,
        }
    }

    /// Marks these elements as filled; `false` if one was filled already.
    pub(super) fn add(&mut self, first: usize, count: usize) -> bool {
        let end = first + count;
        let mut at = first;
        while at < end {
            let bit = at % 64;
            let here = (64 - bit).min(end - at);
            let mask = (u64::MAX >> (64 - here)) << bit;
            let word = &mut self.bits[at / 64];
            if *word & mask != 0 {
                return false;
            }
            *word |= mask;
            at += here;
        }
        self.missing -= count;
        true
    }

    pub(super) fn is_full(&self) -> bool {
        self.missing == 0
    }
}

#[cfg(test)]
mod tests {
    use super::{FilledSet, SharedBlock};

    #[test]
    fn a_block_is_copied_in_runs() {
        let block = SharedBlock {
            lengths: &[2, 2, 4],
            from_dims: &[3, 5, 4],
            from: &[1, 2, 0],
            to_dims: &[2, 2, 4],
            to: &[0, 0, 0],
        };
        let mut runs = Vec::new();
        block.for_each_run(|from, to, n| runs.push((from, to, n)));
        assert_eq!(runs, [(28, 0, 8), (48, 8, 8)]);
    }

    #[test]
    fn overlapping_fills_are_detected() {
        let mut filled = FilledSet::none_of(200);
        assert!(filled.add(0, 70) && filled.add(130, 70));
        assert!(!filled.is_full());
        assert!(!filled.add(129, 2));
        assert!(filled.add(70, 60));
        assert!(filled.is_full());
    }
}
