//! A few ops for tests of the graph alone: it knows none by itself.
#![allow(dead_code, reason = "each test program uses a part of this")]

mod ops;

pub use ops::*;
