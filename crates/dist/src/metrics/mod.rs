//! Counters of a server: steps, parts, sessions, failures, refusals; gauges of a training.

pub(crate) mod counters;
pub(crate) mod tally;
pub(crate) mod training;
