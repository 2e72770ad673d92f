//! Host side of a GPU program's instructions: staging, submitting, capturing, waiting, checking.

use std::time::{Duration, Instant};

use thalweg_device::gpu::{Command, Gpu, GpuError, Graph};
use thalweg_device::{KernelError, Slot};
use thalweg_graph::{Node, NodeId};

use super::ProgramRun;
use super::values::first_not_finite;
use thalweg_plan::SessionError;
use thalweg_plan::gpu_program::{Commands, Made, NodeCommand, STATUS_BYTES, Segment};
use thalweg_plan::{Action, Home, failed};
use thalweg_tensor::sync::Unpoisoned;

use crate::gpu_frame::{GpuFrame, submit};

/// A wait for other ranks spins for [`SPIN_TIME`]; from then on it sleeps [`SLEEP_TIME`] between two polls.
const SPIN_TIME: Duration = Duration::from_micros(200);
const SLEEP_TIME: Duration = Duration::from_micros(50);

impl<'a> ProgramRun<'a> {
    /// Returns the GPU of this program with its memory and commands.
    fn queue(&self) -> Option<(&'a Gpu, &'a GpuFrame, &'a Commands)> {
        let commands = self.program.gpu.as_ref()?;
        Some((self.device.gpu()?, self.part.gpu_frame.as_ref()?, commands))
    }

    fn on_gpu(&self, e: GpuError) -> SessionError {
        SessionError::Device {
            device: self.device.name().clone(),
            source: e,
        }
    }

    /// Runs an instruction of a GPU's program, but for one that a loop runs.
    pub(super) fn queued(&self, at: u32) -> Result<(), SessionError> {
        let loops = self.program.gpu.as_ref().map_or(&[][..], |gpu| &gpu.loops);
        let before = loops.partition_point(|&(first, _)| first < at);
        match before.checked_sub(1).map(|last| loops[last]) {
            Some((_, last)) if at <= last => Ok(()),
            _ => self.run_queued(at),
        }
    }

    fn run_queued(&self, at: u32) -> Result<(), SessionError> {
        if self.is_left_out(at) {
            return Ok(());
        }
        match self.program.instructions[at as usize].action {
            Action::Stage => {
                self.stage();
                Ok(())
            }
            Action::Segment(number) => self.segment(number),
            Action::Check(number) => self.check(number),
            Action::IsInitialized { variable, staged } => {
                self.is_initialized(variable, staged);
                Ok(())
            }
            Action::Wait => self.wait(),
            Action::Loop { staged, last } => self.run_loop(at, staged, last),
            _ => Ok(()),
        }
    }

    /// Runs the instructions of a loop until its condition is false.
    fn run_loop(&self, at: u32, staged: usize, last: u32) -> Result<(), SessionError> {
        loop {
            let mut next = at + 1;
            while next <= last {
                self.run_queued(next)?;
                next = match self.program.instructions[next as usize].action {
                    // It has run its own.
                    Action::Loop { last, .. } => last + 1,
                    _ => next + 1,
                };
            }
            if !self.is_true(staged) {
                return Ok(());
            }
            self.check_limits(self.program.node(at))?;
        }
    }

    /// The value of a condition, which has been waited for.
    fn is_true(&self, staged: usize) -> bool {
        let Some((_, gpu_frame, _)) = self.queue() else {
            return false;
        };
        // SAFETY: a byte within the staging memory, which the queue has written.
        unsafe { gpu_frame.staged(staged).read() != 0 }
    }

    /// `true` for an instruction that the conditions of this step leave out. They have been waited for.
    fn is_left_out(&self, at: u32) -> bool {
        let guards = self
            .program
            .gpu
            .as_ref()
            .and_then(|gpu| gpu.guards.get(&at));
        // The condition of an inner function is there only where the outer one runs.
        guards.is_some_and(|guards| {
            let mut guards = guards.iter();
            guards.any(|guard| self.is_true(guard.staged) != guard.runs_if)
        })
    }

    /// Copies feeds into the staging memory that the GPU copies from.
    pub(super) fn stage(&self) {
        let Some((_, gpu_frame, commands)) = self.queue() else {
            return;
        };
        for &(slot, offset) in &commands.feeds {
            // SAFETY: feeds are held from before the step; the plan gives each its own room in the
            // staging memory, which the queue does not use before the segment that follows.
            unsafe {
                let from = self.part.slot(slot);
                let bytes = from.len * from.dtype.size();
                if bytes > 0 {
                    std::ptr::copy_nonoverlapping(from.ptr, gpu_frame.staged(offset), bytes);
                }
            }
        }
    }

