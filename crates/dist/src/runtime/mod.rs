//! Means of a process: threads, time, random numbers, locks, memory budgets.

pub(crate) mod blocking;
pub(crate) mod budget;
pub(crate) mod lock;
pub(crate) mod platform;
pub(crate) mod threads;
