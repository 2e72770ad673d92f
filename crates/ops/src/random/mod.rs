//! Random numbers: for the same seeds the same numbers as TensorFlow's.
//!
//! They are computed from counters (see `philox`), so that they do not depend on the number of threads. A
//! node continues its sequence from run to run. If both seeds of a node are 0, its sequence
//! differs from plan to plan.

mod binomial;
mod bounded_normal;
pub(crate) mod box_muller;
mod build;
mod candidates;
mod dropout;
mod fill;
mod gamma;
pub(crate) mod index_shuffle;
mod index_shuffle_op;
mod multinomial;
mod normal;
pub(crate) mod philox;
mod poisson;
mod redraw;
pub(crate) mod reserve;
mod sampler;
pub(crate) mod seed_source;
pub(crate) mod shuffle;
mod skip;
mod stateful;
mod stateless;
mod uniform;

use thalweg_device::Op;

pub use build::RandomOps;
pub use dropout::DropoutOps;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &normal::RANDOM_STANDARD_NORMAL,
    &normal::TRUNCATED_NORMAL,
    &bounded_normal::PARAMETERIZED_TRUNCATED_NORMAL,
    &uniform::RANDOM_UNIFORM,
    &uniform::RANDOM_UNIFORM_INT,
    &shuffle::RANDOM_SHUFFLE,
    &shuffle::STATELESS_SHUFFLE,
    &index_shuffle_op::INDEX_SHUFFLE,
    &multinomial::MULTINOMIAL,
    &multinomial::STATELESS_MULTINOMIAL,
    &stateless::UNIFORM,
    &stateless::UNIFORM_V2,
    &stateless::NORMAL,
    &stateless::NORMAL_V2,
    &stateless::TRUNCATED,
    &stateless::TRUNCATED_V2,
    &stateless::UNIFORM_INT,
    &stateless::UNIFORM_INT_V2,
    &stateless::FULL_INT,
    &stateless::FULL_INT_V2,
    &stateless::GET_KEY_COUNTER,
    &stateless::GET_KEY_COUNTER_ALG,
    &stateless::GET_ALG,
    &skip::READ_AND_SKIP,
    &skip::SKIP,
    &stateful::UNIFORM,
    &stateful::NORMAL,
    &stateful::NORMAL_V2,
    &stateful::TRUNCATED,
    &stateful::UNIFORM_INT,
    &stateful::FULL_INT,
    &stateful::BINOMIAL,
    &stateful::NON_DETERMINISTIC_INTS,
    &gamma::RANDOM_GAMMA,
    &gamma::RANDOM_GAMMA_GRAD,
    &gamma::STATELESS_RANDOM_GAMMA_V2,
    &gamma::STATELESS_RANDOM_GAMMA_V3,
    &poisson::RANDOM_POISSON,
    &poisson::RANDOM_POISSON_V2,
    &poisson::STATELESS_RANDOM_POISSON,
    &binomial::STATELESS_RANDOM_BINOMIAL,
    &candidates::sampler_ops::UNIFORM,
    &candidates::sampler_ops::LOG_UNIFORM,
    &candidates::sampler_ops::LEARNED_UNIGRAM,
    &candidates::sampler_ops::THREAD_UNSAFE_UNIGRAM,
    &candidates::sampler_ops::FIXED_UNIGRAM,
    &candidates::sampler_ops::ALL,
    &candidates::accidental_hits::COMPUTE,
];

#[cfg(test)]
mod tests;
