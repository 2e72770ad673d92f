//! The CUDA implementation of [`crate::gpu::Driver`].

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{
    self, CUcontext, CUfunction, CUgraphExec, CUgraphInstantiate_flags, CUmodule, CUresult,
    CUstream, CUstreamCaptureMode,
};
use smallvec::SmallVec;
use thalweg_tensor::sync::Unpoisoned;

use super::driver_error::driver_error;
use super::libraries::Libraries;
use super::nccl::{Nccl, NcclCommunicator};
use super::{Card, Cubins};
use crate::gpu::{
    Address, Call, Command, Communicators, Driver, Function, GpuError, Handle, KeepWaiting,
    ReadyCall,
};

/// A card, opened.
#[derive(Debug)]
pub struct Cuda {
    card: Card,
    device: sys::CUdevice,
    /// The card's primary context, which every library shares.
    context: Pointer,
    cubins: Arc<Cubins>,
    /// By a source's name and macros: the module that has its functions.
    modules: Mutex<HashMap<(&'static str, Vec<String>), Pointer>>,
    /// None once they have been given up, before the context is.
    libraries: Option<Libraries>,
    /// NCCL, or the reason that it is not there, once it was needed.
    nccl: OnceLock<Result<Nccl, GpuError>>,
    /// The communicators in use, by number.
    joined: Mutex<Vec<Option<NcclCommunicator>>>,
}

/// One of the driver's own pointers. It is handed back to the driver and never followed.
#[derive(Clone, Copy, Debug)]
struct Pointer(*mut c_void);

// SAFETY: contexts, modules and functions belong to no thread; the driver locks for itself.
unsafe impl Send for Pointer {}
// SAFETY: as above.
unsafe impl Sync for Pointer {}

impl Cuda {
    /// Opens a card.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn open(card: Card, cubins: Arc<Cubins>) -> Result<Cuda, GpuError> {
        let device =
            result::device::get(card.number).map_err(|e| driver_error("open a card", e))?;
        // SAFETY: `device` was just given by the driver; the context is released when `self` is
        // dropped.
        let context = unsafe { result::primary_ctx::retain(device) };
        let context = context.map_err(|e| driver_error("make a context", e))?;
        Ok(Cuda {
            card,
            device,
            context: Pointer(context.cast()),
            cubins,
            modules: Mutex::default(),
            libraries: Some(Libraries::default()),
            nccl: OnceLock::new(),
            joined: Mutex::default(),
        })
    }

    /// Returns the card's properties as JSON, in the format of cuDNN 9.8 and later, for
    /// [`AbsentCard`](super::AbsentCard) on a machine without the card.
    ///
    /// # Errors
    /// [`GpuError::Driver`], without a cuDNN that reports them.
    pub fn cudnn_properties(&self) -> Result<String, GpuError> {
        self.enter()?;
        match &self.libraries {
            Some(libraries) => libraries.cudnn_properties(),
            None => Err(GpuError::NoCard),
        }
    }

    /// Makes the card's context that of the calling thread.
    fn enter(&self) -> Result<(), GpuError> {
        let own: CUcontext = self.context.0.cast();
        if let Ok(Some(current)) = result::ctx::get_current()
            && current == own
        {
            return Ok(());
        }
        // SAFETY: the context lives as long as `self`.
        unsafe { result::ctx::set_current(own) }.map_err(|e| driver_error("enter a context", e))
    }

    /// Lets this card read and write another one's memory directly, where the machine can: a copy
    /// between the two then does not go through the host. Where it cannot, the driver still copies.
    pub(super) fn reach(&self, other: &Cuda) {
        let mut can = 0;
        // SAFETY: both devices were given by the driver, and `can` lives through the call.
        let told = unsafe { sys::cuDeviceCanAccessPeer(&mut can, self.device, other.device) };
        if told == CUresult::CUDA_SUCCESS && can != 0 && self.enter().is_ok() {
            // SAFETY: the other context lives; the error that it is enabled already does no harm.
            let _ = unsafe { sys::cuCtxEnablePeerAccess(other.context.0.cast(), 0) };
        }
    }

    /// NCCL, opened once.
    fn nccl(&self) -> Result<&Nccl, GpuError> {
        let opened = self.nccl.get_or_init(Nccl::open);
        opened.as_ref().map_err(Clone::clone)
    }

    /// Calls `then` with a communicator.
    fn with<R>(
        &self,
        communicator: Handle,
        then: impl FnOnce(&Nccl, &mut NcclCommunicator) -> Result<R, GpuError>,
    ) -> Result<R, GpuError> {
        let nccl = self.nccl()?;
        let mut joined = self.joined.lock().unpoisoned();
        let place = joined.get_mut(communicator as usize);
        let found = place.and_then(Option::as_mut);
        let found = found.ok_or_else(|| GpuError::Driver {
            what: "use a communicator",
            reason: "it was given up".to_owned(),
        })?;
        then(nccl, found)
    }

