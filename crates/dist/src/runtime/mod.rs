//! Means of a process: threads, time, random numbers, locks.

pub(crate) mod blocking;
pub(crate) mod platform;
pub(crate) mod threads;
