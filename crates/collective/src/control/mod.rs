//! Control plane: one connection of each rank to a coordinator, which distributes addresses, gathers small values, and
//! reports to all ranks which one was lost and why.
//!
//! Both sides write one JSON object a line, and at least one line a second. A side that is silent for too long is lost.

mod client;
mod coordinator;
mod job;
mod listener;
mod timing;
mod turns;
mod waits;
mod wire;

pub(crate) use client::Control;
pub use coordinator::{Coordinator, LogLine};
pub(crate) use listener::{Listener, Unidentified};
pub(crate) use timing::HEARTBEAT_INTERVAL;
pub use timing::SILENCE_TIMEOUT;
pub(crate) use turns::{Announced, Turn};
pub(crate) use wire::{Reader, WireLine, Writer, accept_peer, handle_messages};
