//! NCCL: collectives between the GPUs of several processes.
//!
//! Communicators do not block: a call that cannot go on returns "in progress", and is polled for as long as the job
//! goes on. So a rank that was lost ends the wait for it.

mod numbers;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::time::{Duration, Instant};

use thalweg_tensor::DType;

use numbers::{code, number, scalar};

use super::Library;
use super::driver_api::{DriverApi, DriverCode, Event, Stream};
use super::driver_error::driver_error;
use super::opened::OpenedLibrary;
use crate::gpu::{Address, GpuCollectiveKind, GpuError, KeepWaiting};
use crate::reduction::ReduceOp;

/// NCCL's handle of a communicator.
type Comm = *mut c_void;

/// Return value of NCCL's functions.
type NcclResult = c_int;
const SUCCESS: NcclResult = 0;
const IN_PROGRESS: NcclResult = 7;

/// Bytes of an identity.
const IDENTITY_BYTES: usize = 128;

/// The identity by which ranks find each other.
#[repr(C)]
#[derive(Clone, Copy)]
struct Identity([c_char; IDENTITY_BYTES]);

/// Configuration of a communicator, as NCCL 2.17 lays it out; later versions recognize it by its size and version.
#[repr(C)]
struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
    cluster: c_int,
    least_blocks: c_int,
    most_blocks: c_int,
    net: *const c_char,
    share: c_int,
}

/// NCCL's value for an option that is not set.
const UNSET: c_int = c_int::MIN;

/// Time that a dropped communicator may take to finish sending.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two polls of a wait.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// The functions of NCCL that are called.
#[derive(Clone, Copy, Debug)]
pub(super) struct NcclApi {
    identity: unsafe extern "C" fn(*mut Identity) -> NcclResult,
    meet: unsafe extern "C" fn(*mut Comm, c_int, Identity, c_int, *mut Config) -> NcclResult,
    state: unsafe extern "C" fn(Comm, *mut NcclResult) -> NcclResult,
    finalize: unsafe extern "C" fn(Comm) -> NcclResult,
    destroy: unsafe extern "C" fn(Comm) -> NcclResult,
    abort: unsafe extern "C" fn(Comm) -> NcclResult,
    all_reduce: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_int,
        c_int,
        Comm,
        Stream,
    ) -> NcclResult,
    broadcast: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_int,
        c_int,
        Comm,
        Stream,
    ) -> NcclResult,
    scaled_sum: unsafe extern "C" fn(*mut c_int, *const c_void, c_int, c_int, Comm) -> NcclResult,
    drop_op: unsafe extern "C" fn(c_int, Comm) -> NcclResult,
    text: unsafe extern "C" fn(NcclResult) -> *const c_char,
    last_error: unsafe extern "C" fn(Comm) -> *const c_char,
    begin_group: unsafe extern "C" fn() -> NcclResult,
    end_group: unsafe extern "C" fn() -> NcclResult,
}

/// NCCL, opened.
#[derive(Debug)]
pub(super) struct Nccl {
    driver: DriverApi,
    api: NcclApi,
}

/// A communicator, with a stream of its own and the events by which another stream waits for it, and it for another.
#[derive(Debug)]
pub(super) struct NcclCommunicator {
    comm: Comm,
    size: usize,
    stream: Stream,
    before: Event,
    after: Event,
    keep_waiting: KeepWaitingFn,
    /// In a group, the reductions that were made for it.
    group: Option<Vec<c_int>>,
}

// SAFETY: communicators, streams and events belong to no thread; `Cuda` lets one thread at a time call them.
unsafe impl Send for NcclCommunicator {}

struct KeepWaitingFn(KeepWaiting);

impl std::fmt::Debug for KeepWaitingFn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a function")
    }
}

