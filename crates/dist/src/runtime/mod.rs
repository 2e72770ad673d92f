//! A process's own means: threads, time, random numbers, memory budgets.

pub(crate) mod blocking;
pub(crate) mod budget;
pub(crate) mod lock;
pub(crate) mod platform;
pub(crate) mod threads;
pub(crate) mod timeouts;
