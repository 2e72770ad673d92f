//! Options of a session's GPUs.

use std::sync::Arc;

use thalweg_device::cuda::Cards;
use thalweg_device::gpu::{Driver, Gpu, GpuError};
use thalweg_graph::DeviceSpec;

/// One GPU device: a card, or a part of one. Several devices may stand for one card, each with
/// memory of its own.
#[derive(Clone, Debug, Default)]
pub struct GpuOptions {
    card: usize,
    memory_limit: Option<usize>,
    memory_fraction: Option<f64>,
    allow_tf32: bool,
    driver: Option<Arc<dyn Driver>>,
}

impl GpuOptions {
    /// The card with this number of the driver's, whole.
    pub fn card(number: usize) -> GpuOptions {
        GpuOptions {
            card: number,
            ..GpuOptions::default()
        }
    }

    /// The device of this driver, in place of the card's: an emulation, or a recording.
    pub fn driven_by(driver: Arc<dyn Driver>) -> GpuOptions {
        GpuOptions {
            driver: Some(driver),
            ..GpuOptions::default()
        }
    }

    /// With at most so many bytes of its variables and steps; by default, as many as the card has.
    pub fn memory_limit(self, bytes: usize) -> GpuOptions {
        GpuOptions {
            memory_limit: Some(bytes),
            ..self
        }
    }

    /// With at most this part of the card's memory, from 0 to 1. Of this and [`GpuOptions::memory_limit`], the lower
    /// counts.
    pub fn memory_fraction(self, part: f64) -> GpuOptions {
        GpuOptions {
            memory_fraction: Some(part),
            ..self
        }
    }

    /// As [`crate::SessionOptions::allow_tf32`], for this GPU alone.
    pub fn allow_tf32(self, allow_tf32: bool) -> GpuOptions {
        GpuOptions { allow_tf32, ..self }
    }

    /// Opens the device under this name.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn open(
        &self,
        device: &DeviceSpec,
        cards: &mut Cards,
        allow_tf32: bool,
    ) -> Result<Gpu, GpuError> {
        let driver = match &self.driver {
            Some(driver) => driver.clone(),
            None => cards.open(self.card)?,
        };
        let limit = match self.memory_fraction {
            None => self.memory_limit,
            Some(part) => {
                let (total, _) = driver.memory()?;
                let bytes = (total as f64 * part.clamp(0.0, 1.0)) as usize;
                Some(self.memory_limit.map_or(bytes, |l| l.min(bytes)))
            }
        };
        let mut gpu = Gpu::new(device.clone(), driver, limit)?;
        gpu.allow_tf32(self.allow_tf32 || allow_tf32);
        Ok(gpu)
    }
}
