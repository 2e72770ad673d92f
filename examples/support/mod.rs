//! Library of the examples, benchmarks and tests: progress bars, tables, JSON lines, plots, a clean end on Ctrl-C; deep
//! MNIST and the convolutions of known networks.

#![allow(dead_code, unused_imports)]

pub mod accuracy;
pub mod convs;
pub mod model;
pub mod output;
pub mod peer;
pub mod plot;
pub mod progress;
pub mod report;
pub mod split_layers;
pub mod traces;
