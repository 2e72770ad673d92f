//! CUDA in a build without the feature `cuda`: every card is an error that says so.

use std::sync::Arc;

#[path = "cuda/card.rs"]
mod card;

pub use card::Card;

use crate::gpu::{Driver, GpuError};

/// Opens cards: an error in this build.
#[derive(Debug)]
pub struct Cards;

impl Cards {
    /// For kernels that include this header.
    pub fn new(_header: &'static str) -> Cards {
        Cards
    }

    /// The card of this number.
    ///
    /// # Errors
    /// [`GpuError::WithoutCuda`].
    pub fn open(&mut self, _number: usize) -> Result<Arc<dyn Driver>, GpuError> {
        Err(GpuError::WithoutCuda)
    }
}

/// The graphics cards of this machine.
///
/// # Errors
/// [`GpuError::WithoutCuda`].
pub fn cards() -> Result<Vec<Card>, GpuError> {
    Err(GpuError::WithoutCuda)
}
