//! A few ops for tests of the graph crate, which defines none.
#![allow(dead_code, reason = "each test program uses a part of this")]

mod ops;

pub use ops::*;
