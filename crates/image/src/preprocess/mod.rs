//! Preprocessing of images for training and evaluation, as tf_cnn_benchmarks and Caffe do it.
//!
//! | type | does |
//! | --- | --- |
//! | [`Training`] | a random window of a file, flip, size of the net, distorted colours, normalization |
//! | [`Evaluation`] | the centre of a file at the size of the net, normalization |
//! | [`Cifar`] | border, random crop, flip, normalization of an image in memory |
//! | [`Caffe`] | crop, mirror, mean and scale of an image in memory |
//!
//! Results are `f32` in the order height, width, channel, and go to a slice of the caller: a part of a batch.
//! Random numbers ([`Draws`]) come from a seed and the number of the element alone, so any number of threads gives the
//! same pixels.

mod caffe;
mod cifar;
mod colors;
mod draws;
mod evaluation;
mod method;
mod normalize;
mod training;
mod window;
mod workspace;

pub use self::caffe::{Caffe, Mean};
pub use self::cifar::Cifar;
pub use self::colors::ColorDistortion;
pub use self::draws::Draws;
pub use self::evaluation::Evaluation;
pub use self::method::ResizeMethod;
pub use self::normalize::Normalize;
pub use self::training::Training;
pub use self::workspace::Workspace;
