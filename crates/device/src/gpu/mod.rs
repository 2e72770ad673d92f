//! What a GPU runs, as data. A kernel of a GPU does not compute: it says which functions to launch,
//! on how many threads and with which arguments, and everything else (memory, order, capture)
//! follows from that. One function launches ([`Command`]s go through it), so that the same plan can
//! be run by a driver, by an emulation on the CPU, or written down by a test.

mod launch;

pub use launch::{Arg, Function, Launch, Launches, Source, THREADS};
