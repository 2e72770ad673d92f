//! Gradients of all ops: cases by family, and their check against central finite differences.

mod array;
mod case;
mod check;
mod collect;
mod complex;
mod elementwise;
mod images;
mod linalg;
mod lists;
mod math;
mod moves;
mod nn;
mod ragged;
mod rearrange;
mod recurrent;
mod reductions;
mod regions;
mod sparse;
mod volumes;

pub use case::{GradientCase, case, mixed};
pub use check::{all_cases, check};
