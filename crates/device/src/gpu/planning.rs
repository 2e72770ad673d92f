//! A GPU that plans are made for, and that runs nothing: all kernels compile and all libraries are there.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use thalweg_tensor::sync::Unpoisoned;

use super::{Address, Call, Command, Driver, Function, GpuError, Handle, ReadyCall};

/// The driver of a GPU that plans are made for, on any machine, and that runs nothing. Its kernels compile, and libraries
/// compute all products and convolutions.
///
/// ```
/// use thalweg_device::gpu::{Driver, PlanningDriver};
///
/// // An H200.
/// let driver = PlanningDriver::new(141 << 30);
/// assert_eq!(driver.memory().unwrap(), (141 << 30, 141 << 30));
/// assert!(driver.allocate_host(1).is_err());
/// ```
#[derive(Clone, Debug)]
pub struct PlanningDriver {
    bytes: usize,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl PlanningDriver {
    /// Of a card with so many bytes of memory.
    pub fn new(bytes: usize) -> PlanningDriver {
        PlanningDriver {
            bytes,
            calls: Arc::default(),
        }
    }

    /// Returns the library calls that plans have asked for.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unpoisoned().clone()
    }

    fn refuse<T>() -> Result<T, GpuError> {
        Err(GpuError::Driver {
            what: "run a step",
            reason: "plans alone are made for this GPU".to_owned(),
        })
    }
}

// SAFETY: it runs no command, so that no address is used.
unsafe impl Driver for PlanningDriver {
    fn prepare(&self, call: &Call, _: bool) -> Result<ReadyCall, String> {
        self.calls.lock().unpoisoned().push(*call);
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
        Ok((self.bytes, self.bytes))
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
