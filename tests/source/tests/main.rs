//! Tests of the source: layering of crates and modules, texts of messages, notebooks.

mod features;
mod layering;
mod modules;
mod notebooks;
mod pages;
mod texts;
