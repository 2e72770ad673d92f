//! What the targets share: how an input becomes calls, and a client of TensorFlow's with a server of its own.

#[cfg(feature = "cluster")]
pub mod client;
/// The op table, as the tests read it.
#[cfg(feature = "sessions")]
#[path = "../../tests/support/golden.rs"]
pub mod golden;
pub mod inputs;
pub mod memory;
#[cfg(feature = "cluster")]
pub mod raw;
#[cfg(feature = "sessions")]
pub mod seeds;
#[cfg(feature = "sessions")]
pub mod steps;
// It keeps files in memory, which only a build for fuzzing does.
#[cfg(fuzzing)]
pub mod weights;

/// The repository.
#[cfg(feature = "sessions")]
pub fn root() -> std::path::PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/..").into()
}
