//! Options of sessions: devices, placement, plans, files, collectives.

use std::fmt;
use std::sync::Arc;

use thalweg_device::cuda::Cards;
use thalweg_device::gpu::{Driver, Gpu, GpuError};
use thalweg_device::{Collectives, Cpu, Device, DeviceType, Files};
use thalweg_graph::DeviceSpec;
use thalweg_plan::{Parallel, PlanOptions, SessionError, Wire};

/// The job of a process that is in no cluster.
const LOCAL_JOB: &str = "localhost";

/// Maximum number of GPUs: more than one machine has.
const MAX_GPUS: usize = 1024;

/// Options of a session.
///
/// Each method changes one option and returns the options; the fields can be read and set as well.
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
#[non_exhaustive]
pub struct SessionOptions {
    /// The job in whose name the devices stand: `/job:JOB/replica:0/task:TASK/device:CPU:0`.
    pub job: String,
    /// The number of the task in its job.
    pub task: u32,
    /// Threads of all CPU devices, the calling one among them; 0 stands for as many as the machine
    /// runs at once.
    pub threads: usize,
    /// The CPU devices, `/device:CPU:0` and so on: parts of the processor with threads and memory
    /// of their own. There is one at least.
    pub cpus: Vec<CpuOptions>,
    /// The GPU devices, `/device:GPU:0` and so on. Where there are none, no GPU is opened.
    pub gpus: Vec<GpuOptions>,
    /// `true` if a node whose device has no kernel for it, or does not exist, may run on another one of its task. Off,
    /// it is an error.
    pub soft_placement: bool,
    /// `true` if soft placement may not give a node a lesser type of device than it asks for.
    pub deny_fallback: bool,
    /// Maximum number of cached plans; the least recently used one is evicted first.
    pub plans: usize,
    /// Parallelism of independent nodes.
    pub parallel: Parallel,
    /// `true` to fold constants, share equal nodes and fuse. Off, a step runs the graph as built.
    pub optimise: bool,
    /// Dtypes in which values are sent between the tasks of a cluster; their own, where there is none.
    pub wire: Option<Wire>,
    /// Above 0, large values that go to another task, those of variables, and copies of others are allocated where
    /// other processes of the machine can map them; up to so many bytes of each CPU's shared memory are kept for later
    /// use, beside the bytes in use. A server sets it for its own devices.
    pub shared: usize,
    /// Files that the graph may use: none, by default.
    pub files: Files,
    /// Transport of values between this session and others that run the same graph, each a rank; none where it is
    /// alone.
    pub collectives: Option<Arc<dyn Collectives>>,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            job: LOCAL_JOB.to_owned(),
            task: 0,
            threads: 0,
            cpus: vec![CpuOptions::default()],
            gpus: Vec::new(),
            soft_placement: false,
            deny_fallback: false,
            plans: 64,
            parallel: Parallel::default(),
            optimise: true,
            wire: None,
            shared: 0,
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
            .field("soft_placement", &self.soft_placement)
            .field("deny_fallback", &self.deny_fallback)
            .field("plans", &self.plans)
            .field("parallel", &self.parallel)
            .field("optimise", &self.optimise)
            .field("wire", &self.wire)
            .field("shared", &self.shared)
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

    /// With this many threads in all; see the field.
    pub fn threads(self, threads: usize) -> SessionOptions {
        SessionOptions { threads, ..self }
    }

    /// With this many CPU devices, one at least, which share the threads evenly.
    pub fn cpus(self, count: usize) -> SessionOptions {
        SessionOptions {
            cpus: vec![CpuOptions::default(); count.max(1)],
            ..self
        }
    }

    /// With these options for each of the CPU devices: of two, each with this limit on memory.
    pub fn each_cpu(mut self, cpu: CpuOptions) -> SessionOptions {
        self.cpus.fill(cpu);
        self
    }

    /// With this many GPUs: the machine's first.
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

    /// With soft placement or without; see the field.
    pub fn soft_placement(self, soft_placement: bool) -> SessionOptions {
        SessionOptions {
            soft_placement,
            ..self
        }
    }

    /// Without placement on a lesser type of device than a node asks for, or with it.
    pub fn deny_fallback(self, deny_fallback: bool) -> SessionOptions {
        SessionOptions {
            deny_fallback,
            ..self
        }
    }

    /// With this rule for the dtypes of values between the tasks of a cluster.
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

    /// With optimisation of the graph or without; see the field.
    pub fn optimise(self, optimise: bool) -> SessionOptions {
        SessionOptions { optimise, ..self }
    }

    /// With the files that the graph's ops may read and write: checkpoints, for `SaveV2` and `RestoreV2`.
    pub fn files(self, files: Files) -> SessionOptions {
        SessionOptions { files, ..self }
    }

