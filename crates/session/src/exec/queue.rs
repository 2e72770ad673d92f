//! A program of a GPU: its commands, handed over one by one or captured and launched as one.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use thalweg_device::gpu::{Arguments, Block, Command, Gpu, GpuError, Graph, HostBlock};
use thalweg_device::{KernelError, Slot};
use thalweg_graph::NodeId;

use super::Run;
use super::values::first_not_finite;
use crate::error::SessionError;
use crate::plan::gpu::{Argument, Commands, Made, Place, STATUS_BYTES, Segment, Task};
use crate::plan::{Home, Program, failed};

/// What a step in flight has on a GPU: memory, and commands that name their addresses.
pub(crate) struct Queued {
    arena: Block,
    staging: HostBlock,
    /// By segment: its commands, and what they are as one, once they were captured.
    segments: Vec<(Vec<Command>, Mutex<Option<Graph>>)>,
    /// Where what is behind the arena begins.
    fixed: usize,
    statuses: usize,
}

impl Queued {
    /// Memory for a step of this program, with its constants in it. The step has the GPU's turn.
    ///
    /// # Errors
    /// What `too_large` says where there is no memory; what the driver says.
    pub(crate) fn new(
        program: &Program,
        gpu: &Gpu,
        too_large: impl Fn() -> SessionError,
    ) -> Result<Option<Queued>, SessionError> {
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
        let bytes = commands.bytes(program.arena);
        let mut queued = Queued {
            arena: gpu.allocate(bytes).map_err(error)?,
            staging: gpu.allocate_host(commands.staging).map_err(error)?,
            segments: Vec::new(),
            fixed: program.arena,
            statuses: program.arena + commands.fixed,
        };
        queued.start(commands, gpu).map_err(error)?;
        let resolved = commands.segments.iter().map(|s| {
            let works = s.works.iter();
            let list = works.map(|w| queued.command(&w.task, commands)).collect();
            (list, Mutex::default())
        });
        queued.segments = resolved.collect();
        Ok(Some(queued))
    }