impl NcclApi {
    /// The functions of the library.
    ///
    /// # Errors
    /// [`GpuError::Lacking`] where it does not have one.
    pub(super) fn of(library: &OpenedLibrary) -> Result<NcclApi, GpuError> {
        // SAFETY: the fields have the types of the functions in `nccl.h`, enums as numbers.
        unsafe {
            Ok(NcclApi {
                identity: library.function("ncclGetUniqueId")?,
                meet: library.function("ncclCommInitRankConfig")?,
                state: library.function("ncclCommGetAsyncError")?,
                finalize: library.function("ncclCommFinalize")?,
                destroy: library.function("ncclCommDestroy")?,
                abort: library.function("ncclCommAbort")?,
                all_reduce: library.function("ncclAllReduce")?,
                broadcast: library.function("ncclBroadcast")?,
                scaled_sum: library.function("ncclRedOpCreatePreMulSum")?,
                drop_op: library.function("ncclRedOpDestroy")?,
                text: library.function("ncclGetErrorString")?,
                last_error: library.function("ncclGetLastError")?,
                begin_group: library.function("ncclGroupStart")?,
                end_group: library.function("ncclGroupEnd")?,
            })
        }
    }
}

impl Nccl {
    /// Opens NCCL, for the streams of a driver.
    ///
    /// # Errors
    /// [`GpuError::Missing`], [`GpuError::Lacking`].
    pub(super) fn open(driver: DriverApi) -> Result<Nccl, GpuError> {
        let api = NcclApi::of(&OpenedLibrary::open(Library::Nccl)?)?;
        Ok(Nccl { driver, api })
    }

    fn error(&self, what: &'static str, status: NcclResult, comm: Comm) -> GpuError {
        // SAFETY: both functions take any status and any communicator, also none, and give a text that lives on.
        let texts = unsafe { [(self.api.text)(status), (self.api.last_error)(comm)] };
        let text = texts.iter().filter(|t| !t.is_null());
        // SAFETY: as above.
        let text = text.map(|&t| unsafe { CStr::from_ptr(t) }.to_string_lossy().into_owned());
        let text: Vec<String> = text.filter(|t| !t.is_empty()).collect();
        GpuError::Driver {
            what,
            reason: format!("NCCL says {status}, {}", text.join(": ")),
        }
    }

    /// Polls until a call is through.
    fn poll_until_done(
        &self,
        what: &'static str,
        comm: Comm,
        status: NcclResult,
        keep_waiting: &dyn Fn() -> bool,
    ) -> Result<(), GpuError> {
        let mut status = status;
        while status == IN_PROGRESS {
            if !keep_waiting() {
                let reason = "the other ranks do not come, or the job has ended".to_owned();
                return Err(GpuError::Driver { what, reason });
            }
            std::thread::sleep(POLL_INTERVAL);
            // SAFETY: the communicator lives; `status` through the call.
            let asked = unsafe { (self.api.state)(comm, &mut status) };
            if asked != SUCCESS {
                status = asked;
            }
        }
        match status {
            SUCCESS => Ok(()),
            status => Err(self.error(what, status, comm)),
        }
    }

    pub(super) fn identity(&self) -> Result<Vec<u8>, GpuError> {
        let mut identity = Identity([0; IDENTITY_BYTES]);
        // SAFETY: NCCL fills it.
        match unsafe { (self.api.identity)(&mut identity) } {
            SUCCESS => Ok(identity.0.iter().map(|&c| c as u8).collect()),
            status => Err(self.error("make an identity", status, std::ptr::null_mut())),
        }
    }

    /// Meets the other ranks. The thread is in the card's context.
    pub(super) fn meet(
        &self,
        identity: &[u8],
        place: usize,
        size: usize,
        keep_waiting: KeepWaiting,
    ) -> Result<NcclCommunicator, GpuError> {
        const WHAT: &str = "meet the GPUs of other ranks";
        let wrong = |reason: &str| GpuError::Driver {
            what: WHAT,
            reason: reason.to_owned(),
        };
        if identity.len() != IDENTITY_BYTES {
            return Err(wrong("the identity is none of NCCL's"));
        }
        let mut own = Identity([0; IDENTITY_BYTES]);
        own.0
            .iter_mut()
            .zip(identity)
            .for_each(|(to, &from)| *to = from as c_char);
        let int = |n: usize| c_int::try_from(n).map_err(|_| wrong("too many ranks"));
        let (place, size) = (int(place)?, int(size)?);
        let mut config = Config {
            size: size_of::<Config>(),
            magic: 0xcafe_beef,
            version: 21700,
            blocking: 0,
            cluster: UNSET,
            least_blocks: UNSET,
            most_blocks: UNSET,
            net: std::ptr::null(),
            share: UNSET,
        };
        let mut comm: Comm = std::ptr::null_mut();
        // SAFETY: all that is pointed to lives through the call.
        let status = unsafe { (self.api.meet)(&mut comm, size, own, place, &mut config) };
        let met = self.poll_until_done(WHAT, comm, status, &*keep_waiting);
        let joined = met.and_then(|()| streams(&self.driver).map_err(|e| driver_error(WHAT, e)));
        match joined {
            Ok((stream, before, after)) => Ok(NcclCommunicator {
                comm,
                size: size.unsigned_abs() as usize,
                stream,
                before,
                after,
                keep_waiting: KeepWaitingFn(keep_waiting),
                group: None,
            }),
            Err(e) => {
                if !comm.is_null() {
                    // SAFETY: made above, and not used any more.
                    unsafe { (self.api.abort)(comm) };
                }
                Err(e)
            }
        }
    }

