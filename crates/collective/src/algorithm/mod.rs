//! Algorithms of collectives, on any links. Costs are for P ranks and n bytes, with a latency of `a` a message, `b` a byte
//! sent and `g` a byte reduced (Thakur, Rabenseifner and Gropp, 2005).

mod adasum;
mod doubling;
mod halving;
mod moving;
mod ring;
mod tree;

use std::fmt;
use std::str::FromStr;

use crate::channel::Channel;
use crate::error::{CollectiveError, Result};
use crate::reduce::Reducer;

pub(crate) use adasum::adasum;
pub(crate) use moving::{all_gather, all_to_all, barrier, broadcast};
pub(crate) use ring::reduce_scatter;

/// How an all-reduce goes.
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
    /// All of them.
    pub const ALL: [Algorithm; 4] = [
        Algorithm::Doubling,
        Algorithm::Halving,
        Algorithm::Ring,
        Algorithm::Tree,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Doubling => "doubling",
            Algorithm::Halving => "halving",
            Algorithm::Ring => "ring",
            Algorithm::Tree => "tree",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = CollectiveError;

    fn from_str(text: &str) -> Result<Algorithm> {
        let found = Algorithm::ALL.into_iter().find(|a| a.name() == text);
        found.ok_or_else(|| {
            let known: Vec<&str> = Algorithm::ALL.iter().map(|a| a.name()).collect();
            let text = format!("'{text}' is no algorithm: use one of {}", known.join(", "));
            CollectiveError::Argument(text)
        })
    }
}

/// Reduces the values of all ranks, to all of them.
///
/// # Errors
/// As [`Links::exchange`](crate::links::Links::exchange).
///
/// ```
/// use thalweg_collective::links::threads::ThreadLinks;
/// use thalweg_collective::{Algorithm, Channel, ReduceOp, Reducer, all_reduce};
/// use thalweg_tensor::DType;
///
/// let ranks = ThreadLinks::all(3).into_iter().map(|mut links| {
///     std::thread::spawn(move || {
///         let mut data = [1.0f32, 2.0];
///         let sum = Reducer::new(ReduceOp::Sum, DType::F32, 3, 1.0).unwrap();
///         let mut channel = Channel::new(&mut links, &[0, 1, 2], 1).unwrap();
///         all_reduce(&mut channel, Algorithm::Ring, bytemuck::cast_slice_mut(&mut data), sum).unwrap();
///         data
///     })
/// });
/// for rank in ranks.collect::<Vec<_>>() {
///     assert_eq!(rank.join().unwrap(), [3.0, 6.0]);
/// }
/// ```
pub fn all_reduce(
    channel: &mut Channel<'_>,
    algorithm: Algorithm,
    data: &mut [u8],
    reducer: Reducer,
) -> Result<()> {
    if channel.size() == 1 {
        reducer.finish(data);
        return Ok(());
    }
    match algorithm {
        Algorithm::Doubling => doubling::all_reduce(channel, data, reducer),
        Algorithm::Halving => halving::all_reduce(channel, data, reducer),
        Algorithm::Ring => ring::all_reduce(channel, data, reducer),
        Algorithm::Tree => tree::all_reduce(channel, data, reducer),
    }
}

#[cfg(test)]
mod tests;
