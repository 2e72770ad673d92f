//! The CUDA implementation of [`crate::gpu::Driver`].

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock};

use smallvec::SmallVec;
use thalweg_tensor::sync::Unpoisoned;

use super::driver_api::{DeviceNumber, DriverApi, DriverCode, Raw, Stream, THREAD_LOCAL_CAPTURE};
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
    api: DriverApi,
    card: Card,
    device: DeviceNumber,
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
    joined: Mutex<Vec<Option<Arc<Mutex<NcclCommunicator>>>>>,
}

/// One of the driver's own pointers. It is handed back to the driver and never followed.
#[derive(Clone, Copy, Debug)]
struct Pointer(Raw);

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
        Cuda::with_driver(DriverApi::open()?, card, cubins)
    }

    /// Opens a card of a driver that is open.
    pub(super) fn with_driver(
        api: DriverApi,
        card: Card,
        cubins: Arc<Cubins>,
    ) -> Result<Cuda, GpuError> {
        let device = api
            .card(card.number)
            .map_err(|e| driver_error("open a card", e))?;
        let mut context = std::ptr::null_mut();
        // SAFETY: `device` was just given by the driver; the context is released when `self` is dropped.
        let code = unsafe { (api.retain_context)(&mut context, device) };
        DriverCode::of(code).map_err(|e| driver_error("make a context", e))?;
        let libraries = Libraries::new(api, &card, Cubins::usual_folder());
        Ok(Cuda {
            api,
            card,
            device,
            context: Pointer(context),
            cubins,
            modules: Mutex::default(),
            libraries: Some(libraries),
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
        let mut current = std::ptr::null_mut();
        // SAFETY: `current` lives through the call.
        let told = unsafe { (self.api.current_context)(&mut current) };
        if DriverCode::of(told).is_ok() && current == self.context.0 {
            return Ok(());
        }
        // SAFETY: the context lives as long as `self`.
        let entered = unsafe { (self.api.set_context)(self.context.0) };
        DriverCode::of(entered).map_err(|e| driver_error("enter a context", e))
    }

    /// Lets this card read and write another one's memory directly, where the machine can: a copy
    /// between the two then does not go through the host. Where it cannot, the driver still copies.
    pub(super) fn reach(&self, other: &Cuda) {
        let mut can = 0;
        // SAFETY: both devices were given by the driver, and `can` lives through the call.
        let told = unsafe { (self.api.can_access_peer)(&mut can, self.device, other.device) };
        if DriverCode::of(told).is_ok() && can != 0 && self.enter().is_ok() {
            // SAFETY: the other context lives; the error that it is enabled already does no harm.
            let _ = unsafe { (self.api.enable_peer_access)(other.context.0, 0) };
        }
    }

    /// NCCL, opened once.
    fn nccl(&self) -> Result<&Nccl, GpuError> {
        let opened = self.nccl.get_or_init(|| Nccl::open(self.api));
        opened.as_ref().map_err(Clone::clone)
    }

    /// Calls `then` with a communicator.
    fn with<R>(
        &self,
        communicator: Handle,
        then: impl FnOnce(&Nccl, &mut NcclCommunicator) -> Result<R, GpuError>,
    ) -> Result<R, GpuError> {
        let nccl = self.nccl()?;
        let joined = self.joined.lock().unpoisoned();
        let found = joined.get(communicator as usize).cloned().flatten();
        // Others are used meanwhile: a call of this one may wait for other ranks.
        drop(joined);
        let found = found.ok_or_else(|| GpuError::Driver {
            what: "use a communicator",
            reason: "it was given up".to_owned(),
        })?;
        let mut found = found.lock().unpoisoned();
        then(nccl, &mut found)
    }

    fn module(&self, function: &Function) -> Result<Raw, GpuError> {
        let key = (function.source.name, function.macros());
        let mut modules = self.modules.lock().unpoisoned();
        if let Some(module) = modules.get(&key) {
            return Ok(module.0);
        }
        let cubin = self.cubins.get(function, &self.card.architecture())?;
        let mut module = std::ptr::null_mut();
        // SAFETY: the image is whole, as the compiler gave it or the cache's checksum says, and
        // the driver copies it.
        let code = unsafe { (self.api.load_module)(&mut module, cubin.as_ptr().cast()) };
        DriverCode::of(code).map_err(|e| driver_error("load kernels", e))?;
        modules.insert(key, Pointer(module));
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
                let _ = unsafe { (self.api.unload_module)(module.0) };
            }
        }
        // SAFETY: retained when `self` was made. An error cannot be returned from here.
        let _ = unsafe { (self.api.release_context)(self.device) };
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
        joined.push(Some(Arc::new(Mutex::new(met))));
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
            nccl.give_up(&mut taken.lock().unpoisoned());
        }
    }

    fn has_run(&self, queue: Handle) -> Result<bool, GpuError> {
        self.enter()?;
        // SAFETY: the stream was made by `queue`.
        match DriverCode::of(unsafe { (self.api.query)(stream(queue)) }) {
            Ok(()) => Ok(true),
            Err(DriverCode::NOT_READY) => Ok(false),
            Err(other) => Err(driver_error("run what it was handed", other)),
        }
    }
}

fn stream(queue: Handle) -> Stream {
    pointer(queue)
}

fn pointer(handle: Handle) -> Raw {
    handle as usize as Raw
}

// SAFETY: memory comes from the card's driver, and commands are submitted to it as they are.
unsafe impl Driver for Cuda {
    fn name(&self) -> String {
        self.card.name.clone()
    }

