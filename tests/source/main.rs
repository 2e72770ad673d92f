//! Tests of the source: what may use what.

mod layering;
mod modules;
