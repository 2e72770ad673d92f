//! The GPU part of a frame: memory, and commands that are submitted one by one or captured and launched as one graph.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use thalweg_device::gpu::{
    Arguments, Block, Command, Communicator, Gpu, GpuCollectiveKind, GpuError, Graph, HostBlock,
};
use thalweg_device::{Collectives, KernelError};

use thalweg_plan::Program;
use thalweg_plan::SessionError;
use thalweg_plan::failed;
use thalweg_plan::gpu_program::{Argument, Commands, GpuCommand, GpuPlace, STATUS_BYTES};

/// The memory of a step in flight on a GPU, and the commands that name its addresses.
pub(crate) struct GpuFrame {
    arena: Block,
    staging: HostBlock,
    /// By segment: its commands, and the graph that was captured of them, once there is one.
    pub(crate) segments: Vec<(Vec<Command>, Mutex<Option<Graph>>)>,
    /// Offset of the memory behind the arena: counters, statuses and constants.
    fixed: usize,
    statuses: usize,
    /// By set of ranks that GPUs run collectives with.
    pub(crate) communicators: Vec<Arc<Communicator>>,
}

impl GpuFrame {
    /// Allocates memory for a step of this program and copies its constants into it. The step has the GPU's turn.
    ///
    /// # Errors
    /// The error of `too_large` where there is no memory, or the driver's error.
    pub(crate) fn new(
        program: &Program,
        gpu: &Gpu,
        ranks: Option<&Arc<dyn Collectives>>,
        too_large: impl Fn() -> SessionError,
    ) -> Result<Option<GpuFrame>, SessionError> {
        let Some(commands) = &program.gpu else {
            return Ok(None);
        };
        let error = |e: GpuError| match e {
            GpuError::OutOfMemory { .. } => too_large(),
            source => SessionError::Device {
                device: gpu.name().clone(),
                source,
            },
        };
        let communicators = communicators(program, commands, gpu, ranks)?;
        let bytes = commands.bytes(program.arena);
        let mut gpu_frame = GpuFrame {
            arena: gpu.allocate(bytes).map_err(error)?,
            staging: gpu.allocate_host(commands.staging).map_err(error)?,
            communicators,
            segments: Vec::new(),
            fixed: program.arena,
            statuses: program.arena + commands.fixed,
        };
        gpu_frame.start(commands, gpu).map_err(error)?;
        let resolved = commands.segments.iter().map(|s| {
            let list = s.commands.iter();
            let list = list
                .map(|w| gpu_frame.command(&w.command, commands))
                .collect();
            (list, Mutex::default())
        });
        gpu_frame.segments = resolved.collect();
        Ok(Some(gpu_frame))
    }

