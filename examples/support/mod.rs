//! What the examples share towards people: a progress bar, tables, JSON lines, plots
//! and a clean end on Ctrl-C. No example needs it to build or to train a model.

// Each example compiles this module for itself and uses its own part of it.
#![allow(dead_code, unused_imports)]

pub mod accuracy;
pub mod convs;
pub mod model;
pub mod peer;
pub mod plot;
pub mod progress;
pub mod report;
pub mod say;
pub mod split_layers;
pub mod stop;
pub mod traces;