    fn memory(&self) -> Result<(usize, usize), GpuError> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both numbers live through the call.
        let code = unsafe { (self.api.memory_info)(&mut free, &mut total) };
        DriverCode::of(code).map_err(|e| driver_error("tell a card's memory", e))?;
        Ok((total, free))
    }

    fn libraries(&self) -> Vec<(&'static str, PathBuf)> {
        self.libraries
            .as_ref()
            .map(Libraries::opened)
            .unwrap_or_default()
    }

    fn queue(&self) -> Result<Handle, GpuError> {
        self.enter()?;
        let stream = self
            .api
            .stream()
            .map_err(|e| driver_error("make a stream", e))?;
        Ok(stream as usize as Handle)
    }

    fn drop_queue(&self, queue: Handle) {
        if self.enter().is_ok() {
            // SAFETY: made by `queue`, and not used any more.
            let _ = unsafe { (self.api.destroy_stream)(stream(queue)) };
        }
    }

    fn allocate(&self, bytes: usize) -> Result<Address, GpuError> {
        self.enter()?;
        let mut address = 0;
        // SAFETY: `address` lives through the call. The memory is not read before it is written: the plan ensures that.
        match DriverCode::of(unsafe { (self.api.allocate)(&mut address, bytes) }) {
            Ok(()) => Ok(address),
            Err(DriverCode::OUT_OF_MEMORY) => Err(GpuError::OutOfMemory { bytes }),
            Err(e) => Err(driver_error("take memory", e)),
        }
    }

    fn free(&self, address: Address) {
        if self.enter().is_ok() {
            // SAFETY: given by `allocate`, and not used any more.
            let _ = unsafe { (self.api.free)(address) };
        }
    }

    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        self.enter()?;
        let mut memory = std::ptr::null_mut();
        // Not write-combined: results are read from it. SAFETY: it is zeroed below, before anything uses it.
        let code = unsafe { (self.api.allocate_host)(&mut memory, bytes, 0) };
        DriverCode::of(code).map_err(|e| driver_error("take memory of the host", e))?;
        let pointer = NonNull::new(memory.cast::<u8>());
        let pointer = pointer.ok_or(GpuError::OutOfMemory { bytes })?;
        // SAFETY: the driver has just given so many bytes.
        unsafe { pointer.as_ptr().write_bytes(0, bytes) };
        Ok(pointer)
    }

    unsafe fn free_host(&self, memory: NonNull<u8>, _bytes: usize) {
        if self.enter().is_ok() {
            // SAFETY: by the caller's promise.
            let _ = unsafe { (self.api.free_host)(memory.as_ptr().cast()) };
        }
    }

    fn load(&self, function: &Function) -> Result<Handle, GpuError> {
        self.enter()?;
        let module = self.module(function)?;
        let name = CString::new(function.name).unwrap_or_default();
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded for as long as `self` lives; the name lives through the call.
        let code = unsafe { (self.api.module_function)(&mut function, module, name.as_ptr()) };
        DriverCode::of(code).map_err(|e| driver_error("find a kernel", e))?;
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
        let api = &self.api;
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
                    let (function, all) = (pointer(*function), pointers.as_mut_ptr());
                    let none = std::ptr::null_mut();
                    (api.launch)(
                        function, *blocks, 1, 1, *threads, 1, 1, 0, stream, all, none,
                    )
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
                    (api.copy_in)(*to, *from as *const c_void, *bytes, stream)
                }
                Command::CopyOut { from, to, bytes } => {
                    (api.copy_out)(*to as *mut c_void, *from, *bytes, stream)
                }
                // Addresses are of one space over all cards.
                Command::Copy { from, to, bytes } => (api.copy)(*to, *from, *bytes, stream),
                Command::Fill { to, byte, bytes } => (api.fill)(*to, *byte, *bytes, stream),
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
                Command::Group {
                    communicator,
                    begins,
                } => {
                    return self.with(*communicator, |nccl, joined| match *begins {
                        true => nccl.begin_group(joined, stream),
                        false => nccl.end_group(joined),
                    });
                }
                Command::Join { communicator } => {
                    return self.with(*communicator, |nccl, joined| nccl.join(joined, stream));
                }
                Command::Replay { graph } => (api.launch_graph)(pointer(*graph), stream),
            }
        };
        DriverCode::of(submitted).map_err(|e| driver_error(command.name(), e))
    }

    fn wait(&self, queue: Handle) -> Result<(), GpuError> {
        self.enter()?;
        // SAFETY: the stream was made by `queue`.
        let waited = unsafe { (self.api.synchronize)(stream(queue)) };
        DriverCode::of(waited).map_err(|e| driver_error("run what it was handed", e))
    }

    fn begin(&self, queue: Handle) -> Result<(), GpuError> {
        self.enter()?;
        // Other threads may go on taking memory and loading kernels. SAFETY: the stream was made by `queue`.
        let begun = unsafe { (self.api.begin_capture)(stream(queue), THREAD_LOCAL_CAPTURE) };
        DriverCode::of(begun).map_err(|e| driver_error("begin to capture", e))
    }

    fn end(&self, queue: Handle) -> Result<Handle, GpuError> {
        self.enter()?;
        let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the stream was made by `queue` and captures; the graph is copied into the
        // executable one, and destroyed here.
        let captured = unsafe {
            DriverCode::of((self.api.end_capture)(stream(queue), &mut graph)).and_then(|()| {
                let made = (self.api.instantiate_graph)(&mut executable, graph, 0);
                let destroyed = (self.api.destroy_graph)(graph);
                DriverCode::of(made).and(DriverCode::of(destroyed))
            })
        };
        captured.map_err(|e| driver_error("capture", e))?;
        Ok(executable as usize as Handle)
    }

    fn drop_graph(&self, graph: Handle) {
        if self.enter().is_ok() {
            // SAFETY: made by `end`, and it does not run any more.
            let _ = unsafe { (self.api.destroy_executable)(pointer(graph)) };
        }
    }
}
