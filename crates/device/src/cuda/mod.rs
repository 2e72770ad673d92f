//! CUDA: drivers, libraries and the compiler of this machine. Nothing here is linked: each library is opened when it is
//! needed, and where one is missing, the error names it.
//!
//! ```no_run
//! use thalweg_device::cuda::cards;
//!
//! match cards() {
//!     Ok(cards) => {
//!         for card in cards {
//!             println!("{}: {}, {} bytes", card.number, card.name, card.memory);
//!         }
//!     }
//!     // It names the missing part, and how to get it.
//!     Err(error) => println!("{error}"),
//! }
//! ```

mod absent;
mod candidate;
mod card;
mod cards;
mod cubins;
mod cublaslt;
mod cudnn;
mod disk_cache;
mod driver;
mod driver_api;
mod driver_error;
mod libraries;
mod library;
mod nccl;
mod nvrtc;
mod open_library;
mod opened;
mod search;
mod trials;

pub use absent::{AbsentCard, EngineChoice};
use candidate::MAX_CANDIDATES;
pub use card::Card;
pub use cards::{Cards, cards};
pub use cubins::Cubins;
pub use driver::Cuda;
pub use library::Library;
pub use nvrtc::Compiler;
pub use opened::OpenedLibrary;
