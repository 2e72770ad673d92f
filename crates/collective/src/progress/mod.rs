//! Progress thread: runs the collectives that sessions and the program ask for, one after another.

mod agree;
mod communicators;
mod gpus;
mod handle;
mod negotiation;
mod requests;
mod session;
mod shared;
mod work;

pub use handle::Progress;
