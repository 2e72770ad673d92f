//! Options of sessions: devices, placement, plans, files, collectives.

use std::fmt;
use std::sync::Arc;

use thalweg_device::cuda::Cards;
use thalweg_device::{Collectives, Cpu, Device, DeviceType, Files, Printer};
use thalweg_graph::DeviceSpec;
use thalweg_ops::OpSet;
use thalweg_plan::{Parallel, PlanOptions, SessionError, Wire};
use thalweg_tensor::Memory;

use crate::gpu_options::GpuOptions;

/// The job of a process that is in no cluster.
const LOCAL_JOB: &str = "localhost";

/// Maximum number of GPUs: more than one machine has.
const MAX_GPUS: usize = 1024;

/// Options of a session.
///
/// Each method changes one option and returns the options.
///
/// ```
/// use thalweg_session::{Parallel, SessionOptions};
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// // Two CPU devices with two threads each. Equal options give equal results.
/// let options = SessionOptions::new()
///     .cpus(2)
///     .threads(4)
///     .soft_placement(true)
///     .parallel(Parallel::Never);
///
/// let devices = options.devices()?;
/// let names: Vec<String> = devices.iter().map(|d| d.name().to_string()).collect();
/// assert_eq!(names[1], "/job:localhost/replica:0/task:0/device:CPU:1");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SessionOptions {
    job: String,
    task: u32,
    threads: usize,
    cpus: Vec<CpuOptions>,
    gpus: Vec<GpuOptions>,
    allow_tf32: bool,
    soft_placement: bool,
    deny_fallback: bool,
    plans: usize,
    parallel: Parallel,
    optimise: bool,
    wire: Option<Wire>,
    shared: usize,
    account: Option<Arc<Memory>>,
    printer: Option<PrinterOption>,
    ops: OpSet,
    pub(crate) files: Files,
    pub(crate) collectives: Option<Arc<dyn Collectives>>,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            job: LOCAL_JOB.to_owned(),
            task: 0,
            threads: 0,
            cpus: vec![CpuOptions::default()],
            gpus: Vec::new(),
            allow_tf32: false,
            soft_placement: false,
            deny_fallback: false,
            plans: 64,
            parallel: Parallel::default(),
            optimise: true,
            wire: None,
            shared: 0,
            account: None,
            printer: None,
            ops: OpSet::default(),
            files: Files::none(),
            collectives: None,
        }
    }
}

impl fmt::Debug for SessionOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionOptions")
            .field("job", &self.job)
            .field("task", &self.task)
            .field("threads", &self.threads)
            .field("cpus", &self.cpus)
            .field("gpus", &self.gpus)
            .field("allow_tf32", &self.allow_tf32)
            .field("soft_placement", &self.soft_placement)
            .field("deny_fallback", &self.deny_fallback)
            .field("plans", &self.plans)
            .field("parallel", &self.parallel)
            .field("optimise", &self.optimise)
            .field("wire", &self.wire)
            .field("shared", &self.shared)
            .field("ops", &self.ops)
            .field("files", &self.files)
            .field("collectives", &self.collectives.is_some())
            .finish()
    }
}

impl SessionOptions {
    /// The defaults.
    pub fn new() -> SessionOptions {
        SessionOptions::default()
    }

    /// With devices in the name of this task of a cluster, `/job:JOB/replica:0/task:TASK/device:CPU:0`, in place of
    /// `/job:localhost/replica:0/task:0`.
    pub fn task(self, job: impl Into<String>, task: u32) -> SessionOptions {
        let job = job.into();
        SessionOptions { job, task, ..self }
    }

    /// With this many threads of all CPU devices, the calling one among them; 0, the default, stands for as many as the
    /// machine runs at once.
    pub fn threads(self, threads: usize) -> SessionOptions {
        SessionOptions { threads, ..self }
    }

    /// With this many CPU devices (1), `/device:CPU:0` and so on, one at least: parts of the processor with memory of
    /// their own, which share the threads evenly.
    pub fn cpus(self, count: usize) -> SessionOptions {
        SessionOptions {
            cpus: vec![CpuOptions::default(); count.max(1)],
            ..self
        }
    }

    /// With one more CPU device, after those that it has.
    pub fn cpu(mut self, cpu: CpuOptions) -> SessionOptions {
        self.cpus.push(cpu);
        self
    }

    /// With these options for each of the CPU devices: of two, each with this limit on memory.
    pub fn each_cpu(mut self, cpu: CpuOptions) -> SessionOptions {
        self.cpus.fill(cpu);
        self
    }

    /// With this many GPUs (0), `/device:GPU:0` and so on: the machine's first.
    pub fn gpus(self, count: usize) -> SessionOptions {
        SessionOptions {
            gpus: (0..count).map(GpuOptions::card).collect(),
            ..self
        }
    }