    fn module(&self, function: &Function) -> Result<CUmodule, GpuError> {
        let key = (function.source.name, function.macros());
        let mut modules = self.modules.lock().unpoisoned();
        if let Some(module) = modules.get(&key) {
            return Ok(module.0.cast());
        }
        let cubin = self.cubins.get(function, &self.card.architecture())?;
        // SAFETY: the image is whole, as the compiler gave it or the cache's checksum says, and
        // the driver copies it.
        let module = unsafe { result::module::load_data(cubin.as_ptr().cast()) };
        let module = module.map_err(|e| driver_error("load kernels", e))?;
        modules.insert(key, Pointer(module.cast()));
        Ok(module)
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if self.enter().is_ok() {
            self.libraries = None;
            let modules = self.modules.get_mut().unpoisoned();
            for (_, module) in modules.drain() {
                // SAFETY: loaded by `module`, and not in use: every queue has been waited for.
                let _ = unsafe { result::module::unload(module.0.cast()) };
            }
        }
        // SAFETY: retained when `self` was made. An error cannot be returned from here.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

// SAFETY: commands are submitted to NCCL as they are.
unsafe impl Communicators for Cuda {
    fn identity(&self) -> Result<Vec<u8>, GpuError> {
        self.enter()?;
        self.nccl()?.identity()
    }

    fn meet(
        &self,
        identity: &[u8],
        place: usize,
        size: usize,
        keep_waiting: KeepWaiting,
    ) -> Result<Handle, GpuError> {
        self.enter()?;
        let met = self.nccl()?.meet(identity, place, size, keep_waiting)?;
        let mut joined = self.joined.lock().unpoisoned();
        joined.push(Some(met));
        Ok(joined.len() as Handle - 1)
    }

    fn abort(&self, communicator: Handle) {
        // One that is gone needs no end.
        let _ = self.enter().and_then(|()| {
            self.with(communicator, |nccl, joined| {
                nccl.abort(joined);
                Ok(())
            })
        });
    }

    fn drop_communicator(&self, communicator: Handle) {
        let mut joined = self.joined.lock().unpoisoned();
        let place = joined.get_mut(communicator as usize);
        let taken = place.and_then(Option::take);
        drop(joined);
        if let (Some(taken), Ok(nccl), Ok(())) = (taken, self.nccl(), self.enter()) {
            nccl.give_up(taken);
        }
    }

    fn has_run(&self, queue: Handle) -> Result<bool, GpuError> {
        self.enter()?;
        // SAFETY: the stream was made by `queue`.
        match unsafe { sys::cuStreamQuery(stream(queue)) } {
            CUresult::CUDA_SUCCESS => Ok(true),
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => Err(driver_error("run what it was handed", DriverError(other))),
        }
    }
}

fn stream(queue: Handle) -> CUstream {
    queue as usize as CUstream
}

// SAFETY: memory comes from the card's driver, and commands are submitted to it as they are.
unsafe impl Driver for Cuda {
    fn name(&self) -> String {
        self.card.name.clone()
    }

    fn memory(&self) -> Result<(usize, usize), GpuError> {
        self.enter()?;
        let (free, total) =
            result::mem_get_info().map_err(|e| driver_error("tell a card's memory", e))?;
        Ok((total, free))
    }

    fn queue(&self) -> Result<Handle, GpuError> {
        self.enter()?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking);
        let stream = stream.map_err(|e| driver_error("make a stream", e))?;
        Ok(stream as usize as Handle)
    }

    fn drop_queue(&self, queue: Handle) {
        if self.enter().is_ok() {
            // SAFETY: made by `queue`, and not used any more.
            let _ = unsafe { result::stream::destroy(stream(queue)) };
        }
    }

    fn allocate(&self, bytes: usize) -> Result<Address, GpuError> {
        self.enter()?;
        // SAFETY: it is not read before it is written: the plan ensures that.
        match unsafe { result::malloc_sync(bytes) } {
            Ok(address) => Ok(address),
            Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                Err(GpuError::OutOfMemory { bytes })
            }
            Err(e) => Err(driver_error("take memory", e)),
        }
    }

