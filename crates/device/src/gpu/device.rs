//! A GPU as a device: a queue and memory of its own. Several may be parts of one card.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use thalweg_graph::DeviceSpec;
use thalweg_tensor::Memory;
use thalweg_tensor::sync::Unpoisoned;

use super::{Address, Call, Command, Driver, Function, GpuError, Handle, ReadyCall, Turns};
use crate::cpu::Cpu;
use crate::device_type::DeviceType;

/// A GPU, or a part of one.
pub struct Gpu {
    name: DeviceSpec,
    driver: Arc<dyn Driver>,
    queue: Handle,
    memory: Arc<Memory>,
    /// The thread of the host that submits its commands.
    host: Cpu,
    functions: Mutex<HashMap<Function, Handle>>,
    turns: Turns,
    tf32: bool,
}

impl Gpu {
    /// A device under this name, with memory of at most `limit` bytes; `None` for as many as the
    /// card has.
    ///
    /// # Errors
    /// The driver's error.
    pub fn new(
        name: DeviceSpec,
        driver: Arc<dyn Driver>,
        limit: Option<usize>,
    ) -> Result<Gpu, GpuError> {
        Ok(Gpu {
            queue: driver.queue()?,
            host: Cpu::new(1).named(name.clone(), None),
            name,
            driver,
            memory: Arc::new(Memory::new(limit)),
            functions: Mutex::default(),
            turns: Turns::default(),
            tf32: false,
        })
    }

    /// Lets libraries compute `f32` in TF32: faster, with 10 bits of mantissa.
    pub fn allow_tf32(&mut self, allowed: bool) {
        self.tf32 = allowed;
    }

    /// The name of GPU number `index` of the local task.
    pub fn local(index: u32) -> DeviceSpec {
        DeviceSpec {
            device_type: Some(DeviceType::Gpu.name().into()),
            ..Cpu::local(index)
        }
    }

    /// Its full name.
    pub fn name(&self) -> &DeviceSpec {
        &self.name
    }

    /// Its number among the GPUs of its task.
    pub fn number(&self) -> u32 {
        self.name.index.unwrap_or(0)
    }

    /// Returns the driver that runs its commands.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    /// The account of its memory.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The thread of the host that submits its commands.
    pub fn host(&self) -> &Cpu {
        &self.host
    }

    /// Returns the turns of steps: a step has a GPU for itself.
    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    /// A function, compiled and loaded once.
    ///
    /// # Errors
    /// As [`Driver::load`].
    pub fn load(&self, function: &Function) -> Result<Handle, GpuError> {
        let mut functions = self.functions.lock().unpoisoned();
        if let Some(&handle) = functions.get(function) {
            return Ok(handle);
        }
        let handle = self.driver.load(function)?;
        functions.insert(function.clone(), handle);
        Ok(handle)
    }

    /// As [`Driver::prepare`].
    ///
    /// # Errors
    /// As [`Driver::prepare`].
    pub fn prepare(&self, call: &Call) -> Result<ReadyCall, String> {
        self.driver.prepare(call, self.tf32)
    }

    /// Memory of this many bytes.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`] where the limit or the card does not allow it.
    pub fn allocate(&self, bytes: usize) -> Result<Block, GpuError> {
        if !self.memory.take(bytes) {
            return Err(GpuError::OutOfMemory { bytes });
        }
        let address = match bytes {
            0 => Ok(0),
            bytes => self.driver.allocate(bytes),
        };
        let address = address.inspect_err(|_| self.memory.give(bytes))?;
        Ok(Block {
            address,
            bytes,
            driver: self.driver.clone(),
            memory: self.memory.clone(),
        })
    }

    /// Memory of the host that this GPU's commands copy from and to, zeroed.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn allocate_host(&self, bytes: usize) -> Result<HostBlock, GpuError> {
        let pointer = match bytes {
            0 => NonNull::dangling(),
            bytes => self.driver.allocate_host(bytes)?,
        };
        Ok(HostBlock {
            pointer,
            bytes,
            driver: self.driver.clone(),
        })
    }

    /// Submits a command to the device's queue.
    ///
    /// # Errors
    /// As [`Driver::submit`].
    ///
    /// # Safety
    /// As [`Driver::submit`].
    pub unsafe fn submit(&self, command: &Command) -> Result<(), GpuError> {
        // SAFETY: by the caller's promise.
        unsafe { self.driver.submit(self.queue, command) }
    }

    /// Waits until all submitted commands have run.
    ///
    /// # Errors
    /// As [`Driver::wait`].
    pub fn wait(&self) -> Result<(), GpuError> {
        self.driver.wait(self.queue)
    }

    /// Returns `true` if all submitted commands have run; for those that wait for other ranks.
    ///
    /// # Errors
    /// As [`Communicators::has_run`](super::Communicators::has_run).
    pub fn has_run(&self) -> Result<bool, GpuError> {
        self.driver.communicators()?.has_run(self.queue)
    }

    /// Captures the commands of `submit` without running them.
    ///
    /// # Errors
    /// The driver's error, or that of `submit`.
    pub fn capture(
        &self,
        submit: impl FnOnce() -> Result<(), GpuError>,
    ) -> Result<Graph, GpuError> {
        self.driver.begin(self.queue)?;
        let submitted = submit();
        // A capture that has begun is ended, whatever came of it.
        let graph = self.driver.end(self.queue).map(|handle| Graph {
            handle,
            driver: self.driver.clone(),
        });
        submitted?;
        graph
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // Submitted commands use memory that is given back next. An error cannot be returned from here.
        let _ = self.wait();
        self.driver.drop_queue(self.queue);
    }
}

/// Memory of a GPU.
#[derive(Debug)]
pub struct Block {
    address: Address,
    bytes: usize,
    driver: Arc<dyn Driver>,
    memory: Arc<Memory>,
}

impl Block {
    /// Its first byte.
    pub fn address(&self) -> Address {
        self.address
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.driver.free(self.address);
        }
        self.memory.give(self.bytes);
    }
}

/// Memory of the host that a GPU's commands copy from and to.
#[derive(Debug)]
pub struct HostBlock {
    pointer: NonNull<u8>,
    bytes: usize,
    driver: Arc<dyn Driver>,
}

// SAFETY: it owns its bytes as a `Box<[u8]>` does.
unsafe impl Send for HostBlock {}
// SAFETY: as above; shared access only reads the address.
unsafe impl Sync for HostBlock {}

impl HostBlock {
    /// Its first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// `true` if there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: given by this driver with this length, and gone with `self`.
            unsafe { self.driver.free_host(self.pointer, self.bytes) };
        }
    }
}

/// Commands that were captured.
#[derive(Debug)]
pub struct Graph {
    handle: Handle,
    driver: Arc<dyn Driver>,
}

impl Graph {
    /// The command that runs them.
    pub fn replay(&self) -> Command {
        Command::Replay { graph: self.handle }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.driver.drop_graph(self.handle);
    }
}
