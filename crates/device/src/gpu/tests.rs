use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use thalweg_tensor::DType;

use super::*;
use crate::reduction::ReduceOp;

static SOURCE: Source = Source {
    name: "unary",
    text: "",
};

fn function(types: &[DType], large: bool) -> Function {
    Function {
        source: &SOURCE,
        name: "Tanh",
        types: types.into(),
        large,
    }
}

#[test]
fn macros_tell_a_source_its_types() {
    for (types, large, macros) in [
        (&[][..], false, &[][..]),
        (&[DType::F32], false, &["T_TYPE=f32", "T_FLOAT=1"]),
        (&[DType::I64], true, &["T_TYPE=i64", "INDEX_64=1"]),
        (&[DType::Bool], false, &["T_TYPE=bool", "T_BOOL=1"]),
        (
            &[DType::I8, DType::BF16],
            false,
            &["T_TYPE=i8", "U_TYPE=bf16", "U_FLOAT=1"],
        ),
    ] {
        assert_eq!(function(types, large).macros(), macros, "{types:?}");
    }
}

#[test]
fn a_grid_follows_from_the_number_of_elements_alone() {
    for (elements, blocks, large) in [
        (0, 1, false),
        (1, 1, false),
        (1024, 1, false),
        (1025, 2, false),
        (4096 * 1024, 4096, false),
        (4096 * 1024 + 1, 4096, false),
        ((1 << 31) - 1, 4096, false),
        (1 << 31, 4096, true),
        (usize::MAX, 4096, true),
    ] {
        let launch = Launch::over(elements, &SOURCE, "Tanh", &[DType::F32]);
        let found = (launch.blocks, launch.threads, launch.function.large);
        assert_eq!(found, (blocks, THREADS, large), "{elements}");
    }
}

#[test]
fn arguments_of_a_launch_keep_their_order_and_the_width_of_the_index() {
    let launch = |elements| {
        let launch = Launch::over(elements, &SOURCE, "Tanh", &[DType::F32]);
        launch
            .input(1)
            .output(0)
            .value(1.5f32)
            .indices(&[2, 3])
            .arg(Arg::Status)
    };
    let value = |bytes: &[u8]| Arg::Value(bytes.into());
    let narrow = [2u32.to_ne_bytes(), 3u32.to_ne_bytes()].concat();
    let wide = [2u64.to_ne_bytes(), 3u64.to_ne_bytes()].concat();
    for (elements, indices) in [(10, narrow), (1 << 31, wide)] {
        let expected = [
            Arg::Input(1),
            Arg::Output(0),
            value(&1.5f32.to_ne_bytes()),
            value(&indices),
            Arg::Status,
        ];
        assert_eq!(launch(elements).args[..], expected, "{elements}");
    }
    let launches = Launches::from(launch(10));
    assert_eq!(
        (launches.list.len(), launches.scratch, launches.assigns),
        (1, 0, false)
    );
}

#[test]
fn arguments_begin_at_multiples_of_eight_bytes() {
    let mut arguments = Arguments::default();
    arguments.push(&7u64.to_ne_bytes());
    arguments.push(&[1, 2, 3]);
    arguments.push(&[9; 12]);
    arguments.push(&5u32.to_ne_bytes());
    let mut short = [0; 8];
    short[..3].copy_from_slice(&[1, 2, 3]);
    let mut last = [0; 8];
    last[..4].copy_from_slice(&5u32.to_ne_bytes());
    let words = [
        7,
        u64::from_ne_bytes(short),
        u64::from_ne_bytes([9; 8]),
        u64::from_ne_bytes(last),
    ];
    assert_eq!(arguments.words().collect::<Vec<_>>(), words);
    let pointers: Vec<usize> = arguments.pointers().map(|p| p as usize).collect();
    let offsets: Vec<usize> = pointers.iter().map(|p| p - pointers[0]).collect();
    assert_eq!((offsets, pointers[0] % 8), (vec![0, 8, 16, 32], 0));
}

#[test]
fn commands_collectives_and_engines_have_names_for_errors() {
    let copy = Command::Copy {
        from: 0,
        to: 256,
        bytes: 1,
    };
    let fill = Command::Fill {
        to: 0,
        byte: 255,
        bytes: 1,
    };
    let names = [
        copy,
        fill,
        Command::Join { communicator: 0 },
        Command::Replay { graph: 0 },
    ];
    let names = names.map(|c| c.name());
    assert_eq!(
        names,
        [
            "copy",
            "fill memory",
            "wait for collectives",
            "launch a graph"
        ]
    );
    let sum = GpuCollectiveKind::Reduce {
        op: ReduceOp::Sum,
        factor: 1.0,
    };
    let kinds = [sum, GpuCollectiveKind::Broadcast { root: 0 }].map(|k| k.name());
    assert_eq!(kinds, ["all-reduce", "broadcast"]);
    for (algorithm, text) in [
        (Algorithm::Direct, "engine 7"),
        (Algorithm::Winograd, "engine 7 (Winograd)"),
        (Algorithm::Fft, "engine 7 (FFT)"),
    ] {
        let engine = Engine {
            number: 7,
            algorithm,
        };
        assert_eq!(engine.to_string(), text);
    }
}

#[test]
fn each_error_names_the_missing_part_and_a_remedy() {
    let missing = |folders: &[&str]| GpuError::Missing {
        name: "cuDNN",
        files: vec!["libcudnn.so.9".to_owned(), "libcudnn.so".to_owned()],
        folders: folders.iter().map(Into::into).collect(),
        advice: "install it",
    };
    for (error, text) in [
        (
            missing(&[]),
            "cuDNN is missing: looked for libcudnn.so.9, libcudnn.so where the system's loader looks (LD_LIBRARY_PATH is not set); install it",
        ),
        (
            missing(&["/a", "/b"]),
            "cuDNN is missing: looked for libcudnn.so.9, libcudnn.so in /a, /b and where the system's loader looks; install it",
        ),
        (
            GpuError::Lacking {
                name: "NCCL",
                function: "ncclCommFinalize",
                advice: "update it",
            },
            "NCCL has no function ncclCommFinalize: update it",
        ),
        (
            GpuError::NoSuchCard {
                number: 2,
                count: 1,
            },
            "there is no GPU number 2: the driver finds 1, counted from 0",
        ),
        (
            GpuError::OldDriver {
                found: 11_080,
                needed: 12,
            },
            "the driver is one for CUDA 11.8, and CUDA 12.0 is the least for this compiler of kernels: update the NVIDIA driver",
        ),
        (
            GpuError::OutOfMemory { bytes: 64 },
            "the GPU has no 64 bytes of memory free: make the batch or the model smaller",
        ),
        (
            GpuError::Compile {
                file: "unary",
                architecture: "sm_90".to_owned(),
                options: vec!["-O3".to_owned()],
                log: "line 7".to_owned(),
            },
            "kernels/unary.cu does not compile for sm_90 with [\"-O3\"]:\nline 7",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

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