    /// As one of several ranks: with the transport of values between them.
    pub fn collectives(self, collectives: Arc<dyn Collectives>) -> SessionOptions {
        SessionOptions {
            collectives: Some(collectives),
            ..self
        }
    }

    /// With a cache of at most so many plans.
    pub fn plans(self, plans: usize) -> SessionOptions {
        SessionOptions { plans, ..self }
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
        let cpus = match &self.cpus[..] {
            [] => &[CpuOptions::default()],
            cpus => cpus,
        };
        let threads = match self.threads {
            0 => Cpu::available_threads(),
            n => n,
        };
        let share = (threads / cpus.len()).max(1);
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
            let made = Cpu::new(threads).named(name, cpu.memory_limit);
            let given = made.pool().threads();
            if given < threads {
                return Err(SessionError::Threads {
                    device: made.name().clone(),
                    asked: threads,
                    given,
                });
            }
            Ok(Device::Cpu(match self.shared {
                0 => made,
                keep => made.sharing(keep),
            }))
        };
        let devices = cpus.iter().enumerate().map(cpu);
        let mut devices: Vec<Device> = devices.collect::<Result<_, _>>()?;
        let mut cards = Cards::new(thalweg_ops::gpu::HEADER);
        for (index, gpu) in self.gpus.iter().enumerate() {
            let device = name(DeviceType::Gpu, index);
            let opened = gpu.open(&device, &mut cards);
            let opened = opened.map_err(|source| SessionError::Device { device, source })?;
            devices.push(Device::Gpu(opened));
        }
        Ok(devices)
    }
}

/// One CPU device.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct CpuOptions {
    /// Its threads; 0 for an even share of the session's, and one at least.
    pub threads: usize,
    /// Maximum bytes of its variables and steps; `None` for as many as the system has. A variable that is updated while
    /// something else holds its value, as co-located workers of a server do, takes its bytes twice.
    pub memory_limit: Option<usize>,
}

impl CpuOptions {
    /// The defaults.
    pub fn new() -> CpuOptions {
        CpuOptions::default()
    }

    /// With this many threads of its own.
    pub fn threads(self, threads: usize) -> CpuOptions {
        CpuOptions { threads, ..self }
    }

    /// With this limit on memory, in bytes.
    pub fn memory_limit(self, bytes: usize) -> CpuOptions {
        CpuOptions {
            memory_limit: Some(bytes),
            ..self
        }
    }
}

/// One GPU device: a card, or a part of one. Several devices may stand for one card, each with
/// memory of its own.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GpuOptions {
    /// The card's number for the driver.
    pub card: usize,
    /// Maximum bytes of its variables and steps; `None` for as many as the card has.
    pub memory_limit: Option<usize>,
    /// The same as a fraction of the card's memory, from 0 to 1; the lower of both counts.
    pub memory_fraction: Option<f64>,
    /// `true` if libraries may compute `f32` in TF32: faster, with 10 bits of mantissa.
    pub tf32: bool,
    /// A driver in place of the card's: an emulation, or a recording.
    pub driver: Option<Arc<dyn Driver>>,
}

impl GpuOptions {
    /// This card, whole.
    pub fn card(number: usize) -> GpuOptions {
        GpuOptions {
            card: number,
            ..GpuOptions::default()
        }
    }

    /// The device of this driver.
    pub fn driven_by(driver: Arc<dyn Driver>) -> GpuOptions {
        GpuOptions {
            driver: Some(driver),
            ..GpuOptions::default()
        }
    }

    /// With this limit on memory, in bytes.
    pub fn memory_limit(self, bytes: usize) -> GpuOptions {
        GpuOptions {
            memory_limit: Some(bytes),
            ..self
        }
    }

    /// With at most this part of the card's memory, from 0 to 1.
    pub fn memory_fraction(self, part: f64) -> GpuOptions {
        GpuOptions {
            memory_fraction: Some(part),
            ..self
        }
    }

    /// With TF32 in libraries or without.
    pub fn tf32(self, tf32: bool) -> GpuOptions {
        GpuOptions { tf32, ..self }
    }

    fn open(&self, device: &DeviceSpec, cards: &mut Cards) -> Result<Gpu, GpuError> {
        let driver = match &self.driver {
            Some(driver) => driver.clone(),
            None => cards.open(self.card)?,
        };
        let limit = match self.memory_fraction {
            None => self.memory_limit,
            Some(part) => {
                let (total, _) = driver.memory()?;
                let bytes = (total as f64 * part.clamp(0.0, 1.0)) as usize;
                Some(self.memory_limit.map_or(bytes, |l| l.min(bytes)))
            }
        };
        let mut gpu = Gpu::new(device.clone(), driver, limit)?;
        gpu.allow_tf32(self.tf32);
        Ok(gpu)
    }
}
