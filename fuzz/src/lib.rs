//! Library of the fuzz targets: formats of inputs, clients and servers, graphs, files of weights, seeds, a memory
//! limit.

#[cfg(feature = "cluster")]
pub mod client;
/// The reader of the op table, shared with the tests.
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
// It uses files in memory, which only builds for fuzzing have.
#[cfg(fuzzing)]
pub mod weights;

/// Root of the repository.
#[cfg(feature = "sessions")]
pub fn root() -> std::path::PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/..").into()
}