    /// Copies a value from this program's GPU to another's, where the slots are both in GPUs' memory; returns `false`
    /// where they are not. The queue has run it when this returns, and the value's memory may be used again.
    pub(super) fn copy_between(
        &self,
        node: NodeId,
        from: u32,
        there: &ProgramRun<'_>,
        to: u32,
    ) -> Result<bool, KernelError> {
        let home = |run: &ProgramRun<'_>, slot: u32| match run.program.slots[slot as usize].home {
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
            self.wait_for(own.0)?;
            if let Some(recorder) = self.step.controls.recorder {
                let node = self.program.graph.node(node);
                recorder.between(node, self.device.name(), bytes, start);
            }
        }
        Ok(true)
    }

    /// Writes whether a variable has a value, counting the assignments that were submitted.
    pub(super) fn is_initialized(&self, variable: usize, staged: usize) {
        if let Some((_, gpu_frame, commands)) = self.queue() {
            let resident = commands.variables[variable].resident();
            let has = resident.is_some_and(|r| r.is_initialized());
            // SAFETY: the plan gives it a byte of the staging memory of its own, which the queue
            // reads only after this.
            unsafe { gpu_frame.staged(staged).write(u8::from(has)) };
        }
    }

    /// Waits until all submitted commands have run, so that the host may read what they wrote.
    pub(super) fn wait(&self) -> Result<(), SessionError> {
        let Some((gpu, _, commands)) = self.queue() else {
            return Ok(());
        };
        self.wait_for(gpu).map_err(|e| match (e, commands.first) {
            (KernelError::Gpu(e), _) => self.on_gpu(e),
            (e, Some((_, first))) => self.error_of(self.program.graph.node(first), e),
            (_, None) => self.on_gpu(GpuError::NoCommunicators),
        })
    }

    /// As [`ProgramRun::wait`]. A wait for the GPUs of other ranks ends where the step does, and where a rank was lost.
    pub(super) fn wait_for(&self, gpu: &Gpu) -> Result<(), KernelError> {
        let first = self.queue().and_then(|(_, _, commands)| commands.first);
        let ranks = self.step.context.collectives.and_then(|r| r.for_gpus());
        let (Some((set, first)), Some(ranks)) = (first, ranks) else {
            return Ok(gpu.wait()?);
        };
        let first = self.program.graph.node(first);
        let began = Instant::now();
        let waited = loop {
            match gpu.has_run() {
                Ok(true) => break Ok(()),
                Ok(false) => {}
                Err(e) => break Err(e.into()),
            }
            if began.elapsed() < SPIN_TIME {
                std::hint::spin_loop();
                continue;
            }
            if self.check_limits(first).is_err() {
                break Err(KernelError::Stopped);
            }
            if let Err(e) = ranks.waits(Some((set, &first.name))) {
                break Err(e);
            }
            std::thread::sleep(SLEEP_TIME);
        };
        ranks.waits(None).and(waited)
    }

    /// Waits until all submitted commands have run, after an error of the step. Collectives that wait for other ranks
    /// end, and the job with them.
    pub(super) fn drain(&self, error: &SessionError) {
        let Some((gpu, gpu_frame, commands)) = self.queue() else {
            return;
        };
        let ranks = self.step.context.collectives.and_then(|r| r.for_gpus());
        if let (Some(ranks), Some((_, first))) = (ranks, commands.first) {
            let first = &self.program.graph.node(first).name;
            ranks.abandon(&format!("the step of '{first}' ended: {error}"));
            gpu_frame.communicators.iter().for_each(|c| c.abort());
        }
        let _ = gpu.wait();
    }

    /// Waits, and checks that kernels have accepted all elements so far.
    pub(super) fn check(&self, number: usize) -> Result<(), SessionError> {
        self.wait()?;
        let Some((_, gpu_frame, commands)) = self.queue() else {
            return Ok(());
        };
        let check = &commands.checks[number];
        let watched = &commands.watched[check.first..check.last];
        for (number, watched) in watched.iter().enumerate() {
            let at = gpu_frame.staged(check.staged + number * STATUS_BYTES);
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

    /// Submits a segment to the GPU.
    pub(super) fn segment(&self, number: usize) -> Result<(), SessionError> {
        let Some((gpu, gpu_frame, commands)) = self.queue() else {
            return Ok(());
        };
        let segment = &commands.segments[number];
        let (list, graph) = &gpu_frame.segments[number];
        let mut graph = graph.lock().unpoisoned();
        let observed = self.step.controls.recorder.is_some() || self.step.controls.check_finite;
        if let Some(graph) = graph.as_ref().filter(|_| !observed) {
            // Variables that had values when it was captured have values now.
            submit(gpu, &graph.replay()).map_err(|e| self.on_gpu(e))?;
        } else {
            self.check_variables(segment, commands)?;
            if observed {
                self.one_by_one(gpu, number)?;
            } else if self.step.replay && !list.is_empty() {
                let captured = self.captured(gpu, number)?;
                submit(gpu, &captured.replay()).map_err(|e| self.on_gpu(e))?;
                *graph = Some(captured);
            } else {
                for (command, work) in list.iter().zip(&segment.commands) {
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

    /// Captures the commands of a segment as one graph.
    fn captured(&self, gpu: &Gpu, number: usize) -> Result<Graph, SessionError> {
        let Some((_, gpu_frame, commands)) = self.queue() else {
            return Err(self.on_gpu(GpuError::NoCard));
        };
        let list = &gpu_frame.segments[number].0;
        let mut at = 0;
        let captured = gpu.capture(|| {
            list.iter().try_for_each(|c| {
                submit(gpu, c)?;
                at += 1;
                Ok(())
            })
        });
        captured.map_err(|e| match commands.segments[number].commands.get(at) {
            Some(work) => self.failed(work.node, e),
            None => self.on_gpu(e),
        })
    }

    fn failed(&self, node: NodeId, e: GpuError) -> SessionError {
        failed(self.program.graph.node(node), e.into())
    }

    /// Checks that every variable has a value where it is used.
    fn check_variables(&self, segment: &Segment, commands: &Commands) -> Result<(), SessionError> {
        for (at, access) in segment.variables.iter().enumerate() {
            let variable = &commands.variables[access.variable];
            let before = &segment.variables[..at];
            let made =
                |a: &thalweg_plan::gpu_program::Access| a.assigns && a.variable == access.variable;
            let has = variable.resident().is_some_and(|r| r.is_initialized());
            if !access.assigns && !has && !before.iter().any(made) {
                let node = self.program.graph.node(access.node);
                return Err(failed(node, variable.uninitialized()));
            }
        }
        Ok(())
    }

    /// Submits commands one after the other, waits for each, and records or checks it as the step's options ask.
    fn one_by_one(&self, gpu: &Gpu, number: usize) -> Result<(), SessionError> {
        let Some((_, gpu_frame, commands)) = self.queue() else {
            return Ok(());
        };
        let segment = &commands.segments[number];
        let commands_of = &gpu_frame.segments[number].0;
        let mut made = segment.made.iter().peekable();
        for at in 0..=commands_of.len() {
            while let Some(output) = made.next_if(|m| m.after <= at) {
                if self.step.controls.check_finite {
                    self.check_made(gpu, gpu_frame, commands, output)?;
                }
            }
            let Some(command) = commands_of.get(at) else {
                break;
            };
            let NodeCommand { node, others, .. } = &segment.commands[at];
            let start = Instant::now();
            submit(gpu, command).map_err(|e| self.failed(*node, e))?;
            self.wait()?;
            if let Some(recorder) = self.step.controls.recorder {
                let graph = &self.program.graph;
                let others: Vec<&Node> = others.iter().map(|&n| &**graph.node(n)).collect();
                let device = self.device.name();
                recorder.command(graph.node(*node), &others, device, command, start);
            }
        }
        Ok(())
    }

    fn check_made(
        &self,
        gpu: &Gpu,
        gpu_frame: &GpuFrame,
        commands: &Commands,
        made: &Made,
    ) -> Result<(), SessionError> {
        let bytes = made.len * made.dtype.size();
        let host = gpu.allocate_host(bytes).map_err(|e| self.on_gpu(e))?;
        let command = Command::CopyOut {
            from: gpu_frame.address(made.place, commands),
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
            ..Slot::empty(made.dtype)
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
