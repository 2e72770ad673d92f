//! The functions of CUDA's driver that are called. Each returns a number, which [`DriverCode`] reads.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::fmt;

use super::Library;
use super::opened::OpenedLibrary;
use crate::gpu::GpuError;

/// One of the driver's own pointers: a context, a module, a function, a stream, an event or a graph.
pub(super) type Raw = *mut c_void;

/// A stream of the driver.
pub(super) type Stream = *mut c_void;

/// An event of the driver.
pub(super) type Event = *mut c_void;

/// The driver's number for a card.
pub(super) type DeviceNumber = c_int;

/// CU_STREAM_NON_BLOCKING: it does not wait for the default stream.
pub(super) const NON_BLOCKING: c_uint = 1;

/// CU_EVENT_DISABLE_TIMING.
pub(super) const WITHOUT_TIMING: c_uint = 2;

/// CU_STREAM_CAPTURE_MODE_THREAD_LOCAL.
pub(super) const THREAD_LOCAL_CAPTURE: c_int = 1;

/// CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, and ..._MINOR.
pub(super) const CAPABILITY: [c_int; 2] = [75, 76];

/// A code of the driver that is none of success. It is a number: newer drivers return codes that no list has, and a Rust
/// enum must not hold them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DriverCode(pub(super) u32);

impl DriverCode {
    pub(super) const OUT_OF_MEMORY: DriverCode = DriverCode(2);
    pub(super) const NO_DEVICE: DriverCode = DriverCode(100);
    pub(super) const NOT_READY: DriverCode = DriverCode(600);

    /// From the return value of a function.
    ///
    /// # Errors
    /// The code, unless it is 0.
    pub(super) fn of(code: u32) -> Result<(), DriverCode> {
        match code {
            0 => Ok(()),
            code => Err(DriverCode(code)),
        }
    }
}

impl fmt::Display for DriverCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            1 => "CUDA_ERROR_INVALID_VALUE",
            2 => "CUDA_ERROR_OUT_OF_MEMORY",
            3 => "CUDA_ERROR_NOT_INITIALIZED",
            4 => "CUDA_ERROR_DEINITIALIZED",
            34 => "CUDA_ERROR_STUB_LIBRARY",
            46 => "CUDA_ERROR_DEVICE_UNAVAILABLE",
            100 => "CUDA_ERROR_NO_DEVICE",
            101 => "CUDA_ERROR_INVALID_DEVICE",
            200 => "CUDA_ERROR_INVALID_IMAGE",
            201 => "CUDA_ERROR_INVALID_CONTEXT",
            209 => "CUDA_ERROR_NO_BINARY_FOR_GPU",
            214 => "CUDA_ERROR_ECC_UNCORRECTABLE",
            220 => "CUDA_ERROR_NVLINK_UNCORRECTABLE",
            400 => "CUDA_ERROR_INVALID_HANDLE",
            500 => "CUDA_ERROR_NOT_FOUND",
            600 => "CUDA_ERROR_NOT_READY",
            700 => "CUDA_ERROR_ILLEGAL_ADDRESS",
            701 => "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
            702 => "CUDA_ERROR_LAUNCH_TIMEOUT",
            714 => "CUDA_ERROR_HARDWARE_STACK_ERROR",
            715 => "CUDA_ERROR_ILLEGAL_INSTRUCTION",
            716 => "CUDA_ERROR_MISALIGNED_ADDRESS",
            718 => "CUDA_ERROR_INVALID_PC",
            719 => "CUDA_ERROR_LAUNCH_FAILED",
            800 => "CUDA_ERROR_NOT_PERMITTED",
            801 => "CUDA_ERROR_NOT_SUPPORTED",
            802 => "CUDA_ERROR_SYSTEM_NOT_READY",
            803 => "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
            900 => "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
            901 => "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
            902 => "CUDA_ERROR_STREAM_CAPTURE_MERGE",
            904 => "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
            905 => "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
            906 => "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
            907 => "CUDA_ERROR_CAPTURED_EVENT",
            908 => "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
            code => return write!(f, "CUDA's error {code}"),
        };
        f.write_str(name)
    }
}