    /// With one more GPU, after those that it has.
    pub fn gpu(mut self, gpu: GpuOptions) -> SessionOptions {
        self.gpus.push(gpu);
        self
    }

    /// With the GPUs that a device of this name needs: for `/gpu:1`, the machine's first two.
    pub fn for_device(self, device: &DeviceSpec) -> SessionOptions {
        let gpu = DeviceType::Gpu.name();
        let gpus = match device.device_type.as_deref() {
            // No machine has more: opening them reports the missing one.
            Some(name) if name == gpu => (device.index.unwrap_or(0) as usize + 1).min(MAX_GPUS),
            _ => 0,
        };
        self.gpus(gpus)
    }

    /// With TF32 in the libraries of all GPUs, or without (`false`, the default): products and convolutions of `f32` are
    /// several times as fast, with 10 bits of mantissa in place of 23.
    pub fn allow_tf32(self, allow_tf32: bool) -> SessionOptions {
        SessionOptions { allow_tf32, ..self }
    }

    /// With soft placement, or without (`false`): a node whose device has no kernel for it, or does not exist, may run
    /// on another one of its task. Without, it is an error.
    pub fn soft_placement(self, soft_placement: bool) -> SessionOptions {
        SessionOptions {
            soft_placement,
            ..self
        }
    }

    /// Without soft placement on a lesser type of device than a node asks for, or with it (`false`).
    pub fn deny_fallback(self, deny_fallback: bool) -> SessionOptions {
        SessionOptions {
            deny_fallback,
            ..self
        }
    }

    /// With this rule for the dtypes in which values are sent between the tasks of a cluster; by default, their own.
    pub fn wire(self, wire: Wire) -> SessionOptions {
        SessionOptions {
            wire: Some(wire),
            ..self
        }
    }

    /// With this parallelism of independent nodes.
    pub fn parallel(self, parallel: Parallel) -> SessionOptions {
        SessionOptions { parallel, ..self }
    }

    /// With constant folding, sharing of equal nodes and fusion (`true`), or without: a step runs the graph as built.
    pub fn optimise(self, optimise: bool) -> SessionOptions {
        SessionOptions { optimise, ..self }
    }

    /// With the kernels of these ops: of a program's own beside Thalweg's. The graph has their definitions, by
    /// [`NewGraph::with_ops`](thalweg_ops::NewGraph::with_ops).
    pub fn ops(self, ops: &OpSet) -> SessionOptions {
        SessionOptions {
            ops: ops.clone(),
            ..self
        }
    }

    /// With the files that the graph's ops may read and write (none): checkpoints, for `SaveV2` and `RestoreV2`.
    pub fn files(self, files: Files) -> SessionOptions {
        SessionOptions { files, ..self }
    }

    /// With the files in another folder, which exists, beside those of [`SessionOptions::files`].
    ///
    /// # Errors
    /// The folder does not exist, or is none.
    pub fn also_files(
        self,
        folder: impl AsRef<std::path::Path>,
    ) -> Result<SessionOptions, std::io::Error> {
        let files = self.files.clone().also_within(folder)?;
        Ok(self.files(files))
    }

    /// As one of several ranks that run the same graph: with the transport of values between them.
    pub fn collectives(self, collectives: Arc<dyn Collectives>) -> SessionOptions {
        SessionOptions {
            collectives: Some(collectives),
            ..self
        }
    }

    /// With a cache of at most so many plans (64); the least recently used one is evicted first.
    pub fn plans(self, plans: usize) -> SessionOptions {
        SessionOptions { plans, ..self }
    }

    /// With large values that go to another task, those of variables, and copies of others in memory that other
    /// processes of the machine can map. Up to so many bytes of each CPU's shared memory are kept for later use, beside
    /// the bytes in use; 0, the default, allocates none. A server sets it for its own devices.
    pub fn shared_memory(self, kept_bytes: usize) -> SessionOptions {
        SessionOptions {
            shared: kept_bytes,
            ..self
        }
    }

    /// With lines of Print and PrintV2 given to this function, in place of standard error.
    pub fn printing(self, printer: impl Fn(&str) + Send + Sync + 'static) -> SessionOptions {
        SessionOptions {
            printer: Some(PrinterOption(Arc::new(printer))),
            ..self
        }
    }

    pub(crate) fn printer(&self) -> Option<Printer> {
        self.printer.as_ref().map(|p| p.0.clone())
    }

    /// With CPU devices whose memory counts against this account too: for several users of one memory.
    pub fn memory_account(self, account: Arc<Memory>) -> SessionOptions {
        SessionOptions {
            account: Some(account),
            ..self
        }
    }

