//! A GPU that plans are made for, and that runs nothing: all kernels compile and all libraries are there.

use std::ptr::NonNull;
use std::sync::Arc;

use thalweg::device::gpu::{Address, Call, Command, Driver, Function, GpuError, Handle, ReadyCall};
use thalweg::prelude::SessionOptions;
use thalweg::session::GpuOptions;

/// Memory of the card that it stands for.
const BYTES: usize = 141 << 30;

/// The GPU.
#[derive(Debug)]
pub struct PlanningGpu;

impl PlanningGpu {
    /// Options of a session with one such GPU.
    pub fn options() -> SessionOptions {
        let gpu = GpuOptions::driven_by(Arc::new(PlanningGpu));
        SessionOptions::new().threads(1).gpu(gpu)
    }

    fn refuse<T>() -> Result<T, GpuError> {
        Err(GpuError::Driver {
            what: "run a step",
            reason: "plans alone are made for this GPU".to_owned(),
        })
    }
}

// SAFETY: it runs no command, so that no address is used.
unsafe impl Driver for PlanningGpu {
    fn prepare(&self, _: &Call, _: bool) -> Result<ReadyCall, String> {
        Ok(ReadyCall {
            handle: 0,
            workspace: 0,
            engine: None,
        })
    }

    fn name(&self) -> String {
        "planned".to_owned()
    }

    fn memory(&self) -> Result<(usize, usize), GpuError> {
        Ok((BYTES, BYTES))
    }

    fn queue(&self) -> Result<Handle, GpuError> {
        Ok(0)
    }

    fn drop_queue(&self, _: Handle) {}

    fn allocate(&self, _: usize) -> Result<Address, GpuError> {
        // A variable has an address in a plan; no command uses it.
        Ok(256)
    }

    fn free(&self, _: Address) {}

    fn allocate_host(&self, _: usize) -> Result<NonNull<u8>, GpuError> {
        Self::refuse()
    }

    unsafe fn free_host(&self, _: NonNull<u8>, _: usize) {}

    fn load(&self, _: &Function) -> Result<Handle, GpuError> {
        Ok(0)
    }

    unsafe fn submit(&self, _: Handle, _: &Command) -> Result<(), GpuError> {
        Self::refuse()
    }

    fn wait(&self, _: Handle) -> Result<(), GpuError> {
        Ok(())
    }

    fn begin(&self, _: Handle) -> Result<(), GpuError> {
        Self::refuse()
    }

    fn end(&self, _: Handle) -> Result<Handle, GpuError> {
        Self::refuse()
    }

    fn drop_graph(&self, _: Handle) {}
}
