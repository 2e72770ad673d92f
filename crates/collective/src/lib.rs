//! Collectives: ranks, which are processes of one program, exchange and reduce values without servers.
//!
//! ```
//! use std::net::TcpListener;
//! use thalweg_collective::{ALL_RANKS, Coordinator, Join, Ranks, ReduceOp, Reduction};
//! use thalweg_tensor::DType;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // `thalweg launch hvd` starts a coordinator and processes. Here two threads are the ranks.
//! let coordinator = Coordinator::start(TcpListener::bind("127.0.0.1:0")?, 2, "secret")?;
//! let address = coordinator.address();
//! let rank = move |rank: usize| -> Result<[f32; 2], thalweg_collective::CollectiveError> {
//!     let mut ranks = Ranks::join(&Join::at(address, rank, 2, "secret"))?;
//!     let mut data = [rank as f32, 10.0];
//!     let mean = Reduction::of(ReduceOp::Average);
//!     ranks.all_reduce(ALL_RANKS, "mean", bytemuck::cast_slice_mut(&mut data), DType::F32, mean)?;
//!     Ok(data)
//! };
//! let other = std::thread::spawn(move || rank(1));
//! assert_eq!(rank(0)?, [0.5, 10.0]);
//! assert_eq!(other.join().unwrap()?, [0.5, 10.0]);
//! # Ok(())
//! # }
//! ```

mod algorithm;
mod aligned;
mod channel;
mod collective;
mod control;
pub mod elastic;
mod error;
mod join;
pub mod links;
mod memory;
mod phase_timer;
mod progress;
mod ranks;
mod reduce;
mod secret;
mod stream;
mod timeline;
mod trace;

pub use algorithm::all_reduce;
pub use channel::Channel;
pub use control::{Coordinator, LogLine, SILENCE_TIMEOUT};
pub use error::{CollectiveError, Result};
pub use join::Join;
pub use progress::Progress;
pub use ranks::{ALL_RANKS, Ranks};
pub use reduce::{OperandOrder, Reducer};
pub use secret::Secret;
pub use thalweg_device::{ReduceOp, Reduction};
pub use thalweg_estimate::{Algorithm, LinkCost};
pub use thalweg_launch_env::variables;
pub use timeline::Timeline;
