//! The GPU of tests that run on any GPU: the machine's first card with `REQUIRE_GPU=1`, otherwise the emulated one.

use std::sync::Arc;

use thalweg::device::cuda::Cards;
use thalweg::device::gpu::Driver;
use thalweg::prelude::SessionOptions;
use thalweg::session::GpuOptions;

use super::emulated::{Checks, Emulated, has_compiler};
use super::emulated_gpu::{Call, EmulatedGpu};
use super::without_libraries::WithoutLibraries;

/// A card, or the emulated GPU.
pub struct Gpu {
    /// Runs the GPU's commands; logical devices share it.
    pub driver: Arc<dyn Driver>,
    /// The same driver where it is emulated.
    emulated: Option<Arc<EmulatedGpu>>,
}

/// `true` where the tests run on the machine's first card.
pub fn is_required() -> bool {
    std::env::var("REQUIRE_GPU").is_ok_and(|v| v == "1")
}

/// The GPU to test on. Panics where a card is required and missing; prints a message and returns `None` where there is
/// no compiler for the emulation. A card computes with the libraries that it has.
pub fn gpu() -> Option<Gpu> {
    gpu_with(is_required())
}

/// As [`gpu`], with libraries for GEMMs and convolutions, or without.
pub fn gpu_with(libraries: bool) -> Option<Gpu> {
    if is_required() {
        let opened = Cards::new(thalweg::ops::gpu::HEADER).open(0);
        let driver = opened.unwrap_or_else(|e| panic!("REQUIRE_GPU=1: {e}"));
        return Some(Gpu::of(driver, libraries));
    }
    has_compiler().then(|| {
        let kernels = Arc::new(Emulated::new(Checks::None));
        let emulated = match libraries {
            true => EmulatedGpu::with_libraries(&kernels),
            false => EmulatedGpu::new(&kernels),
        };
        Gpu {
            driver: emulated.clone(),
            emulated: Some(emulated),
        }
    })
}

impl Gpu {
    /// An open card, with its libraries or without.
    pub fn of(driver: Arc<dyn Driver>, libraries: bool) -> Gpu {
        let driver = match libraries {
            true => driver,
            false => Arc::new(WithoutLibraries(driver)),
        };
        Gpu {
            driver,
            emulated: None,
        }
    }

    /// One device that is this GPU, whole.
    pub fn device(&self) -> GpuOptions {
        GpuOptions::driven_by(self.driver.clone())
    }

    /// A session's options with this GPU and one thread.
    pub fn options(&self) -> SessionOptions {
        SessionOptions::new().threads(1).gpu(self.device())
    }

    /// The driver calls since the last time; `None` for a card, which keeps no record. Plans are the same for both, so
    /// that checks of the emulated GPU's calls hold for a card.
    pub fn calls(&self) -> Option<Vec<Call>> {
        self.emulated.as_ref().map(|gpu| gpu.calls())
    }
}