    /// Begins a collective on the communicator's own stream, after the commands of another one.
    ///
    /// # Safety
    /// The addresses are valid until the stream has run it, and nothing else uses the memory that it writes meanwhile.
    pub(super) unsafe fn begin(
        &self,
        joined: &mut NcclCommunicator,
        (kind, dtype): (GpuCollectiveKind, DType),
        (from, to, elements): (Address, Address, usize),
        main: Stream,
    ) -> Result<(), GpuError> {
        const WHAT: &str = "begin a collective";
        let code = code(dtype).ok_or_else(|| GpuError::Driver {
            what: WHAT,
            reason: format!("NCCL has no {dtype}"),
        })?;
        if joined.comm.is_null() {
            let reason = "the job has ended".to_owned();
            return Err(GpuError::Driver { what: WHAT, reason });
        }
        if joined.group.is_none() {
            // SAFETY: the communicator's event and stream live; the other stream by the caller's promise.
            let waits = unsafe { self.driver.wait_for(joined.before, main, joined.stream) };
            waits.map_err(|e| driver_error(WHAT, e))?;
        }
        let (from, to) = (from as *const c_void, to as *mut c_void);
        let (comm, stream) = (joined.comm, joined.stream);
        let keep_waiting = &*joined.keep_waiting.0;
        match kind {
            GpuCollectiveKind::Broadcast { root } => {
                let root = root as c_int;
                // SAFETY: by the caller's promise.
                let begun =
                    unsafe { (self.api.broadcast)(from, to, elements, code, root, comm, stream) };
                match &joined.group {
                    Some(_) => self.accepted(WHAT, begun, comm),
                    None => self.poll_until_done(WHAT, comm, begun, keep_waiting),
                }
            }
            GpuCollectiveKind::Reduce { op, factor } => {
                let scaled = self.reduction(op, factor, dtype, joined)?;
                let op = scaled.map_or_else(|| number(op), Ok)?;
                // SAFETY: by the caller's promise.
                let begun =
                    unsafe { (self.api.all_reduce)(from, to, elements, code, op, comm, stream) };
                if let Some(group) = &mut joined.group {
                    group.extend(scaled);
                    return self.accepted(WHAT, begun, comm);
                }
                let begun = self.poll_until_done(WHAT, comm, begun, keep_waiting);
                if scaled.is_some() {
                    // SAFETY: made by `reduction` for this communicator; the call that uses it has returned.
                    unsafe { (self.api.drop_op)(op, comm) };
                }
                begun
            }
        }
    }

    /// Checks a call in a group: it is done when the group ends.
    fn accepted(&self, what: &'static str, status: NcclResult, comm: Comm) -> Result<(), GpuError> {
        match status {
            SUCCESS | IN_PROGRESS => Ok(()),
            status => Err(self.error(what, status, comm)),
        }
    }

    /// Begins a group of collectives, after the commands of another stream.
    pub(super) fn begin_group(
        &self,
        joined: &mut NcclCommunicator,
        main: Stream,
    ) -> Result<(), GpuError> {
        const WHAT: &str = "begin a group of collectives";
        // SAFETY: the communicator's event and stream live, and so does the queue.
        let waits = unsafe { self.driver.wait_for(joined.before, main, joined.stream) };
        waits.map_err(|e| driver_error(WHAT, e))?;
        // SAFETY: groups are those of the calling thread, which ends this one.
        self.accepted(WHAT, unsafe { (self.api.begin_group)() }, joined.comm)?;
        joined.group = Some(Vec::new());
        Ok(())
    }

