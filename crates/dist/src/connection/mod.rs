//! What one TCP connection is, on the side that accepts it and on the side that makes it.
//!
//! * [`Watched`] tells whether the other side lives: by bytes that move, not by answers alone.
//! * [`Seats`] bounds how many connections a server has, and says which one gives way.
//! * [`Incoming`] accepts connections, with TLS where the cluster is protected.
//! * [`Dial`] makes them.

mod acknowledged;
mod answers;
mod dial;
mod farewell;
mod incoming;
mod seats;
mod stream;
mod watched;

#[cfg(test)]
mod tests;

use std::time::Duration;

#[cfg(test)]
pub(crate) use acknowledged::Acknowledged;
pub(crate) use acknowledged::Evidence;
pub(crate) use answers::Answer;
pub(crate) use dial::Dial;
pub(crate) use incoming::Incoming;
pub(crate) use seats::{Bounds, Call, Seat, Seats};
pub(crate) use stream::Stream;
pub(crate) use watched::Watched;

/// How often a connection that says nothing is asked for a sign of life, where it may be silent for so long.
pub(crate) fn ping_interval(silence: Duration) -> Duration {
    silence / 4
}

/// How long the transport waits for the answer to a ping. It is not the judge of a connection: [`Watched`] is.
pub(crate) const PING_ANSWER: Duration = Duration::from_secs(365 * 24 * 3600);
