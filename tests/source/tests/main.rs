//! Tests of the source: layering of crates and modules, texts of messages.

mod features;
mod layering;
mod modules;
mod pages;
mod texts;