    /// Brings constants to the GPU, and sets counters that are new to 0.
    fn start(&self, commands: &Commands, gpu: &Gpu) -> Result<(), GpuError> {
        let total = commands
            .constants
            .iter()
            .map(|(_, t)| t.bytes().len())
            .sum();
        let staging = gpu.allocate_host(total)?;
        let mut at = 0;
        let mut result = Ok(());
        for (offset, tensor) in &commands.constants {
            let bytes = tensor.bytes();
            // SAFETY: the staging memory has room for all constants, one after the other, and
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

    /// An address of the host's staging memory.
    pub(crate) fn staged(&self, offset: usize) -> *mut u8 {
        // SAFETY: the plan keeps every offset within the staging memory.
        unsafe { self.staging.as_ptr().add(offset.min(self.staging.len())) }
    }

    fn address(&self, place: Place, commands: &Commands) -> u64 {
        let arena = self.arena.address();
        match place {
            Place::Arena(offset) => arena + offset as u64,
            Place::Fixed(offset) => arena + (self.fixed + offset) as u64,
            Place::Status(number) => arena + (self.statuses + number * STATUS_BYTES) as u64,
            Place::Counter(number) => commands.counters[number].block.address(),
            Place::Variable(number) => {
                let resident = commands.variables[number].resident();
                resident.map_or(0, |r| r.address())
            }
        }
    }

    fn command(&self, task: &Task, commands: &Commands) -> Command {
        let address = |place: Place| self.address(place, commands);
        let staged = |offset: usize| self.staged(offset) as usize;
        match *task {
            Task::Launch {
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
            Task::Call {
                call,
                places,
                workspace,
            } => Command::Call {
                call,
                addresses: places.map(address),
                workspace: address(workspace),
            },
            Task::CopyIn { from, to, bytes } => Command::CopyIn {
                from: staged(from),
                to: address(to),
                bytes,
            },
            Task::CopyOut { from, to, bytes } => Command::CopyOut {
                from: address(from),
                to: staged(to),
                bytes,
            },
            Task::Copy { from, to, bytes } => Command::Copy {
                from: address(from),
                to: address(to),
                bytes,
            },
            Task::Ones { to, bytes } => Command::Fill {
                to: address(to),
                byte: 0xff,
                bytes,
            },
        }
    }
}

impl<'a> Run<'a> {
    /// What this program has on its GPU.
    fn queue(&self) -> Option<(&'a Gpu, &'a Queued, &'a Commands)> {
        let commands = self.program.gpu.as_ref()?;
        Some((self.device.gpu()?, self.part.queued.as_ref()?, commands))
    }

    fn on_gpu(&self, e: GpuError) -> SessionError {
        SessionError::Device {
            device: self.device.name().clone(),
            source: e,
        }
    }

    /// Brings what is fed to where the GPU copies from.
    pub(super) fn stage(&self) {
        let Some((_, queued, commands)) = self.queue() else {
            return;
        };
        for &(slot, offset) in &commands.feeds {
            // SAFETY: feeds are held from before the step; the plan gives each its own room in the
            // staging memory, which the queue does not use before the segment that follows.
            unsafe {
                let from = self.part.slot(slot);
                let bytes = from.len * from.dtype.size();
                if bytes > 0 {
                    std::ptr::copy_nonoverlapping(from.ptr, queued.staged(offset), bytes);
                }
            }
        }
    }

    /// Copies a value from this program's GPU to another's, where the slots are both in GPUs'
    /// memory; false where they are not. The queue has run it when this returns, and the value's
    /// memory may be used again.
    pub(super) fn copy_between(
        &self,
        node: NodeId,
        from: u32,
        there: &Run<'_>,
        to: u32,
    ) -> Result<bool, GpuError> {
        let home = |run: &Run<'_>, slot: u32| match run.program.slots[slot as usize].home {
            Home::OnGpu(place) => Some(place),
            _ => None,
        };
        let places = (home(self, from), home(there, to));
        let (Some(own), Some(other)) = (self.queue(), there.queue()) else {
            return Ok(false);
        };
        let (Some(from_place), Some(to_place)) = places else {
            return Ok(false);
        };
        let slot = &self.program.slots[from as usize];
        let bytes = slot.len * slot.dtype.size();
        if bytes > 0 {
            let command = Command::Copy {
                from: own.1.address(from_place, own.2),
                to: other.1.address(to_place, other.2),
                bytes,
            };
            let start = Instant::now();
            submit(own.0, &command)?;
            own.0.wait()?;
            if let Some(recorder) = self.step.watch.recorder {
                let node = self.program.graph.node(node);
                recorder.between(node, self.device.name(), bytes, start);
            }
        }
        Ok(true)
    }

    /// Says whether a variable has a value, as far as what was handed over gives it one.
    pub(super) fn is_initialized(&self, variable: usize, staged: usize) {
        if let Some((_, queued, commands)) = self.queue() {
            let resident = commands.variables[variable].resident();
            let has = resident.is_some_and(|r| r.is_initialized());
            // SAFETY: the plan gives it a byte of the staging memory of its own, which the queue
            // reads only after this.
            unsafe { queued.staged(staged).write(u8::from(has)) };
        }
    }

    /// Waits until all that was handed over has run, so that the host may read what it wrote.
    pub(super) fn wait(&self) -> Result<(), SessionError> {
        match self.queue() {
            Some((gpu, ..)) => gpu.wait().map_err(|e| self.on_gpu(e)),
            None => Ok(()),
        }
    }

    /// Waits, and looks whether all elements could be taken so far.
    pub(super) fn check(&self, number: usize) -> Result<(), SessionError> {
        self.wait()?;
        let Some((_, queued, commands)) = self.queue() else {
            return Ok(());
        };
        let check = &commands.checks[number];
        let watched = &commands.watched[check.first..check.last];
        for (number, watched) in watched.iter().enumerate() {
            let at = queued.staged(check.staged + number * STATUS_BYTES);
            // SAFETY: within the staging memory, at a multiple of 8; the queue has run.
            let element = unsafe { at.cast::<u64>().read() };
            if element != u64::MAX {
                let node = self.program.graph.node(watched.node);
                let source = KernelError::Element {
                    input: watched.fault.input,
                    element: usize::try_from(element).unwrap_or(usize::MAX),
                    reason: watched.fault.reason.clone(),
                };
                return Err(failed(node, source));
            }
        }
        Ok(())
    }

    /// Hands a segment to the GPU.
    pub(super) fn segment(&self, number: usize) -> Result<(), SessionError> {
        let Some((gpu, queued, commands)) = self.queue() else {
            return Ok(());
        };
        let segment = &commands.segments[number];
        let (list, graph) = &queued.segments[number];
        let mut graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = self.step.watch.recorder.is_some() || self.step.watch.check_finite;
        if let Some(graph) = graph.as_ref().filter(|_| !watched) {
            // Variables that had values when it was captured have values now.
            submit(gpu, &graph.replay()).map_err(|e| self.on_gpu(e))?;
        } else {
            self.check_variables(segment, commands)?;
            if watched {
                self.one_by_one(gpu, number)?;
            } else if self.step.replay && !list.is_empty() {
                let captured = self.captured(gpu, number)?;
                submit(gpu, &captured.replay()).map_err(|e| self.on_gpu(e))?;
                *graph = Some(captured);
            } else {
                for (command, work) in list.iter().zip(&segment.works) {
                    submit(gpu, command).map_err(|e| self.failed(work.node, e))?;
                }
            }
        }
        for access in segment.variables.iter().filter(|a| a.assigns) {
            if let Some(resident) = commands.variables[access.variable].resident() {
                resident.initialize();
            }
        }
        Ok(())
    }

    /// The commands of a segment as one.
    fn captured(&self, gpu: &Gpu, number: usize) -> Result<Graph, SessionError> {
        let Some((_, queued, commands)) = self.queue() else {
            return Err(self.on_gpu(GpuError::NoCard));
        };
        let list = &queued.segments[number].0;
        let mut at = 0;
        let captured = gpu.capture(|| {
            list.iter().try_for_each(|c| {
                submit(gpu, c)?;
                at += 1;
                Ok(())
            })
        });
        captured.map_err(|e| match commands.segments[number].works.get(at) {
            Some(work) => self.failed(work.node, e),
            None => self.on_gpu(e),
        })
    }

    fn failed(&self, node: NodeId, e: GpuError) -> SessionError {
        failed(self.program.graph.node(node), e.into())
    }

    /// That every variable has a value where it is used.
    fn check_variables(&self, segment: &Segment, commands: &Commands) -> Result<(), SessionError> {
        for (at, access) in segment.variables.iter().enumerate() {
            let variable = &commands.variables[access.variable];
            let before = &segment.variables[..at];
            let made = |a: &crate::plan::gpu::Access| a.assigns && a.variable == access.variable;
            let has = variable.resident().is_some_and(|r| r.is_initialized());
            if !access.assigns && !has && !before.iter().any(made) {
                let node = self.program.graph.node(access.node);
                return Err(failed(node, variable.uninitialized()));
            }
        }
        Ok(())
    }

    /// Hands works over one after the other, waits for each, and does what the step was asked to
    /// watch.
    fn one_by_one(&self, gpu: &Gpu, number: usize) -> Result<(), SessionError> {
        let Some((_, queued, commands)) = self.queue() else {
            return Ok(());
        };
        let segment = &commands.segments[number];
        let commands_of = &queued.segments[number].0;
        let mut made = segment.made.iter().peekable();
        for at in 0..=commands_of.len() {
            while let Some(output) = made.next_if(|m| m.after <= at) {
                if self.step.watch.check_finite {
                    self.check_made(gpu, queued, commands, output)?;
                }
            }
            let Some(command) = commands_of.get(at) else {
                break;
            };
            let node = segment.works[at].node;
            let start = Instant::now();
            submit(gpu, command)
                .and_then(|()| gpu.wait())
                .map_err(|e| self.failed(node, e))?;
            if let Some(recorder) = self.step.watch.recorder {
                let node = self.program.graph.node(node);
                recorder.command(node, self.device.name(), command, start);
            }
        }
        Ok(())
    }

    fn check_made(
        &self,
        gpu: &Gpu,
        queued: &Queued,
        commands: &Commands,
        made: &Made,
    ) -> Result<(), SessionError> {
        let bytes = made.len * made.dtype.size();
        let host = gpu.allocate_host(bytes).map_err(|e| self.on_gpu(e))?;
        let command = Command::CopyOut {
            from: queued.address(made.place, commands),
            to: host.as_ptr() as usize,
            bytes,
        };
        if bytes == 0 {
            return Ok(());
        }
        submit(gpu, &command)
            .and_then(|()| gpu.wait())
            .map_err(|e| self.on_gpu(e))?;
        let slot = Slot {
            ptr: host.as_ptr(),
            len: made.len,
            dtype: made.dtype,
        };
        match first_not_finite(slot) {
            None => Ok(()),
            Some((element, value)) => {
                let node = self.program.graph.node(made.output.node);
                Err(SessionError::NotFinite {
                    node: node.name.clone(),
                    op: node.op.name.to_owned(),
                    origin: node.origin.clone(),
                    index: made.output.index as usize,
                    element,
                    value,
                })
            }
        }
    }
}

/// Hands over a command of a frame.
fn submit(gpu: &Gpu, command: &Command) -> Result<(), GpuError> {
    // SAFETY: commands name the frame's own memory, and variables and counters that the plan
    // holds; all of it lives until the step has waited for the queue, and the plan gives it to one
    // work at a time.
    unsafe { gpu.submit(command) }
}
