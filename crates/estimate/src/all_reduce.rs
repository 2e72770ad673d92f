//! All-reduce algorithms: the seconds of each over links, and the cheapest. Costs are for P ranks and n bytes, with a latency
//! of `a` a message, `b` a byte sent and `g` a byte reduced (Thakur, Rabenseifner and Gropp, 2005).

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Algorithm of an all-reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Each rank gives all of its value to another one, at distances 1, 2, 4 and so on: lg P (a + n b + n g). For small values.
    Doubling,
    /// Rabenseifner's: halves of halves are reduced, then doubled: 2 lg P a + 2 (P-1)/P n b + (P-1)/P n g.
    Halving,
    /// Each part goes around: 2 (P-1) a + 2 (P-1)/P n b + (P-1)/P n g. For large values.
    Ring,
    /// To one rank along a tree, and back: 2 lg P (a + n b) + lg P n g.
    Tree,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Algorithm; 4] = [
        Algorithm::Doubling,
        Algorithm::Halving,
        Algorithm::Ring,
        Algorithm::Tree,
    ];

    /// Name of the algorithm.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Doubling => "doubling",
            Algorithm::Halving => "halving",
            Algorithm::Ring => "ring",
            Algorithm::Tree => "tree",
        }
    }
}

/// A name that is no algorithm's, and the known names.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("'{0}' is no algorithm: use one of {1}")]
pub struct UnknownAlgorithm(String, String);

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Algorithm, UnknownAlgorithm> {
        let found = Algorithm::ALL.into_iter().find(|a| a.name() == text);
        found.ok_or_else(|| {
            let known: Vec<&str> = Algorithm::ALL.iter().map(|a| a.name()).collect();
            UnknownAlgorithm(text.to_owned(), known.join(", "))
        })
    }
}

/// Cost of messages between two ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkCost {
    /// Seconds of a message, however short.
    pub message: f64,
    /// Seconds of a byte that is sent.
    pub byte: f64,
    /// Seconds of a byte that is reduced.
    pub reduced: f64,
    /// Algorithm that was asked for, whatever it costs; `None` for the cheapest.
    pub only: Option<Algorithm>,
}

impl Default for LinkCost {
    /// Cost of TCP within a machine.
    fn default() -> LinkCost {
        LinkCost {
            message: 20e-6,
            byte: 1.0 / 2e9,
            reduced: 1.0 / 8e9,
            only: None,
        }
    }
}

impl LinkCost {
    /// Seconds of an all-reduce of so many bytes, by the formulas of [`Algorithm`].
    ///
    /// ```
    /// use thalweg_estimate::{Algorithm, LinkCost};
    ///
    /// let cost = LinkCost { message: 1e-5, byte: 1e-9, reduced: 0.0, only: None };
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

    /// Algorithm for a value of so many bytes: [`LinkCost::only`], or else the cheapest; of equally cheap ones, the first.
    ///
    /// ```
    /// use thalweg_estimate::{Algorithm, LinkCost};
    ///
    /// let cost = LinkCost { message: 1e-5, byte: 1e-9, reduced: 0.0, only: None };
    /// assert_eq!(cost.choose(4, 8), Algorithm::Doubling);
    /// assert_eq!(cost.choose(4, 1_000_000_000), Algorithm::Halving);
    /// let cost = LinkCost { only: Some(Algorithm::Tree), ..cost };
    /// assert_eq!(cost.choose(4, 1_000_000_000), Algorithm::Tree);
    /// ```
    pub fn choose(&self, ranks: usize, bytes: usize) -> Algorithm {
        if let Some(only) = self.only {
            return only;
        }
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
