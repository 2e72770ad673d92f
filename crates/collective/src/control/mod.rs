//! The control plane: one connection of each rank to a coordinator, which tells addresses, gathers small values, and tells
//! everyone which rank was lost and why.
//!
//! Both sides write one JSON object a line, and at least one line a second. Whoever is silent for too long is lost.

mod client;
mod coordinator;
mod door;
mod job;
mod timing;
mod turns;
mod waits;
mod wire;

pub(crate) use client::Control;
pub use coordinator::{Coordinator, Tell};
pub(crate) use door::{Door, Unknown};
pub(crate) use timing::HEARTBEAT_INTERVAL;
pub use timing::SILENCE_TIMEOUT;
pub(crate) use turns::{Announced, Turn};
pub(crate) use wire::{Line, Reader, Writer, follow, greeted};
