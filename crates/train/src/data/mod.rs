//! Data sets: the IDX files of MNIST, and the batches that a training loop feeds.
//!
//! ```no_run
//! use thalweg_train::data::{Batches, Mnist};
//!
//! # fn main() -> Result<(), thalweg_train::data::DataError> {
//! let mnist = Mnist::load("data/mnist")?;
//! let mut batches = Batches::new(&mnist.train, 50, 1)?;
//! let mut images = vec![0.0; 50 * mnist.train.pixels()];
//! let mut labels = vec![0; 50];
//! for _step in 0..1000 {
//!     batches.next_into(&mut images, &mut labels)?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Nothing here knows of graphs or sessions: slices go out, a caller feeds them.

mod batches;
mod error;
mod idx;
mod mnist;
mod shuffle;

pub use batches::{Batches, Chunk, Chunks};
pub use error::DataError;
pub use idx::{Idx, MAX_BYTES};
pub use mnist::{CLASSES, Mnist, SIDE, Split};
