//! Kinds of input that a study compares.

use std::path::PathBuf;

use super::page_cache::CacheState;
use super::program::Measurement;

/// A kind of input.
pub(super) struct Input {
    pub(super) name: &'static str,
    /// The folder of its files; `None` for synthetic images.
    pub(super) folder: Option<PathBuf>,
    pub(super) state: CacheState,
    /// One for each round.
    pub(super) measurements: Vec<Measurement>,
}