    /// Ends a group: its collectives begin.
    pub(super) fn end_group(&self, joined: &mut NcclCommunicator) -> Result<(), GpuError> {
        const WHAT: &str = "begin a group of collectives";
        let reductions = joined.group.take().unwrap_or_default();
        // SAFETY: the group was begun by this thread.
        let status = unsafe { (self.api.end_group)() };
        let keep_waiting = &*joined.keep_waiting.0;
        let begun = self.poll_until_done(WHAT, joined.comm, status, keep_waiting);
        for op in reductions {
            // SAFETY: made by `reduction` for this communicator; the calls that use it have returned.
            unsafe { (self.api.drop_op)(op, joined.comm) };
        }
        begun
    }

    /// Returns an operation for a sum of scaled values, where there is a factor.
    fn reduction(
        &self,
        op: ReduceOp,
        factor: f64,
        dtype: DType,
        joined: &NcclCommunicator,
    ) -> Result<Option<c_int>, GpuError> {
        const WHAT: &str = "make a reduction";
        // The scalar is in the host's memory.
        const HOST: c_int = 1;
        if factor == 1.0 {
            return Ok(None);
        }
        let whole = match op {
            ReduceOp::Sum => Some(factor),
            ReduceOp::Average => Some(factor / joined.size as f64),
            _ => None,
        };
        let Some(scalar) = whole.and_then(|factor| scalar(factor, dtype)) else {
            let reason = format!("NCCL has no {op} of {dtype} with a factor");
            return Err(GpuError::Driver { what: WHAT, reason });
        };
        let mut made = 0;
        // SAFETY: the scalar is read during the call, and is of this dtype.
        let status = unsafe {
            let code = code(dtype).unwrap_or_default();
            (self.api.scaled_sum)(&mut made, scalar.as_ptr().cast(), code, HOST, joined.comm)
        };
        match &joined.group {
            Some(_) => self.accepted(WHAT, status, joined.comm)?,
            None => {
                self.poll_until_done(WHAT, joined.comm, status, &*joined.keep_waiting.0)?;
            }
        }
        Ok(Some(made))
    }

    /// Lets a stream wait for all collectives that were begun.
    pub(super) fn join(&self, joined: &NcclCommunicator, main: Stream) -> Result<(), GpuError> {
        // SAFETY: the communicator's event and stream live, and so does the queue.
        unsafe { self.driver.wait_for(joined.after, joined.stream, main) }
            .map_err(|e| driver_error("wait for collectives", e))
    }

    /// Aborts running commands. The communicator is gone, its stream is not.
    pub(super) fn abort(&self, joined: &mut NcclCommunicator) {
        let comm = std::mem::replace(&mut joined.comm, std::ptr::null_mut());
        if joined.group.take().is_some() {
            // SAFETY: a group that an error has left open is ended; its collectives are aborted below.
            unsafe { (self.api.end_group)() };
        }
        if !comm.is_null() {
            // SAFETY: made by `meet`, and taken out.
            unsafe { (self.api.abort)(comm) };
        }
    }

    /// Drops a communicator, once it has finished sending.
    pub(super) fn give_up(&self, joined: &mut NcclCommunicator) {
        let began = Instant::now();
        let keep_waiting = || began.elapsed() < FINISH_TIMEOUT && (joined.keep_waiting.0)();
        let comm = joined.comm;
        if !comm.is_null() {
            // SAFETY: made by `meet`.
            let status = unsafe { (self.api.finalize)(comm) };
            if self
                .poll_until_done("finish", comm, status, &keep_waiting)
                .is_ok()
            {
                joined.comm = std::ptr::null_mut();
                // SAFETY: as above, and not used any more.
                unsafe { (self.api.destroy)(comm) };
            }
        }
        self.abort(joined);
        // SAFETY: made by `streams`, and not used any more. Errors cannot be returned from here.
        unsafe {
            let _ = (self.driver.synchronize)(joined.stream);
            let _ = (self.driver.destroy_event)(joined.before);
            let _ = (self.driver.destroy_event)(joined.after);
            let _ = (self.driver.destroy_stream)(joined.stream);
        }
    }
}

/// A stream, and two events.
fn streams(driver: &DriverApi) -> Result<(Stream, Event, Event), DriverCode> {
    Ok((driver.stream()?, driver.event()?, driver.event()?))
}

#[cfg(test)]
mod tests;
