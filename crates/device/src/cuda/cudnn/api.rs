//! The functions of cuDNN that are called: those of its graph API. Each returns a number, which
//! [`Status`] reads.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use cudarc::cudnn::sys::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptorType_t as Kind,
};

use super::status::Status;
use crate::cuda::opened::OpenedLibrary;
use crate::gpu::GpuError;

type Create = unsafe extern "C" fn(*mut *mut c_void) -> u32;
type One = unsafe extern "C" fn(*mut c_void) -> u32;
type Two = unsafe extern "C" fn(*mut c_void, *mut c_void) -> u32;
type Execute = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void) -> u32;
type CreateDescriptor = unsafe extern "C" fn(c_int, *mut *mut c_void) -> u32;
type SetAttribute = unsafe extern "C" fn(*mut c_void, c_int, c_int, i64, *const c_void) -> u32;
type GetAttribute =
    unsafe extern "C" fn(*mut c_void, c_int, c_int, i64, *mut i64, *mut c_void) -> u32;
type LastError = unsafe extern "C" fn(*mut c_char, usize);

/// The library's functions.
#[derive(Clone, Copy, Debug)]
pub(in crate::cuda) struct CudnnApi {
    create: Create,
    destroy: One,
    set_stream: Two,
    last_error: LastError,
    create_descriptor: CreateDescriptor,
    destroy_descriptor: One,
    set_attribute: SetAttribute,
    get_attribute: GetAttribute,
    finalize: One,
    execute: Execute,
}

impl CudnnApi {
    /// The functions of the library.
    ///
    /// # Errors
    /// [`GpuError::Lacking`] where it does not have one.
    pub(in crate::cuda) fn of(library: &OpenedLibrary) -> Result<CudnnApi, GpuError> {
        // SAFETY: the types are those of the functions in `cudnn_graph.h`, enums as numbers.
        unsafe {
            Ok(CudnnApi {
                create: library.function("cudnnCreate")?,
                destroy: library.function("cudnnDestroy")?,
                set_stream: library.function("cudnnSetStream")?,
                last_error: library.function("cudnnGetLastErrorString")?,
                create_descriptor: library.function("cudnnBackendCreateDescriptor")?,
                destroy_descriptor: library.function("cudnnBackendDestroyDescriptor")?,
                set_attribute: library.function("cudnnBackendSetAttribute")?,
                get_attribute: library.function("cudnnBackendGetAttribute")?,
                finalize: library.function("cudnnBackendFinalize")?,
                execute: library.function("cudnnBackendExecute")?,
            })
        }
    }

    /// Returns the library's message for the last call of this thread that failed.
    pub(super) fn last_error(&self) -> String {
        let mut text = [0u8; 512];
        // SAFETY: the library writes at most so many bytes, the last of them 0.
        unsafe { (self.last_error)(text.as_mut_ptr().cast(), text.len()) };
        let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
        String::from_utf8_lossy(&text[..end]).trim().to_owned()
    }
}

/// A handle of the library, for the context that the thread is in.
#[derive(Debug)]
pub(super) struct Context {
    api: CudnnApi,
    handle: *mut c_void,
}

// SAFETY: a handle belongs to no thread; its users hold the lock around it.
unsafe impl Send for Context {}

impl Context {
    pub(super) fn new(api: &CudnnApi) -> Result<Context, Status> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the library writes a handle there.
        Status::of(unsafe { (api.create)(&mut handle) })?;
        let api = *api;
        Ok(Context { api, handle })
    }

    pub(super) fn handle(&self) -> *mut c_void {
        self.handle
    }

    /// Runs a plan on a stream.
    ///
    /// # Safety
    /// As `Convolutions::submit`.
    pub(super) unsafe fn execute(
        &self,
        plan: &Descriptor,
        pack: &Descriptor,
        stream: *mut c_void,
    ) -> Result<(), Status> {
        // SAFETY: all three live; the rest by the caller's promise.
        unsafe {
            Status::of((self.api.set_stream)(self.handle, stream))?;
            Status::of((self.api.execute)(self.handle, plan.at, pack.at))
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and not used any more. An error cannot be returned from here.
        let _ = unsafe { (self.api.destroy)(self.handle) };
    }
}

/// A descriptor of the graph API: attributes are set, then it is finalized, then others refer to it.
#[derive(Debug)]
pub(super) struct Descriptor {
    api: CudnnApi,
    at: *mut c_void,
    /// Those that it refers to, or that it came from: the library does not say that it copies them.
    kept: Vec<Arc<Descriptor>>,
}

// SAFETY: descriptors belong to no thread.
unsafe impl Send for Descriptor {}
// SAFETY: a descriptor is only read once it is finalized.
unsafe impl Sync for Descriptor {}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and not used any more. An error cannot be returned from here.
        let _ = unsafe { (self.api.destroy_descriptor)(self.at) };
    }
}

