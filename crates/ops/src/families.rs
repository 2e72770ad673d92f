//! List of all ops, by family.

use thalweg_device::Op;

#[cfg(feature = "image")]
use crate::image;
#[cfg(feature = "fft")]
use crate::signal;
use crate::{
    array, collective, data, files, flow, linalg, lookup, math, nn, queue, ragged, random, reduce,
    reports, rnn, sparse, state, statistics, strings, training,
};

/// Lists of ops, by family. An op is registered by its entry in the list of its family.
static FAMILIES: &[&[&Op]] = &[
    array::value::OPS,
    array::shape::OPS,
    array::index::OPS,
    array::slicing::OPS,
    array::join::OPS,
    array::layout::OPS,
    array::segment::OPS,
    array::sets::OPS,
    array::sort::OPS,
    array::matrix::OPS,
    flow::OPS,
    linalg::OPS,
    math::OPS,
    nn::OPS,
    #[cfg(feature = "image")]
    image::OPS,
    rnn::OPS,
    queue::OPS,
    lookup::OPS,
    reduce::OPS,
    random::OPS,
    state::OPS,
    training::OPS,
    statistics::OPS,
    strings::OPS,
    #[cfg(feature = "fft")]
    signal::OPS,
    sparse::OPS,
    ragged::OPS,
    files::OPS,
    data::OPS,
    reports::OPS,
    collective::OPS,
];

/// All ops, in the order of their families' lists.
pub fn ops() -> impl Iterator<Item = &'static Op> {
    FAMILIES.iter().flat_map(|family| family.iter().copied())
}