    /// An account of at most `limit` bytes, in that of [`SessionOptions::memory_account`] if there is one.
    pub fn account_within(&self, limit: usize) -> Memory {
        match &self.account {
            Some(whole) => Memory::within(whole, limit),
            None => Memory::new(Some(limit)),
        }
    }

    /// The account of plans and traces: an eighth of that of [`SessionOptions::memory_account`]. Without one, they are not
    /// counted.
    pub(crate) fn plan_memory(&self) -> Option<Arc<Memory>> {
        let whole = self.account.as_ref()?;
        let limit = whole.limit().unwrap_or(usize::MAX) / 8;
        Some(Arc::new(Memory::within(whole, limit)))
    }

    /// With this limit on the memory of each CPU device that has none, in bytes.
    pub fn default_memory_limit(mut self, bytes: usize) -> SessionOptions {
        for cpu in &mut self.cpus {
            cpu.memory_limit.get_or_insert(bytes);
        }
        self
    }

    /// The job in whose name the devices stand.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// The number of the task in its job.
    pub fn task_index(&self) -> u32 {
        self.task
    }

    /// The maximum number of cached plans.
    pub fn max_plans(&self) -> usize {
        self.plans
    }

    /// The files that the graph may use.
    pub fn allowed_files(&self) -> &Files {
        &self.files
    }

    /// The ops that have kernels.
    pub fn op_set(&self) -> &OpSet {
        &self.ops
    }

    /// `true` if large values are allocated in shared memory.
    pub fn has_shared_memory(&self) -> bool {
        self.shared > 0
    }

    /// Returns the options of planning.
    pub fn plan_options(&self) -> PlanOptions {
        PlanOptions {
            soft_placement: self.soft_placement,
            deny_fallback: self.deny_fallback,
            parallel: self.parallel,
            optimise: self.optimise,
            wire: self.wire.clone(),
        }
    }

    /// Opens the devices that these options ask for: CPUs first.
    ///
    /// # Errors
    /// A GPU that cannot be opened, with the missing part and how to get it; threads that the system does not give.
    pub fn devices(&self) -> Result<Vec<Device>, SessionError> {
        let threads = match self.threads {
            0 => Cpu::available_threads(),
            n => n,
        };
        let share = (threads / self.cpus.len()).max(1);
        let name = |kind: DeviceType, index: usize| DeviceSpec {
            job: Some(self.job.as_str().into()),
            replica: Some(0),
            task: Some(self.task),
            device_type: Some(kind.name().into()),
            index: Some(index as u32),
        };
        let cpu = |(index, cpu): (usize, &CpuOptions)| {
            let threads = if cpu.threads == 0 { share } else { cpu.threads };
            let name = name(DeviceType::Cpu, index);
            let memory = self.account_within(cpu.memory_limit.unwrap_or(usize::MAX));
            let memory = match self.shared {
                0 => memory,
                keep => memory.sharing(keep),
            };
            let made = Cpu::new(threads).named(name, None).with_memory(memory);
            let given = made.pool().threads();
            if given < threads {
                return Err(SessionError::Threads {
                    device: made.name().clone(),
                    asked: threads,
                    given,
                });
            }
            Ok(Device::Cpu(made))
        };
        let devices = self.cpus.iter().enumerate().map(cpu);
        let mut devices: Vec<Device> = devices.collect::<Result<_, _>>()?;
        let mut cards = Cards::new(thalweg_ops::gpu::HEADER);
        for (index, gpu) in self.gpus.iter().enumerate() {
            let device = name(DeviceType::Gpu, index);
            let opened = gpu.open(&device, &mut cards, self.allow_tf32);
            let opened = opened.map_err(|source| SessionError::Device { device, source })?;
            devices.push(Device::Gpu(opened));
        }
        Ok(devices)
    }
}

/// A printer, as an option.
#[derive(Clone)]
struct PrinterOption(Printer);

impl std::fmt::Debug for PrinterOption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PrinterOption")
    }
}

/// One CPU device.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuOptions {
    threads: usize,
    memory_limit: Option<usize>,
}

impl CpuOptions {
    /// The defaults.
    pub fn new() -> CpuOptions {
        CpuOptions::default()
    }

    /// With this many threads of its own; 0, the default, for an even share of the session's, and one at least.
    pub fn threads(self, threads: usize) -> CpuOptions {
        CpuOptions { threads, ..self }
    }

    /// With at most so many bytes of its variables and steps; by default, as many as the system has. A variable that is
    /// updated while something else holds its value, as co-located workers of a server do, takes its bytes twice.
    pub fn memory_limit(self, bytes: usize) -> CpuOptions {
        CpuOptions {
            memory_limit: Some(bytes),
            ..self
        }
    }
}
