//! A GPU that is emulated on the CPU: an implementation of the driver trait.
//!
//! Commands run when a caller waits for them, and no earlier. This reveals reads of results and writes to arguments
//! without a wait. Allocated memory is filled with garbage.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use libloading::Library;
use thalweg::device::gpu::{
    Address, Call as LibraryCall, Command, Driver, Function, GpuError, Handle, ReadyCall,
};
use thalweg_tensor::sync::Unpoisoned;

use super::emulated::{Emulated, run_emulated};
use super::naive_libraries;

/// A call of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    Allocate(usize),
    Free,
    AllocateHost(usize),
    FreeHost,
    Load(&'static str),
    /// A command that runs, with the name of the launched function, if any.
    Submit(&'static str, Option<&'static str>),
    /// A command that is captured.
    Capture(&'static str),
    Begin,
    End,
    Wait,
}

#[derive(Default)]
struct GpuState {
    memory: HashMap<Address, Layout>,
    functions: Vec<(Arc<Library>, Function)>,
    /// The prepared library calls, and whether each may use TF32.
    made: Vec<LibraryCall>,
    tf32: Vec<bool>,
    queues: Vec<Queue>,
    graphs: Vec<Option<Vec<Command>>>,
    calls: Vec<Call>,
}

#[derive(Clone, Default)]
struct Queue {
    waiting: Vec<Command>,
    captured: Option<Vec<Command>>,
}

pub struct EmulatedGpu {
    kernels: Arc<Emulated>,
    /// Size of the memory in bytes.
    bytes: usize,
    /// `true` with libraries of GEMMs and convolutions.
    libraries: bool,
    /// Index of the command that fails, once.
    fails: Mutex<Option<usize>>,
    state: Mutex<GpuState>,
}

impl std::fmt::Debug for EmulatedGpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EmulatedGpu")
    }
}

const DEFAULT_BYTES: usize = 1 << 40;

impl EmulatedGpu {
    pub fn new(kernels: &Arc<Emulated>) -> Arc<EmulatedGpu> {
        EmulatedGpu::of(kernels, DEFAULT_BYTES)
    }

    /// A GPU with this memory, in bytes.
    pub fn of(kernels: &Arc<Emulated>, bytes: usize) -> Arc<EmulatedGpu> {
        EmulatedGpu::made(kernels, bytes, false)
    }

    /// A GPU with libraries of GEMMs and convolutions.
    pub fn with_libraries(kernels: &Arc<Emulated>) -> Arc<EmulatedGpu> {
        EmulatedGpu::made(kernels, DEFAULT_BYTES, true)
    }

    fn made(kernels: &Arc<Emulated>, bytes: usize, libraries: bool) -> Arc<EmulatedGpu> {
        Arc::new(EmulatedGpu {
            kernels: kernels.clone(),
            bytes,
            libraries,
            fails: Mutex::default(),
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, GpuState> {
        self.state.lock().unpoisoned()
    }

    /// The driver calls since the last time.
    pub fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.state().calls)
    }

    /// By prepared library call: whether it may use TF32.
    pub fn tf32(&self) -> Vec<bool> {
        self.state().tf32.clone()
    }

    /// Makes the command after the next `commands` fail.
    pub fn fail_after(&self, commands: usize) {
        *self.fails.lock().unwrap() = Some(commands);
    }

    /// Allocated bytes.
    pub fn used(&self) -> usize {
        self.state().memory.values().map(Layout::size).sum()
    }

    fn run(&self, state: &GpuState, command: &Command) -> Result<(), String> {
        // SAFETY: the session promises valid addresses, and they are of this process; these tests look for violations
        // of that.
        unsafe {
            match command {
                Command::Launch {
                    function,
                    blocks,
                    threads,
                    arguments,
                } => {
                    let (library, function) = &state.functions[*function as usize];
                    let pointers = arguments.pointers();
                    let mut pointers: Vec<*mut c_void> =
                        pointers.map(|p| p.cast_mut().cast()).collect();
                    let name = function.name;
                    return run_emulated(library, name, (*blocks, *threads), &mut pointers, 0);
                }
                Command::CopyIn { from, to, bytes } => {
                    std::ptr::copy_nonoverlapping(*from as *const u8, *to as *mut u8, *bytes);
                }
                Command::CopyOut { from, to, bytes } => {
                    std::ptr::copy_nonoverlapping(*from as *const u8, *to as *mut u8, *bytes);
                }
                Command::Copy { from, to, bytes } => {
                    std::ptr::copy_nonoverlapping(*from as *const u8, *to as *mut u8, *bytes);
                }
                Command::Fill { to, byte, bytes } => (*to as *mut u8).write_bytes(*byte, *bytes),
                Command::Call {
                    call, addresses, ..
                } => naive_libraries::compute(&state.made[*call as usize], *addresses),
                Command::Replay { .. } => return Err("a graph in a graph".to_owned()),
                Command::Collective { .. } | Command::Group { .. } | Command::Join { .. } => {
                    return Err("it has no communicators".to_owned());
                }
            }
        }
        Ok(())
    }
}

fn broken(reason: &str) -> GpuError {
    GpuError::Driver {
        what: "run what it was handed",
        reason: reason.to_owned(),
    }
}

// SAFETY: memory is the system allocator's, and commands have only their documented effects.
unsafe impl Driver for EmulatedGpu {
    fn name(&self) -> String {
        "an emulated GPU".to_owned()
    }