/// The driver's functions, with the types of `cuda.h`; enums are numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriverApi {
    pub(super) init: unsafe extern "C" fn(c_uint) -> u32,
    pub(super) driver_version: unsafe extern "C" fn(*mut c_int) -> u32,
    pub(super) device_count: unsafe extern "C" fn(*mut c_int) -> u32,
    pub(super) device: unsafe extern "C" fn(*mut DeviceNumber, c_int) -> u32,
    pub(super) device_name: unsafe extern "C" fn(*mut c_char, c_int, DeviceNumber) -> u32,
    pub(super) device_attribute: unsafe extern "C" fn(*mut c_int, c_int, DeviceNumber) -> u32,
    pub(super) device_memory: unsafe extern "C" fn(*mut usize, DeviceNumber) -> u32,
    pub(super) can_access_peer: unsafe extern "C" fn(*mut c_int, DeviceNumber, DeviceNumber) -> u32,
    pub(super) retain_context: unsafe extern "C" fn(*mut Raw, DeviceNumber) -> u32,
    pub(super) release_context: unsafe extern "C" fn(DeviceNumber) -> u32,
    pub(super) set_context: unsafe extern "C" fn(Raw) -> u32,
    pub(super) current_context: unsafe extern "C" fn(*mut Raw) -> u32,
    pub(super) enable_peer_access: unsafe extern "C" fn(Raw, c_uint) -> u32,
    pub(super) memory_info: unsafe extern "C" fn(*mut usize, *mut usize) -> u32,
    pub(super) allocate: unsafe extern "C" fn(*mut u64, usize) -> u32,
    pub(super) free: unsafe extern "C" fn(u64) -> u32,
    pub(super) allocate_host: unsafe extern "C" fn(*mut *mut c_void, usize, c_uint) -> u32,
    pub(super) free_host: unsafe extern "C" fn(*mut c_void) -> u32,
    pub(super) copy_in: unsafe extern "C" fn(u64, *const c_void, usize, Stream) -> u32,
    pub(super) copy_out: unsafe extern "C" fn(*mut c_void, u64, usize, Stream) -> u32,
    pub(super) copy: unsafe extern "C" fn(u64, u64, usize, Stream) -> u32,
    pub(super) fill: unsafe extern "C" fn(u64, u8, usize, Stream) -> u32,
    pub(super) create_stream: unsafe extern "C" fn(*mut Stream, c_uint) -> u32,
    pub(super) destroy_stream: unsafe extern "C" fn(Stream) -> u32,
    pub(super) synchronize: unsafe extern "C" fn(Stream) -> u32,
    pub(super) query: unsafe extern "C" fn(Stream) -> u32,
    pub(super) wait_event: unsafe extern "C" fn(Stream, Event, c_uint) -> u32,
    pub(super) create_event: unsafe extern "C" fn(*mut Event, c_uint) -> u32,
    pub(super) record_event: unsafe extern "C" fn(Event, Stream) -> u32,
    pub(super) destroy_event: unsafe extern "C" fn(Event) -> u32,
    pub(super) begin_capture: unsafe extern "C" fn(Stream, c_int) -> u32,
    pub(super) end_capture: unsafe extern "C" fn(Stream, *mut Raw) -> u32,
    pub(super) instantiate_graph: unsafe extern "C" fn(*mut Raw, Raw, u64) -> u32,
    pub(super) destroy_graph: unsafe extern "C" fn(Raw) -> u32,
    pub(super) destroy_executable: unsafe extern "C" fn(Raw) -> u32,
    pub(super) launch_graph: unsafe extern "C" fn(Raw, Stream) -> u32,
    pub(super) load_module: unsafe extern "C" fn(*mut Raw, *const c_void) -> u32,
    pub(super) unload_module: unsafe extern "C" fn(Raw) -> u32,
    pub(super) module_function: unsafe extern "C" fn(*mut Raw, Raw, *const c_char) -> u32,
    pub(super) launch: LaunchFunction,
}

/// cuLaunchKernel: the function, blocks and threads in three dimensions, bytes of shared memory, the stream, and the
/// arguments.
type LaunchFunction = unsafe extern "C" fn(
    Raw,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    Stream,
    *mut *mut c_void,
    *mut *mut c_void,
) -> u32;

impl DriverApi {
    /// Opens the driver.
    ///
    /// # Errors
    /// [`GpuError::Missing`], [`GpuError::Lacking`].
    pub(super) fn open() -> Result<DriverApi, GpuError> {
        DriverApi::of(&OpenedLibrary::open(Library::Driver)?)
    }

