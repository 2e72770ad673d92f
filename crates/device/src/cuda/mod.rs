//! CUDA: what of it is on this machine, and its compiler. Nothing here is linked: each library is
//! opened when it is asked for, and a machine without any is told what is missing.

mod cards;
mod cubins;
mod library;
mod nvrtc;

pub use cards::{Card, cards};
pub use cubins::Cubins;
pub use library::Library;
pub use nvrtc::Compiler;
