//! What several ranks do together: reduce, gather, broadcast, scatter and exchange values; Horovod's ops and
//! TensorFlow's.

mod broadcast;
mod build;
mod exchange;
mod gather;
mod group;
mod grouped;
mod on_gpus;
mod planned;
mod ranks;
mod reduce;
mod run;
mod sent;

use thalweg_device::Op;

pub use build::{ALL_RANKS, CollectiveOps, RankOps, Reduction};
pub use on_gpus::gpu_collective;
pub use planned::planned_collective;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &reduce::ALL_REDUCE,
    &reduce::REDUCE_SCATTER,
    &gather::ALL_GATHER,
    &broadcast::BROADCAST,
    &exchange::ALL_TO_ALL,
    &ranks::SIZE,
    &ranks::RANK,
    &ranks::BARRIER,
    &grouped::REDUCE,
    &grouped::REDUCE_SCATTER,
    &grouped::GATHER,
    &grouped::ALL_TO_ALL,
    &sent::SEND,
    &sent::RECEIVE,
];