    /// The functions of the driver.
    ///
    /// # Errors
    /// [`GpuError::Lacking`].
    pub(super) fn of(driver: &OpenedLibrary) -> Result<DriverApi, GpuError> {
        // SAFETY: the fields have the types of the functions in `cuda.h`, enums as numbers.
        unsafe {
            Ok(DriverApi {
                init: driver.function("cuInit")?,
                driver_version: driver.function("cuDriverGetVersion")?,
                device_count: driver.function("cuDeviceGetCount")?,
                device: driver.function("cuDeviceGet")?,
                device_name: driver.function("cuDeviceGetName")?,
                device_attribute: driver.function("cuDeviceGetAttribute")?,
                device_memory: driver.function("cuDeviceTotalMem_v2")?,
                can_access_peer: driver.function("cuDeviceCanAccessPeer")?,
                retain_context: driver.function("cuDevicePrimaryCtxRetain")?,
                release_context: driver.function("cuDevicePrimaryCtxRelease_v2")?,
                set_context: driver.function("cuCtxSetCurrent")?,
                current_context: driver.function("cuCtxGetCurrent")?,
                enable_peer_access: driver.function("cuCtxEnablePeerAccess")?,
                memory_info: driver.function("cuMemGetInfo_v2")?,
                allocate: driver.function("cuMemAlloc_v2")?,
                free: driver.function("cuMemFree_v2")?,
                allocate_host: driver.function("cuMemHostAlloc")?,
                free_host: driver.function("cuMemFreeHost")?,
                copy_in: driver.function("cuMemcpyHtoDAsync_v2")?,
                copy_out: driver.function("cuMemcpyDtoHAsync_v2")?,
                copy: driver.function("cuMemcpyAsync")?,
                fill: driver.function("cuMemsetD8Async")?,
                create_stream: driver.function("cuStreamCreate")?,
                destroy_stream: driver.function("cuStreamDestroy_v2")?,
                synchronize: driver.function("cuStreamSynchronize")?,
                query: driver.function("cuStreamQuery")?,
                wait_event: driver.function("cuStreamWaitEvent")?,
                create_event: driver.function("cuEventCreate")?,
                record_event: driver.function("cuEventRecord")?,
                destroy_event: driver.function("cuEventDestroy_v2")?,
                begin_capture: driver.function("cuStreamBeginCapture_v2")?,
                end_capture: driver.function("cuStreamEndCapture")?,
                instantiate_graph: driver.function("cuGraphInstantiateWithFlags")?,
                destroy_graph: driver.function("cuGraphDestroy")?,
                destroy_executable: driver.function("cuGraphExecDestroy")?,
                launch_graph: driver.function("cuGraphLaunch")?,
                load_module: driver.function("cuModuleLoadData")?,
                unload_module: driver.function("cuModuleUnload")?,
                module_function: driver.function("cuModuleGetFunction")?,
                launch: driver.function("cuLaunchKernel")?,
            })
        }
    }

    /// The version of CUDA that the driver is for: 1000 times the major one and 10 times the minor.
    pub(super) fn version(&self) -> Result<c_int, DriverCode> {
        let mut version = 0;
        // SAFETY: the driver writes a number there.
        DriverCode::of(unsafe { (self.driver_version)(&mut version) })?;
        Ok(version)
    }

    /// The driver's number for the card of this number.
    pub(super) fn card(&self, number: c_int) -> Result<DeviceNumber, DriverCode> {
        let mut device = 0;
        // SAFETY: the driver writes a number there.
        DriverCode::of(unsafe { (self.device)(&mut device, number) })?;
        Ok(device)
    }

    /// A stream that does not wait for the default one. The thread is in a context.
    pub(super) fn stream(&self) -> Result<Stream, DriverCode> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: the driver writes a stream there.
        DriverCode::of(unsafe { (self.create_stream)(&mut stream, NON_BLOCKING) })?;
        Ok(stream)
    }

    /// An event without a time. The thread is in a context.
    pub(super) fn event(&self) -> Result<Event, DriverCode> {
        let mut event = std::ptr::null_mut();
        // SAFETY: the driver writes an event there.
        DriverCode::of(unsafe { (self.create_event)(&mut event, WITHOUT_TIMING) })?;
        Ok(event)
    }

    /// Makes one stream wait for what is on another.
    ///
    /// # Safety
    /// Event and streams live.
    pub(super) unsafe fn wait_for(
        &self,
        event: Event,
        first: Stream,
        then: Stream,
    ) -> Result<(), DriverCode> {
        // SAFETY: by the caller's promise.
        unsafe {
            DriverCode::of((self.record_event)(event, first))?;
            DriverCode::of((self.wait_event)(then, event, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DriverCode;

    #[test]
    fn a_code_that_no_list_has_is_shown_as_its_number() {
        assert_eq!(DriverCode::of(0), Ok(()));
        let text = |code| DriverCode::of(code).unwrap_err().to_string();
        assert_eq!(text(719), "CUDA_ERROR_LAUNCH_FAILED");
        assert_eq!(text(4242), "CUDA's error 4242");
    }
}
