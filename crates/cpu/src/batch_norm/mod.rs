//! Batch normalization: sums over all elements of each channel, and a function of each element and of its channel.
//!
//! Sums are taken of blocks that stay in a core's cache, in `f32`, and added up in `f64`, so that their error does not
//! grow with the size of a batch. The squares of a block are taken around its own mean.
//!
//! The mean of each of two channels, and the sum of the squared distances from it:
//!
//! ```
//! use thalweg_cpu::batch_norm::{Channels, Moments, moments, sums};
//! use thalweg_cpu::{Cpu, Isa, Scratch, ThreadPool};
//!
//! let pool = ThreadPool::new(1);
//! let cpu = Cpu { pool: &pool, isa: Isa::detect() };
//! // Two rows; the channels come last.
//! let g = Channels { before: 2, channels: 2, after: 1 };
//! let x = [1.0f32, 10.0, 3.0, 30.0];
//! let mut bytes = vec![0; g.scratch::<3>()];
//! let sums = sums(cpu, &g, &Moments(&x), &mut Scratch::new(&mut bytes));
//! assert_eq!(moments(sums[0], g.count()), (2.0, 2.0));
//! assert_eq!(moments(sums[1], g.count()), (20.0, 200.0));
//! ```

mod apply;
mod channels;
mod sums;
mod terms;

pub use apply::{apply, to_columns};
pub use channels::Channels;
pub use sums::{Sums, sums};
pub use terms::{Moments, Products, moments};
