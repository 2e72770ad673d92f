//! Devices over a driver that records its calls: memory, functions, captures, communicators, turns.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::*;

/// A driver that records its calls. It has `left` bytes of memory.
#[derive(Debug, Default)]
struct Recorder {
    calls: Mutex<Vec<String>>,
    left: Mutex<usize>,
    communicates: bool,
}

impl Recorder {
    fn with(left: usize) -> Arc<Recorder> {
        Arc::new(Recorder {
            left: Mutex::new(left),
            communicates: true,
            ..Recorder::default()
        })
    }

    fn record(&self, call: impl Into<String>) {
        self.calls.lock().unwrap().push(call.into());
    }

    /// The calls since the last time.
    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

// SAFETY: no command runs; memory of the host is allocated and freed as it is.
unsafe impl Driver for Recorder {
    fn name(&self) -> String {
        "a recorder".to_owned()
    }

    fn memory(&self) -> Result<(usize, usize), GpuError> {
        Ok((0, 0))
    }

    fn queue(&self) -> Result<Handle, GpuError> {
        Ok(40)
    }

    fn drop_queue(&self, queue: Handle) {
        self.record(format!("drop queue {queue}"));
    }

    fn allocate(&self, bytes: usize) -> Result<Address, GpuError> {
        self.record(format!("allocate {bytes}"));
        let mut left = self.left.lock().unwrap();
        *left = left
            .checked_sub(bytes)
            .ok_or(GpuError::OutOfMemory { bytes })?;
        Ok(4096)
    }

    fn free(&self, address: Address) {
        self.record(format!("free {address}"));
    }

    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        self.record(format!("allocate {bytes} of the host"));
        Ok(NonNull::from(Box::leak(vec![0u8; bytes].into_boxed_slice())).cast())
    }

    unsafe fn free_host(&self, memory: NonNull<u8>, bytes: usize) {
        self.record(format!("free {bytes} of the host"));
        let slice = NonNull::slice_from_raw_parts(memory, bytes);
        // SAFETY: `allocate_host` leaked a box of this length.
        drop(unsafe { Box::from_raw(slice.as_ptr()) });
    }

    fn load(&self, function: &Function) -> Result<Handle, GpuError> {
        self.record(format!("load {:?}", function.types));
        Ok(7)
    }

    fn prepare(&self, _: &Call, tf32: bool) -> Result<ReadyCall, String> {
        Err(format!("tf32: {tf32}"))
    }

    fn communicators(&self) -> Result<&dyn Communicators, GpuError> {
        match self.communicates {
            true => Ok(self),
            false => Err(GpuError::NoCommunicators),
        }
    }

    unsafe fn submit(&self, queue: Handle, command: &Command) -> Result<(), GpuError> {
        self.record(format!("submit to {queue}: {}", command.name()));
        Ok(())
    }

    fn wait(&self, queue: Handle) -> Result<(), GpuError> {
        self.record(format!("wait for {queue}"));
        Ok(())
    }

    fn begin(&self, queue: Handle) -> Result<(), GpuError> {
        self.record(format!("begin {queue}"));
        Ok(())
    }

    fn end(&self, queue: Handle) -> Result<Handle, GpuError> {
        self.record(format!("end {queue}"));
        Ok(11)
    }

    fn drop_graph(&self, graph: Handle) {
        self.record(format!("drop graph {graph}"));
    }
}

// SAFETY: no command runs.
unsafe impl Communicators for Recorder {
    fn identity(&self) -> Result<Vec<u8>, GpuError> {
        Ok(vec![1])
    }

    fn meet(
        &self,
        identity: &[u8],
        place: usize,
        size: usize,
        keep_waiting: KeepWaiting,
    ) -> Result<Handle, GpuError> {
        self.record(format!("meet {identity:?}: {place} of {size}"));
        match keep_waiting() {
            true => Ok(13),
            false => Err(GpuError::NoCard),
        }
    }

    fn abort(&self, communicator: Handle) {
        self.record(format!("abort {communicator}"));
    }

    fn drop_communicator(&self, communicator: Handle) {
        self.record(format!("drop communicator {communicator}"));
    }

    fn has_run(&self, queue: Handle) -> Result<bool, GpuError> {
        Ok(queue == 40)
    }
}

fn gpu(driver: &Arc<Recorder>, limit: Option<usize>) -> Gpu {
    Gpu::new(Gpu::local(1), driver.clone(), limit).unwrap()
}

#[test]
fn memory_counts_against_the_limit_until_it_is_dropped() {
    let driver = Recorder::with(1 << 20);
    let gpu = gpu(&driver, Some(100));
    let block = gpu.allocate(60).unwrap();
    assert_eq!(
        (block.bytes(), block.address(), gpu.memory().used()),
        (60, 4096, 60)
    );
    // The driver is not asked.
    let beyond = gpu.allocate(41);
    assert!(matches!(beyond, Err(GpuError::OutOfMemory { bytes: 41 })));
    assert_eq!(driver.calls(), ["allocate 60"]);
    drop(block);
    assert_eq!(
        (gpu.memory().used(), driver.calls()),
        (0, vec!["free 4096".to_owned()])
    );
}

#[test]
fn memory_that_the_card_does_not_have_is_not_counted() {
    let driver = Recorder::with(50);
    let gpu = gpu(&driver, None);
    assert!(gpu.allocate(60).is_err());
    assert_eq!(gpu.memory().used(), 0);
    assert!(gpu.allocate(50).is_ok());
}