    fn free(&self, address: Address) {
        if self.enter().is_ok() {
            // SAFETY: given by `allocate`, and not used any more.
            let _ = unsafe { result::free_sync(address) };
        }
    }

    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        self.enter()?;
        // Not write-combined: results are read from it. SAFETY: it is zeroed below, before anything uses it.
        let memory = unsafe { result::malloc_host(bytes, 0) };
        let memory = memory.map_err(|e| driver_error("take memory of the host", e))?;
        let pointer = NonNull::new(memory.cast::<u8>());
        let pointer = pointer.ok_or(GpuError::OutOfMemory { bytes })?;
        // SAFETY: the driver has just given so many bytes.
        unsafe { pointer.as_ptr().write_bytes(0, bytes) };
        Ok(pointer)
    }

    unsafe fn free_host(&self, memory: NonNull<u8>, _bytes: usize) {
        if self.enter().is_ok() {
            // SAFETY: by the caller's promise.
            let _ = unsafe { result::free_host(memory.as_ptr().cast()) };
        }
    }

    fn load(&self, function: &Function) -> Result<Handle, GpuError> {
        self.enter()?;
        let module = self.module(function)?;
        let name = CString::new(function.name).unwrap_or_default();
        // SAFETY: the module is loaded for as long as `self` lives.
        let function = unsafe { result::module::get_function(module, name) };
        let function = function.map_err(|e| driver_error("find a kernel", e))?;
        Ok(function as usize as Handle)
    }

    fn prepare(&self, call: &Call, tf32: bool) -> Result<ReadyCall, String> {
        self.enter().map_err(|e| e.to_string())?;
        match &self.libraries {
            Some(libraries) => libraries.prepare(call, tf32),
            None => Err("the card is being given up".to_owned()),
        }
    }

    fn communicators(&self) -> Result<&dyn Communicators, GpuError> {
        self.nccl().map(|_| self as &dyn Communicators)
    }

    unsafe fn submit(&self, queue: Handle, command: &Command) -> Result<(), GpuError> {
        self.enter()?;
        let stream = stream(queue);
        // SAFETY: by the caller's promise every address is valid for the command until the stream
        // has run it; functions and graphs were given by this driver.
        let submitted = unsafe {
            match command {
                Command::Launch {
                    function,
                    blocks,
                    threads,
                    arguments,
                } => {
                    let pointers = arguments.pointers();
                    let mut pointers: SmallVec<[*mut c_void; 12]> =
                        pointers.map(|p| p.cast_mut().cast()).collect();
                    let function = *function as usize as CUfunction;
                    let (grid, block) = ((*blocks, 1, 1), (*threads, 1, 1));
                    result::launch_kernel(function, grid, block, 0, stream, &mut pointers)
                }
                Command::Call {
                    call,
                    addresses,
                    workspace,
                } => {
                    let Some(libraries) = &self.libraries else {
                        return Ok(());
                    };
                    return libraries.submit(*call, *addresses, *workspace, stream);
                }
                Command::CopyIn { from, to, bytes } => {
                    sys::cuMemcpyHtoDAsync_v2(*to, *from as *const c_void, *bytes, stream).result()
                }
                Command::CopyOut { from, to, bytes } => {
                    sys::cuMemcpyDtoHAsync_v2(*to as *mut c_void, *from, *bytes, stream).result()
                }
                Command::Copy { from, to, bytes } => {
                    // Addresses are of one space over all cards.
                    sys::cuMemcpyAsync(*to, *from, *bytes, stream).result()
                }
                Command::Fill { to, byte, bytes } => {
                    result::memset_d8_async(*to, *byte, *bytes, stream)
                }
                Command::Collective {
                    communicator,
                    kind,
                    dtype,
                    from,
                    to,
                    elements,
                } => {
                    let values = (*from, *to, *elements);
                    return self.with(*communicator, |nccl, joined| {
                        nccl.begin(joined, (*kind, *dtype), values, stream)
                    });
                }
                Command::Join { communicator } => {
                    return self.with(*communicator, |nccl, joined| nccl.join(joined, stream));
                }
                Command::Replay { graph } => {
                    result::graph::launch(*graph as usize as CUgraphExec, stream)
                }
            }
        };
        submitted.map_err(|e| driver_error(command.name(), e))
    }

    fn wait(&self, queue: Handle) -> Result<(), GpuError> {
        self.enter()?;
        // SAFETY: the stream was made by `queue`.
        let waited = unsafe { result::stream::synchronize(stream(queue)) };
        waited.map_err(|e| driver_error("run what it was handed", e))
    }

    fn begin(&self, queue: Handle) -> Result<(), GpuError> {
        self.enter()?;
        // Other threads may go on taking memory and loading kernels.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream was made by `queue`.
        let begun = unsafe { result::stream::begin_capture(stream(queue), mode) };
        begun.map_err(|e| driver_error("begin to capture", e))
    }

    fn end(&self, queue: Handle) -> Result<Handle, GpuError> {
        self.enter()?;
        // SAFETY: the stream was made by `queue` and captures; the graph is copied into the
        // executable one, and destroyed here.
        let instantiated = unsafe {
            result::stream::end_capture(stream(queue)).and_then(|graph| {
                let executable = result::graph::instantiate(graph, CUgraphInstantiate_flags(0));
                result::graph::destroy(graph).and(executable)
            })
        };
        let graph = instantiated.map_err(|e| driver_error("capture", e))?;
        Ok(graph as usize as Handle)
    }

    fn drop_graph(&self, graph: Handle) {
        if self.enter().is_ok() {
            // SAFETY: made by `end`, and it does not run any more.
            let _ = unsafe { result::graph::exec_destroy(graph as usize as CUgraphExec) };
        }
    }
}
