//! Numbers from random words, one after the other, as TensorFlow's `SimplePhilox` makes them.

use crate::random::box_muller::{uniform_f32, uniform_f64};

/// A source of random numbers.
pub(super) struct SimplePhilox<'a>(&'a mut dyn FnMut() -> u32);

impl<'a> SimplePhilox<'a> {
    /// The numbers of these words.
    pub(super) fn new(words: &'a mut dyn FnMut() -> u32) -> SimplePhilox<'a> {
        SimplePhilox(words)
    }

    fn word(&mut self) -> u32 {
        (self.0)()
    }

    /// A number in `[0, 1)`.
    pub(super) fn float(&mut self) -> f32 {
        uniform_f32(self.word())
    }

    /// A number in `[0, 1)`.
    pub(super) fn double(&mut self) -> f64 {
        let high = self.word();
        uniform_f64(high, self.word())
    }

    /// An integer below `n`, from 32 bits.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        let next = || u64::from(self.word());
        exact(u64::from(n), u32::MAX.into(), next) as u32
    }

    /// An integer below `n`, from 64 bits.
    pub(super) fn below_wide(&mut self, n: u64) -> u64 {
        exact(n, u64::MAX, || {
            let low = u64::from(self.word());
            low | u64::from(self.word()) << 32
        })
    }
}

/// An integer below `n` from uniform ones of at most `largest`. Those that would make small results likelier are drawn
/// again.
fn exact(n: u64, largest: u64, mut next: impl FnMut() -> u64) -> u64 {
    if n == 0 || n.is_power_of_two() {
        return next() & n.saturating_sub(1);
    }
    let rejected = largest % n + 1;
    loop {
        let drawn = next();
        if drawn >= rejected {
            return drawn % n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_below_the_bound_and_small_draws_are_rejected() {
        let mut words = [2, 7, 3, 0, 5].into_iter();
        let mut word = || words.next().unwrap();
        let mut numbers = SimplePhilox::new(&mut word);
        // 2^32 is 4 more than a multiple of 6: draws 0 to 3 are drawn again.
        assert_eq!(numbers.below(6), 1);
        // A power of two takes any draw.
        assert_eq!(numbers.below(4), 3);
        // The second word is the upper one: of 5, the bits below 2^34 are 1.
        assert_eq!(numbers.below_wide(1 << 34), 1 << 32);
    }
}
