//! Counters of a server: steps, parts, sessions, failures, refusals.

pub(crate) mod counters;
pub(crate) mod tally;
