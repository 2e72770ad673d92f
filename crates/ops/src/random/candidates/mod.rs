//! Samplers of candidate classes, for losses over many classes (noise-contrastive estimation, sampled softmax). The
//! numbers are TensorFlow's for its seeds.

pub(super) mod accidental_hits;
mod alias_table;
mod draw;
mod ranges;
pub(super) mod sampler_ops;
mod simple_philox;
mod weight_tree;
