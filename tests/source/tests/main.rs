//! Tests of the source: what may use what, and what it says to people.

mod layering;
mod modules;
mod texts;
