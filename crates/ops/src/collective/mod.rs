//! Collectives: reduce, gather, broadcast, scatter and exchange the values of several ranks; Horovod's ops and
//! TensorFlow's.

mod allgather;
mod allreduce;
mod alltoall;
mod broadcast;
mod build;
mod collective_bcast;
mod collective_v2;
mod group;
mod on_gpus;
mod planned;
mod ranks;
mod run;

use thalweg_device::Op;

pub use build::{ALL_RANKS, CollectiveOps, RankOps};
pub use on_gpus::gpu_collective;
pub use planned::planned_collective;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &allreduce::ALL_REDUCE,
    &allreduce::REDUCE_SCATTER,
    &allgather::ALL_GATHER,
    &broadcast::BROADCAST,
    &alltoall::ALL_TO_ALL,
    &ranks::SIZE,
    &ranks::RANK,
    &ranks::BARRIER,
    &collective_v2::REDUCE,
    &collective_v2::REDUCE_SCATTER,
    &collective_v2::GATHER,
    &collective_v2::ALL_TO_ALL,
    &collective_bcast::SEND,
    &collective_bcast::RECEIVE,
];