    /// Copies constants and tables to the GPU, and sets counters that are new to 0.
    fn start(&self, commands: &Commands, gpu: &Gpu) -> Result<(), GpuError> {
        let constants = commands.constants.iter();
        let constants = constants.map(|(offset, t)| (*offset, Cow::from(t.bytes())));
        let tables = commands.tables.iter().map(|table| {
            let words = table.words(|place| self.address(place, commands));
            let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
            (table.offset, Cow::from(bytes))
        });
        let all: Vec<(usize, Cow<'_, [u8]>)> = constants.chain(tables).collect();
        let staging = gpu.allocate_host(all.iter().map(|(_, bytes)| bytes.len()).sum())?;
        let mut at = 0;
        let mut result = Ok(());
        for (offset, bytes) in &all {
            // SAFETY: the staging memory has room for all of them, one after the other, and
            // nothing else uses it yet.
            let from = unsafe {
                let from = staging.as_ptr().add(at);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), from, bytes.len());
                from
            };
            at += bytes.len();
            let command = Command::CopyIn {
                from: from as usize,
                to: self.arena.address() + (self.fixed + offset) as u64,
                bytes: bytes.len(),
            };
            if !bytes.is_empty() {
                // SAFETY: both live until the queue has run it, which is waited for below; nothing
                // else uses the arena yet.
                result = result.and_then(|()| unsafe { gpu.submit(&command) });
            }
        }
        for counter in &commands.counters {
            if !counter.started.load(Ordering::Acquire) {
                let command = Command::Fill {
                    to: counter.block.address(),
                    byte: 0,
                    bytes: counter.block.bytes(),
                };
                // SAFETY: the block lives as long as the session; nothing uses it yet.
                result = result.and_then(|()| unsafe { gpu.submit(&command) });
            }
        }
        // The staging memory is given back when this returns.
        gpu.wait().and(result)?;
        let counters = commands.counters.iter();
        counters.for_each(|c| c.started.store(true, Ordering::Release));
        Ok(())
    }

    /// Returns an address of the host's staging memory.
    pub(crate) fn staged(&self, offset: usize) -> *mut u8 {
        // SAFETY: the plan keeps every offset within the staging memory.
        unsafe { self.staging.as_ptr().add(offset.min(self.staging.len())) }
    }

    pub(crate) fn address(&self, place: GpuPlace, commands: &Commands) -> u64 {
        let arena = self.arena.address();
        match place {
            GpuPlace::Arena(offset) => arena + offset as u64,
            GpuPlace::Fixed(offset) => arena + (self.fixed + offset) as u64,
            GpuPlace::Status(number) => arena + (self.statuses + number * STATUS_BYTES) as u64,
            GpuPlace::Counter(number) => commands.counters[number].block.address(),
            GpuPlace::Variable(number) => {
                let resident = commands.variables[number].resident();
                resident.map_or(0, |r| r.address())
            }
        }
    }

    fn command(&self, command: &GpuCommand, commands: &Commands) -> Command {
        let address = |place: GpuPlace| self.address(place, commands);
        let staged = |offset: usize| self.staged(offset) as usize;
        match *command {
            GpuCommand::Launch {
                function,
                blocks,
                threads,
                arguments: ref list,
            } => {
                let mut arguments = Arguments::default();
                for argument in list {
                    match argument {
                        Argument::Address(place) => {
                            arguments.push(&address(*place).to_ne_bytes());
                        }
                        Argument::Value(bytes) => arguments.push(bytes),
                    }
                }
                Command::Launch {
                    function,
                    blocks,
                    threads,
                    arguments,
                }
            }
            GpuCommand::Call {
                call,
                places,
                workspace,
            } => Command::Call {
                call,
                addresses: places.map(address),
                workspace: address(workspace),
            },
            GpuCommand::Collective {
                set,
                kind,
                dtype,
                from,
                to,
                elements,
            } => Command::Collective {
                communicator: self.communicators[set].handle(),
                kind: placed(kind, &self.communicators[set]),
                dtype,
                from: address(from),
                to: address(to),
                elements,
            },
            GpuCommand::Group { set, begins } => Command::Group {
                communicator: self.communicators[set].handle(),
                begins,
            },
            GpuCommand::Join { set } => Command::Join {
                communicator: self.communicators[set].handle(),
            },
            GpuCommand::CopyIn { from, to, bytes } => Command::CopyIn {
                from: staged(from),
                to: address(to),
                bytes,
            },
            GpuCommand::CopyOut { from, to, bytes } => Command::CopyOut {
                from: address(from),
                to: staged(to),
                bytes,
            },
            GpuCommand::Copy { from, to, bytes } => Command::Copy {
                from: address(from),
                to: address(to),
                bytes,
            },
            GpuCommand::Ones { to, bytes } => Command::Fill {
                to: address(to),
                byte: 0xff,
                bytes,
            },
        }
    }
}

/// Returns the communicators of a program. All ranks have agreed to run it.
///
/// # Errors
/// Ranks were lost, or the session's collectives have no communicators.
fn communicators(
    program: &Program,
    commands: &Commands,
    gpu: &Gpu,
    ranks: Option<&Arc<dyn Collectives>>,
) -> Result<Vec<Arc<Communicator>>, SessionError> {
    let Some((_, first)) = commands.first else {
        return Ok(Vec::new());
    };
    let node = program.graph.node(first);
    let ranks = ranks.and_then(|r| r.for_gpus());
    let ranks = ranks.ok_or_else(|| failed(node, KernelError::NoRanks))?;
    let sets = commands.sets.iter();
    let all = sets.map(|&set| ranks.communicator(set, gpu.number(), gpu.driver()));
    all.collect::<Result<_, _>>().map_err(|e| failed(node, e))
}

/// The same with the place of a rank in a communicator. A rank that is not in it is refused by the driver.
fn placed(kind: GpuCollectiveKind, communicator: &Communicator) -> GpuCollectiveKind {
    match kind {
        GpuCollectiveKind::Broadcast { root } => GpuCollectiveKind::Broadcast {
            root: communicator.place_of(root).unwrap_or(usize::MAX),
        },
        other => other,
    }
}

/// Submits a command of a frame.
pub(crate) fn submit(gpu: &Gpu, command: &Command) -> Result<(), GpuError> {
    // SAFETY: commands name the frame's own memory, and variables and counters that the plan
    // holds; all of it lives until the step has waited for the queue, and the plan gives it to one
    // work at a time.
    unsafe { gpu.submit(command) }
}