    fn memory(&self) -> Result<(usize, usize), GpuError> {
        Ok((self.bytes, self.bytes - self.used()))
    }

    fn queue(&self) -> Result<Handle, GpuError> {
        let mut state = self.state();
        state.queues.push(Queue::default());
        Ok(state.queues.len() as Handle - 1)
    }

    fn drop_queue(&self, queue: Handle) {
        assert!(self.state().queues[queue as usize].waiting.is_empty());
    }

    fn allocate(&self, bytes: usize) -> Result<Address, GpuError> {
        if self.used() + bytes > self.bytes {
            return Err(GpuError::OutOfMemory { bytes });
        }
        let mut state = self.state();
        state.calls.push(Call::Allocate(bytes));
        let layout = Layout::from_size_align(bytes, 256).expect("a size");
        // SAFETY: callers never request zero bytes.
        let memory = unsafe { alloc(layout) };
        assert!(!memory.is_null());
        // SAFETY: just allocated with this size.
        unsafe { memory.write_bytes(0xa5, bytes) };
        state.memory.insert(memory as Address, layout);
        Ok(memory as Address)
    }

    fn free(&self, address: Address) {
        let mut state = self.state();
        state.calls.push(Call::Free);
        assert!(
            state.queues.iter().all(|q| q.waiting.is_empty()),
            "memory is given back while commands wait"
        );
        let layout = state.memory.remove(&address).expect("memory of this GPU");
        // SAFETY: allocated by `allocate` with this layout.
        unsafe { dealloc(address as *mut u8, layout) };
    }

    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        self.state().calls.push(Call::AllocateHost(bytes));
        let layout = Layout::from_size_align(bytes, 256).expect("a size");
        // SAFETY: callers never request zero bytes.
        let memory = unsafe { std::alloc::alloc_zeroed(layout) };
        NonNull::new(memory).ok_or(GpuError::OutOfMemory { bytes })
    }

    unsafe fn free_host(&self, memory: NonNull<u8>, bytes: usize) {
        self.state().calls.push(Call::FreeHost);
        let layout = Layout::from_size_align(bytes, 256).expect("a size");
        // SAFETY: by the caller's promise.
        unsafe { dealloc(memory.as_ptr(), layout) };
    }

    fn load(&self, function: &Function) -> Result<Handle, GpuError> {
        let library = self.kernels.library(function);
        let mut state = self.state();
        state.calls.push(Call::Load(function.name));
        state.functions.push((library, function.clone()));
        Ok(state.functions.len() as Handle - 1)
    }

    fn prepare(&self, call: &LibraryCall, tf32: bool) -> Result<ReadyCall, String> {
        if !self.libraries {
            return Err("this GPU has no libraries".to_owned());
        }
        if !naive_libraries::takes(call) {
            return Err("it is not computed one element after the other".to_owned());
        }
        let mut state = self.state();
        state.made.push(*call);
        state.tf32.push(tf32);
        Ok(ReadyCall {
            handle: state.made.len() as Handle - 1,
            workspace: 64,
            engine: None,
        })
    }

    unsafe fn submit(&self, queue: Handle, command: &Command) -> Result<(), GpuError> {
        let mut fails = self.fails.lock().unwrap();
        match &mut *fails {
            Some(0) => {
                *fails = None;
                return Err(broken("CUDA_ERROR_LAUNCH_FAILED"));
            }
            Some(n) => *n -= 1,
            None => {}
        }
        let mut state = self.state();
        let name = match command {
            Command::Launch { function, .. } => Some(state.functions[*function as usize].1.name),
            _ => None,
        };
        let captures = state.queues[queue as usize].captured.is_some();
        state.calls.push(match captures {
            true => Call::Capture(command.name()),
            false => Call::Submit(command.name(), name),
        });
        let again = match command {
            Command::Replay { graph } => {
                let graph = state.graphs[*graph as usize].clone();
                graph.expect("a graph that is not given up")
            }
            command => vec![command.clone()],
        };
        let queue = &mut state.queues[queue as usize];
        match &mut queue.captured {
            Some(captured) => captured.extend(again),
            None => queue.waiting.extend(again),
        }
        Ok(())
    }

    fn wait(&self, queue: Handle) -> Result<(), GpuError> {
        let mut state = self.state();
        state.calls.push(Call::Wait);
        assert!(state.queues[queue as usize].captured.is_none());
        let commands = std::mem::take(&mut state.queues[queue as usize].waiting);
        let state = &*state;
        let mut all = commands.iter();
        all.try_for_each(|c| self.run(state, c))
            .map_err(|e| broken(&e))
    }

    fn begin(&self, queue: Handle) -> Result<(), GpuError> {
        let mut state = self.state();
        state.calls.push(Call::Begin);
        let captured = state.queues[queue as usize].captured.replace(Vec::new());
        assert!(captured.is_none(), "a capture in a capture");
        Ok(())
    }

    fn end(&self, queue: Handle) -> Result<Handle, GpuError> {
        let mut state = self.state();
        state.calls.push(Call::End);
        let captured = state.queues[queue as usize].captured.take();
        state.graphs.push(Some(captured.expect("a capture")));
        Ok(state.graphs.len() as Handle - 1)
    }

    fn drop_graph(&self, graph: Handle) {
        let graph = self.state().graphs[graph as usize].take();
        assert!(graph.is_some(), "a graph is given up once");
    }
}