#[test]
fn no_bytes_need_no_memory() {
    let driver = Recorder::with(0);
    let gpu = gpu(&driver, Some(0));
    drop(gpu.allocate(0).unwrap());
    let host = gpu.allocate_host(0).unwrap();
    assert!(host.is_empty());
    drop(host);
    assert_eq!(driver.calls(), [""; 0]);
    let host = gpu.allocate_host(16).unwrap();
    assert!(!host.as_ptr().is_null());
    drop(host);
    assert_eq!(
        driver.calls(),
        ["allocate 16 of the host", "free 16 of the host"]
    );
}

#[test]
fn a_function_is_loaded_once_for_its_types() {
    let driver = Recorder::with(0);
    let gpu = gpu(&driver, None);
    for types in [&[DType::F32][..], &[DType::F32], &[DType::F64]] {
        assert_eq!(gpu.load(&function(types, false)), Ok(7));
    }
    assert_eq!(driver.calls(), ["load [F32]", "load [F64]"]);
}

#[test]
fn libraries_compute_in_tf32_only_where_it_is_allowed() {
    let mut gpu = gpu(&Recorder::with(0), None);
    let call = Call::Gemm(Gemm {
        dtype: DType::F32,
        batches: 1,
        left_step: 0,
        right_step: 0,
        rows: 1,
        columns: 1,
        depth: 1,
        transpose_left: false,
        transpose_right: false,
    });
    assert_eq!(gpu.prepare(&call), Err("tf32: false".to_owned()));
    gpu.allow_tf32(true);
    assert_eq!(gpu.prepare(&call), Err("tf32: true".to_owned()));
}

#[test]
fn a_capture_that_has_begun_is_ended_although_a_command_fails() {
    let driver = Recorder::with(0);
    let gpu = gpu(&driver, None);
    let graph = gpu.capture(|| Ok(())).unwrap();
    assert_eq!(graph.replay(), Command::Replay { graph: 11 });
    drop(graph);
    assert_eq!(driver.calls(), ["begin 40", "end 40", "drop graph 11"]);
    let failed = gpu.capture(|| Err(GpuError::NoCard));
    assert_eq!(failed.unwrap_err(), GpuError::NoCard);
    assert_eq!(driver.calls(), ["begin 40", "end 40", "drop graph 11"]);
}

#[test]
fn a_gpu_waits_for_its_commands_before_it_is_dropped() {
    let driver = Recorder::with(0);
    let gpu = gpu(&driver, None);
    // SAFETY: the driver runs no command.
    unsafe { gpu.submit(&Command::Join { communicator: 0 }) }.unwrap();
    assert_eq!(gpu.has_run(), Ok(true));
    drop(gpu);
    let calls = [
        "submit to 40: wait for collectives",
        "wait for 40",
        "drop queue 40",
    ];
    assert_eq!(driver.calls(), calls);
}

#[test]
fn a_gpu_is_led_by_one_thread_under_its_own_name() {
    let gpu = gpu(&Recorder::with(0), None);
    let name = "/job:localhost/replica:0/task:0/device:GPU:1";
    assert_eq!(
        (gpu.name().to_string(), gpu.host().name().to_string()),
        (name.to_owned(), name.to_owned())
    );
    assert_eq!(gpu.host().pool().threads(), 1);
    let device = crate::Device::Gpu(gpu);
    assert_eq!(device.device_type(), crate::DeviceType::Gpu);
    assert!(device.gpu().is_some() && device.memory().limit().is_none());
}

#[test]
fn a_communicator_knows_the_places_of_its_ranks_and_is_dropped_with_the_last_user() {
    let driver = Recorder::with(0);
    let as_driver: Arc<dyn Driver> = driver.clone();
    let meet = |go_on: bool| {
        Communicator::meet(
            &as_driver,
            &[5],
            (vec![4, 2, 7], 1),
            Arc::new(move || go_on),
        )
    };
    assert_eq!(meet(false).unwrap_err(), GpuError::NoCard);
    let met = meet(true).unwrap();
    let places = [4, 2, 7, 0].map(|rank| met.place_of(rank));
    assert_eq!(
        (met.handle(), places),
        (13, [Some(0), Some(1), Some(2), None])
    );
    met.abort();
    drop(met);
    let meeting = "meet [5]: 1 of 3";
    assert_eq!(
        driver.calls(),
        [meeting, meeting, "abort 13", "drop communicator 13"]
    );
}

#[test]
fn a_driver_without_communicators_meets_no_one() {
    let driver = Arc::new(Recorder::default());
    let gpu = gpu(&driver, None);
    assert_eq!(gpu.has_run(), Err(GpuError::NoCommunicators));
    let as_driver: Arc<dyn Driver> = driver.clone();
    let met = Communicator::meet(&as_driver, &[], (vec![0], 0), Arc::new(|| true));
    assert_eq!(met.unwrap_err(), GpuError::NoCommunicators);
}

#[test]
fn a_turn_that_is_free_is_taken_whatever_the_deadline() {
    let turns = Turns::default();
    let now = Some(Instant::now());
    let first = turns.take(now, &|| false);
    assert!(first.is_some());
    // It is not free, and the deadline has passed.
    assert!(turns.take(now, &|| true).is_none());
    drop(first);
    assert!(turns.take(now, &|| false).is_some());
}