impl Descriptor {
    pub(super) fn new(api: &CudnnApi, kind: Kind) -> Result<Descriptor, Status> {
        let mut at = std::ptr::null_mut();
        // SAFETY: the library writes a descriptor there.
        Status::of(unsafe { (api.create_descriptor)(kind as c_int, &mut at) })?;
        Ok(Descriptor {
            api: *api,
            at,
            kept: Vec::new(),
        })
    }

    /// Sets an attribute to `values`, whose type is the one that `of` names.
    fn set<T: Copy>(self, name: Name, of: Type, values: &[T]) -> Result<Descriptor, Status> {
        let (count, values) = (values.len() as i64, values.as_ptr().cast());
        // SAFETY: the descriptor lives, and the library copies `count` values of that type.
        let set =
            unsafe { (self.api.set_attribute)(self.at, name as c_int, of as c_int, count, values) };
        Status::of(set).map(|()| self)
    }

    pub(super) fn integers(self, name: Name, values: &[i64]) -> Result<Descriptor, Status> {
        self.set(name, Type::CUDNN_TYPE_INT64, values)
    }

    /// An attribute that is one of a list of numbers.
    pub(super) fn number(self, name: Name, of: Type, value: c_int) -> Result<Descriptor, Status> {
        self.set(name, of, &[value])
    }

    pub(super) fn text(self, name: Name, value: &str) -> Result<Descriptor, Status> {
        self.set(name, Type::CUDNN_TYPE_CHAR, value.as_bytes())
    }

    /// Addresses: of a handle, or of a card's memory.
    pub(super) fn pointers(
        self,
        name: Name,
        of: Type,
        values: &[*mut c_void],
    ) -> Result<Descriptor, Status> {
        self.set(name, of, values)
    }

    /// A factor, in the type of the arithmetic.
    pub(super) fn factor(self, name: Name, value: f32, double: bool) -> Result<Descriptor, Status> {
        match double {
            true => self.set(name, Type::CUDNN_TYPE_DOUBLE, &[f64::from(value)]),
            false => self.set(name, Type::CUDNN_TYPE_FLOAT, &[value]),
        }
    }

    /// Lets an attribute refer to another descriptor, which lives as long as this one.
    pub(super) fn refer(mut self, name: Name, to: &Arc<Descriptor>) -> Result<Descriptor, Status> {
        self.kept.push(to.clone());
        self.set(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &[to.at])
    }

    pub(super) fn finalize(self) -> Result<Descriptor, Status> {
        // SAFETY: the descriptor lives.
        Status::of(unsafe { (self.api.finalize)(self.at) }).map(|()| self)
    }

    /// Reads at most `values.len()` values of an attribute; returns their number.
    fn get<T: Copy>(&self, name: Name, of: Type, values: &mut [T]) -> Result<usize, Status> {
        let (most, mut count) = (values.len() as i64, 0i64);
        let to = values.as_mut_ptr().cast();
        // SAFETY: the descriptor lives, and there is room for `most` values of that type.
        let get = unsafe {
            (self.api.get_attribute)(self.at, name as c_int, of as c_int, most, &mut count, to)
        };
        Status::of(get)?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    pub(super) fn integer(&self, name: Name) -> Result<i64, Status> {
        let mut value = [0i64];
        self.get(name, Type::CUDNN_TYPE_INT64, &mut value)?;
        Ok(value[0])
    }

    /// An attribute that is text, of at most 64 KiB.
    pub(super) fn read_text(&self, name: Name) -> Result<String, Status> {
        let mut bytes = vec![0u8; 64 << 10];
        let count = self.get(name, Type::CUDNN_TYPE_CHAR, &mut bytes)?;
        bytes.truncate(count);
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.trim_end_matches('\0').to_owned())
    }

    /// The values of an attribute that are of a list of numbers.
    pub(super) fn numbers(&self, name: Name, of: Type) -> Result<Vec<c_int>, Status> {
        let mut values = [0 as c_int; 16];
        let count = self.get(name, of, &mut values)?;
        Ok(values[..count.min(values.len())].to_vec())
    }

    /// The descriptors of an attribute, at most `most`.
    pub(super) fn descriptors(
        self: &Arc<Descriptor>,
        name: Name,
        kind: Kind,
        most: usize,
    ) -> Result<Vec<Descriptor>, Status> {
        let of = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
        let made: Result<Vec<_>, _> = (0..most)
            .map(|_| Descriptor::new(&self.api, kind))
            .collect();
        let mut made = made?;
        // The library fills the descriptors that it is given.
        let mut at: Vec<*mut c_void> = made.iter().map(|d| d.at).collect();
        let count = self.get(name, of, &mut at)?;
        made.truncate(count);
        made.iter_mut().for_each(|d| d.kept.push(self.clone()));
        Ok(made)
    }
}
