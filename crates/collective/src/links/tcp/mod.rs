//! Links over TCP. A rank connects to another one when an algorithm first needs it. A link within a host is one connection.
//! One between hosts may be several, for networks that give each connection a part of their rate only.

mod links;
mod message;
mod peers;

pub(crate) use links::TcpLinks;
pub(crate) use peers::Listening;
