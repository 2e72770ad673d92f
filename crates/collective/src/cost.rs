//! What collectives cost over links, and which algorithm is cheapest.

use crate::algorithm::Algorithm;

/// What messages cost between two ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Seconds of a message, however short.
    pub message: f64,
    /// Seconds of a byte that is sent.
    pub byte: f64,
    /// Seconds of a byte that is reduced.
    pub reduced: f64,
    /// The algorithm that is chosen, whatever it costs; the cheapest, where there is none.
    pub only: Option<Algorithm>,
}

impl Default for Cost {
    /// Of TCP within a machine.
    fn default() -> Cost {
        Cost {
            message: 20e-6,
            byte: 1.0 / 2e9,
            reduced: 1.0 / 8e9,
            only: None,
        }
    }
}

impl Cost {
    /// The seconds of an all-reduce of so many bytes: the formulas of [`Algorithm`].
    ///
    /// ```
    /// use thalweg_collective::{Algorithm, Cost};
    ///
    /// let cost = Cost { message: 1e-5, byte: 1e-9, reduced: 0.0, only: None };
    /// // Two messages of half the bytes each.
    /// assert!((cost.of(Algorithm::Ring, 2, 1_000_000) - 1.02e-3).abs() < 1e-9);
    /// ```
    pub fn of(&self, algorithm: Algorithm, ranks: usize, bytes: usize) -> f64 {
        let (p, n) = (ranks as f64, bytes as f64);
        let rounds = p.log2().ceil();
        let share = (p - 1.0) / p;
        // Ranks beyond a power of two fold into others before, and have the result from them.
        let folds = if ranks.is_power_of_two() { 0.0 } else { 2.0 };
        let fold = folds * (self.message + n * self.byte);
        match algorithm {
            Algorithm::Doubling => {
                fold + p.log2().floor() * (self.message + n * (self.byte + self.reduced))
            }
            Algorithm::Halving => {
                let whole = 2.0 * p.log2().floor() * self.message;
                fold + whole + share * n * (2.0 * self.byte + self.reduced)
            }
            Algorithm::Ring => {
                2.0 * (p - 1.0) * self.message + share * n * (2.0 * self.byte + self.reduced)
            }
            Algorithm::Tree => rounds * (2.0 * (self.message + n * self.byte) + n * self.reduced),
        }
    }

    /// The algorithm for a value of so many bytes; of equally cheap ones, the first.
    pub fn choose(&self, ranks: usize, bytes: usize) -> Algorithm {
        let cheaper = |best: Algorithm, other: Algorithm| match self.of(other, ranks, bytes)
            < self.of(best, ranks, bytes)
        {
            true => other,
            false => best,
        };
        Algorithm::ALL
            .into_iter()
            .fold(Algorithm::Doubling, cheaper)
    }
}
