//! A driver without libraries, so that Thalweg's own kernels compute GEMMs and convolutions on a card.

use std::ptr::NonNull;
use std::sync::Arc;

use thalweg::device::gpu::{Address, Call, Command, Driver, Function, GpuError, Handle, ReadyCall};

/// Wraps a driver and refuses its library calls.
#[derive(Debug)]
pub struct WithoutLibraries(pub Arc<dyn Driver>);

// SAFETY: the wrapped driver keeps the trait's promises, and gets every other call.
unsafe impl Driver for WithoutLibraries {
    fn prepare(&self, _: &Call, _: bool) -> Result<ReadyCall, String> {
        Err("this test leaves libraries out".to_owned())
    }

    fn name(&self) -> String {
        self.0.name()
    }

    fn memory(&self) -> Result<(usize, usize), GpuError> {
        self.0.memory()
    }

    fn queue(&self) -> Result<Handle, GpuError> {
        self.0.queue()
    }

    fn drop_queue(&self, queue: Handle) {
        self.0.drop_queue(queue);
    }

    fn allocate(&self, bytes: usize) -> Result<Address, GpuError> {
        self.0.allocate(bytes)
    }

    fn free(&self, address: Address) {
        self.0.free(address);
    }

    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        self.0.allocate_host(bytes)
    }

    unsafe fn free_host(&self, memory: NonNull<u8>, bytes: usize) {
        // SAFETY: by the caller's promise.
        unsafe { self.0.free_host(memory, bytes) }
    }

    fn load(&self, function: &Function) -> Result<Handle, GpuError> {
        self.0.load(function)
    }

    unsafe fn submit(&self, queue: Handle, command: &Command) -> Result<(), GpuError> {
        // SAFETY: by the caller's promise.
        unsafe { self.0.submit(queue, command) }
    }

    fn wait(&self, queue: Handle) -> Result<(), GpuError> {
        self.0.wait(queue)
    }

    fn begin(&self, queue: Handle) -> Result<(), GpuError> {
        self.0.begin(queue)
    }

    fn end(&self, queue: Handle) -> Result<Handle, GpuError> {
        self.0.end(queue)
    }

    fn drop_graph(&self, graph: Handle) {
        self.0.drop_graph(graph);
    }
}
