//! Regions along an axis for fractional pooling: how TensorFlow draws their borders, and what lies in them.

use std::ops::Range;

use thalweg_graph::op::{AttrDef, bool_attr};

use crate::random::box_muller::uniform_f64;
use crate::random::shuffle::shuffle;

/// Attribute `overlapping`: a border belongs to the regions on both sides.
pub(super) const OVERLAPPING: AttrDef = bool_attr("overlapping", false);

/// An axis that is to be divided into regions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence {
    /// Elements along the axis; at least as many as regions.
    pub(super) input: usize,
    /// At least one.
    pub(super) regions: usize,
}

impl Sequence {
    /// Blocks of four random words that a drawing takes.
    pub(super) fn blocks(self, pseudo_random: bool) -> u64 {
        match pseudo_random {
            true => 1,
            false => self.regions.div_ceil(4) as u64,
        }
    }

    /// Draws the borders: the first element of each region, and the number of elements.
    pub(super) fn draw(
        self,
        pseudo_random: bool,
        words: &mut dyn FnMut() -> u32,
        borders: &mut [i64],
    ) {
        let Some((first, rest)) = borders.split_first_mut() else {
            return;
        };
        *first = 0;
        match pseudo_random {
            true => self.draw_pseudo_random(words, rest),
            false => self.draw_random(words, rest),
        }
    }

    /// Lengths that differ by at most one, in random order.
    fn draw_random(self, words: &mut dyn FnMut() -> u32, ends: &mut [i64]) {
        let (length, longer) = (self.input / self.regions, self.input % self.regions);
        for (i, end) in ends.iter_mut().enumerate() {
            *end = (length + usize::from(i < longer)) as i64;
        }
        shuffle(words, ends);
        let mut sum = 0;
        for end in ends {
            sum += *end;
            *end = sum;
        }
    }

    /// Border `i` is at `ceil(alpha (i + u)) - 1`, with one random `u` (Graham, "Fractional max-pooling", 2014). It is
    /// below a bound that keeps lengths within one of each other.
    fn draw_pseudo_random(self, words: &mut dyn FnMut() -> u32, ends: &mut [i64]) {
        let (input, regions) = (self.input as f64, self.regions as f64);
        let (alpha, length) = (input / regions, (self.input / self.regions) as f64);
        let most =
            ((length + 2.0) / alpha - 1.0).min((input + 1.0 - length) / alpha - (regions - 1.0));
        let high = words();
        let u = uniform_f64(high, words()) * most;
        for (i, end) in ends.iter_mut().enumerate() {
            *end = (alpha * ((i + 1) as f64 + u)).ceil() as i64 - 1;
        }
        if let Some(last) = ends.last_mut() {
            *last = self.input as i64;
        }
    }
}

/// Regions along an axis, given by their borders.
#[derive(Clone, Copy)]
pub(super) struct Regions<'a> {
    /// The first element of each region, and the end of the last.
    pub(super) borders: &'a [i64],
    /// Elements along the axis.
    pub(super) input: usize,
    pub(super) overlapping: bool,
}

impl Regions<'_> {
    /// Their number.
    pub(super) fn len(&self) -> usize {
        self.borders.len().saturating_sub(1)
    }

    /// The elements of region `i`: none where its borders are out of order or outside of the axis.
    pub(super) fn region(&self, i: usize) -> Range<usize> {
        let at = |i: usize| usize::try_from(self.borders[i]).unwrap_or(self.input);
        let end = at(i + 1).saturating_add(usize::from(self.overlapping));
        at(i)..end.min(self.input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_differ_by_at_most_one_and_add_up() {
        for (input, regions) in [(7, 3), (20, 11), (9, 9), (100, 7), (5, 1)] {
            for pseudo_random in [false, true] {
                for seed in 0..50u32 {
                    let mut state = seed;
                    let mut words = || {
                        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        state
                    };
                    let mut borders = vec![9; regions + 1];
                    Sequence { input, regions }.draw(pseudo_random, &mut words, &mut borders);
                    let lengths = borders.windows(2).map(|b| (b[1] - b[0]) as usize);
                    let least = input / regions;
                    assert!(
                        lengths.clone().all(|n| n == least || n == least + 1),
                        "{borders:?}"
                    );
                    assert_eq!((borders[0], lengths.sum::<usize>()), (0, input));
                }
            }
        }
    }

    #[test]
    fn regions_of_wrong_borders_are_within_the_axis_or_empty() {
        let regions = Regions {
            borders: &[-3, 2, i64::MAX, 1, 4],
            input: 5,
            overlapping: true,
        };
        let all: Vec<_> = (0..regions.len()).map(|i| regions.region(i)).collect();
        assert!(all[0].is_empty() && all[2].is_empty());
        assert_eq!((all[1].clone(), all[3].clone()), (2..5, 1..5));
    }
}
