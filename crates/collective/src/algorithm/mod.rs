//! Algorithms of collectives, over any links.

mod adasum;
mod doubling;
mod halving;
mod moving;
mod ring;
mod tree;

use thalweg_estimate::Algorithm;

use crate::channel::Channel;
use crate::error::Result;
use crate::reduce::Reducer;

pub(crate) use adasum::adasum;
pub(crate) use moving::{all_gather, all_to_all, barrier, broadcast};
pub(crate) use ring::reduce_scatter;

/// Reduces the values of all ranks by an algorithm; each rank gets the result.
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
