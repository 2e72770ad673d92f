//! Running a plan: in sequence on one thread, or as instructions become ready on several.

use std::any::Any;
use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use thalweg_device::{Argument, Cpu, Environment, KernelCx, KernelError, Slot, Variable, evaluate};
use thalweg_graph::{DType, Node, Tensor, dispatch};

use crate::error::SessionError;
use crate::frame::Frame;
use crate::plan::{Action, Instruction, NO_SLOT, Plan};
use crate::trace::Recorder;

/// What a step is asked for beside its fetches.
#[derive(Clone, Copy, Default)]
pub(crate) struct Watch<'a> {
    pub(crate) timeout: Option<Duration>,
    pub(crate) check_finite: bool,
    pub(crate) recorder: Option<&'a Recorder>,
}

impl Watch<'_> {
    fn is_idle(&self) -> bool {
        self.timeout.is_none() && !self.check_finite && self.recorder.is_none()
    }
}

/// Nanoseconds of work below which a step runs on the calling thread alone: waking another one
/// takes as long.
const WORTH_THREADS: u64 = 50_000;

pub(crate) struct Step<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) frame: &'a Frame,
    pub(crate) cpu: &'a Cpu,
    pub(crate) watch: Watch<'a>,
}

impl Step<'_> {
    /// Runs all instructions.
    pub(crate) fn run(&self) -> Result<(), SessionError> {
        // A limit beyond what the clock can tell is none.
        let deadline = self
            .watch
            .timeout
            .and_then(|t| Instant::now().checked_add(t));
        let threads = self.cpu.pool().threads();
        // The first value that is not finite is the first of the sequence.
        if threads == 1 || self.plan.cost < WORTH_THREADS || self.watch.check_finite {
            self.in_sequence(deadline)
        } else {
            self.in_parallel(threads, deadline)
        }
    }

    fn in_sequence(&self, deadline: Option<Instant>) -> Result<(), SessionError> {
        let mut at = 0;
        let watched = !self.watch.is_idle();
        let result = catch_unwind(AssertUnwindSafe(|| {
            while (at as usize) < self.plan.len() {
                if watched {
                    self.watched(at, deadline)?;
                } else {
                    self.instruction(at).map_err(|e| self.error(at, e))?;
                }
                at += 1;
            }
            Ok(())
        }));
        result.unwrap_or_else(|panic| Err(self.panicked(at, &*panic)))
    }

    fn in_parallel(&self, threads: usize, deadline: Option<Instant>) -> Result<(), SessionError> {
        let first_error: Mutex<Option<(u32, SessionError)>> = Mutex::new(None);
        self.cpu
            .pool()
            .run_roots(threads, &|_| self.work(deadline, &first_error));
        let error = first_error
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        error.map_or(Ok(()), |(_, e)| Err(e))
    }

    /// One thread's part of a step.
    fn work(&self, deadline: Option<Instant>, first_error: &Mutex<Option<(u32, SessionError)>>) {
        let (frame, pool) = (self.frame, self.cpu.pool());
        let over =
            || frame.remaining.load(Ordering::Acquire) == 0 || frame.stop.load(Ordering::Acquire);
        let mut next = None;
        loop {
            if over() {
                return;
            }
            let Some(at) = next.take().or_else(|| self.take_ready()) else {
                pool.wait_until(&|| over() || frame.ready_count.load(Ordering::Acquire) > 0);
                continue;
            };
            let result = catch_unwind(AssertUnwindSafe(|| self.watched(at, deadline)))
                .unwrap_or_else(|panic| Err(self.panicked(at, &*panic)));
            if let Err(error) = result {
                let mut first = first_error.lock().unwrap_or_else(PoisonError::into_inner);
                if first.as_ref().is_none_or(|(i, _)| at < *i) {
                    *first = Some((at, error));
                }
                drop(first);
                frame.stop.store(true, Ordering::Release);
                pool.notify();
                return;
            }
            next = self.finished(at);
            if frame.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
                pool.notify();
                return;
            }
        }
    }

    fn take_ready(&self) -> Option<u32> {
        if self.frame.ready_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut ready = self
            .frame
            .ready
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Reverse(at) = ready.pop()?;
        self.frame.ready_count.fetch_sub(1, Ordering::AcqRel);
        Some(at)
    }

    /// Tells those that wait for an instruction that it has run; gives one that is now ready, the
    /// others go to whoever is free.
    fn finished(&self, at: u32) -> Option<u32> {
        let mut own: Option<u32> = None;
        let mut shared = 0;
        for &dependent in self.plan.dependents.of(at) {
            if self.frame.pending[dependent as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
                // The one earliest in the sequence is run here: its inputs are in this cache.
                let give = match own {
                    Some(o) if o < dependent => dependent,
                    _ => match own.replace(dependent) {
                        Some(o) => o,
                        None => continue,
                    },
                };
                let mut ready = self
                    .frame
                    .ready
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                ready.push(Reverse(give));
                self.frame.ready_count.fetch_add(1, Ordering::AcqRel);
                shared += 1;
            }
        }
        if shared > 0 {
            self.cpu.pool().notify();
        }
        own
    }

    /// Runs an instruction and looks after what the step was asked to watch.
    fn watched(&self, at: u32, deadline: Option<Instant>) -> Result<(), SessionError> {
        if let (Some(deadline), Some(limit)) = (deadline, self.watch.timeout)
            && Instant::now() >= deadline
        {
            let next = self.plan.node(at).name.clone();
            return Err(SessionError::Timeout { limit, next });
        }
        let start = self.watch.recorder.map(|_| Instant::now());
        self.instruction(at).map_err(|e| self.error(at, e))?;
        if let (Some(recorder), Some(start)) = (self.watch.recorder, start) {
            recorder.add(self.plan, at, start);
        }
        if self.watch.check_finite {
            self.check_finite(at)?;
        }
        Ok(())
    }

    fn instruction(&self, at: u32) -> Result<(), KernelError> {
        let instruction = &self.plan.instructions[at as usize];
        for &slot in &instruction.release {
            // SAFETY: the plan lets this instruction wait for all who use the slot.
            unsafe { self.frame.hold(slot, None) };
        }
        let environment = Environment {
            cpu: self.cpu,
            stop: &self.frame.stop,
        };
        match &instruction.action {
            Action::Run { run, scratch } => {
                let variables: SmallVec<[Option<&Variable>; 10]> =
                    instruction.variables.iter().map(Option::as_deref).collect();
                // SAFETY: the plan gives each output memory that nobody else uses until its last
                // use, but for an input that the kernel may share; this instruction waits for
                // those that filled its inputs and for those that used the memory before. Slots
                // with known lengths are filled before they are read.
                let cx = unsafe {
                    KernelCx::new(
                        environment,
                        self.slots(&instruction.inputs),
                        self.slots(&instruction.outputs),
                        &variables,
                        instruction.counter.as_deref(),
                        self.frame.scratch(*scratch),
                    )
                };
                run(&cx)
            }
            Action::Read { shape } => {
                let variable = variable(instruction)?;
                let value = variable.read()?;
                if value.dtype() != variable.dtype() || !shape.admits(value.dims()) {
                    return Err(KernelError::Variable {
                        variable: variable.name().to_owned(),
                        expected_dtype: variable.dtype(),
                        expected: shape.clone(),
                        found_dtype: value.dtype(),
                        found: value.shape(),
                    });
                }
                // SAFETY: this instruction fills the slot.
                unsafe { self.frame.hold(instruction.outputs[0], Some(value)) };
                Ok(())
            }
            Action::Late { op, node } => self.late(environment, instruction, op, node),
        }
    }

    /// Where some slots are.
    ///
    /// # Safety
    /// As [`Frame::slot`], for each.
    unsafe fn slots<A: smallvec::Array<Item = Slot>>(&self, slots: &[u32]) -> SmallVec<A> {
        let place = |&s: &u32| match s {
            NO_SLOT => Slot::empty(DType::Resource),
            // SAFETY: by the caller's promise.
            s => unsafe { self.frame.slot(s) },
        };
        slots.iter().map(place).collect()
    }

    /// Runs a node whose shapes or host values are known only now, on tensors of its own.
    fn late(
        &self,
        environment: Environment<'_>,
        instruction: &Instruction,
        op: &'static thalweg_device::Op,
        node: &Node,
    ) -> Result<(), KernelError> {
        let mut tensors: SmallVec<[Option<Tensor>; 4]> = SmallVec::new();
        for (i, &slot) in instruction.inputs.iter().enumerate() {
            tensors.push(match slot {
                NO_SLOT => None,
                slot => Some(self.value(slot, node.inputs.get(i).copied())?),
            });
        }
        let mut arguments: SmallVec<[Argument<'_>; 4]> = SmallVec::new();
        for (i, tensor) in tensors.iter().enumerate() {
            let variable = instruction.variables.get(i).and_then(Option::as_deref);
            arguments.push(match (tensor, variable) {
                (Some(t), _) => Argument::Value(t),
                (None, Some(v)) => Argument::Variable(v),
                (None, None) => return Err(KernelError::Argument("an input")),
            });
        }
        let counter = instruction.counter.as_deref();
        let outputs = evaluate(environment, op, node, &arguments, counter)?;
        for (&slot, tensor) in instruction.outputs.iter().zip(outputs) {
            // SAFETY: this instruction fills the slot.
            unsafe { self.frame.hold(slot, Some(tensor)) };
        }
        Ok(())
    }

    /// The value of a slot as a tensor: shared where it is held, copied from the arena.
    fn value(
        &self,
        slot: u32,
        output: Option<thalweg_graph::OutputId>,
    ) -> Result<Tensor, KernelError> {
        let dims = output.and_then(|o| self.plan.graph.fact(o)?.shape.to_dims());
        self.tensor(slot, dims.as_deref())
    }

    /// The value of a slot with these dimensions, or with those of the tensor that it holds.
    pub(crate) fn tensor(&self, slot: u32, dims: Option<&[usize]>) -> Result<Tensor, KernelError> {
        use crate::plan::Home;
        // SAFETY: called by an instruction that waits for the one that fills the slot, or when the
        // step is over.
        let (place, held) = unsafe { (self.frame.slot(slot), self.frame.held(slot)) };
        let shared = match &self.plan.slots[slot as usize].home {
            Home::Constant(t) => Some(t),
            _ => held,
        };
        match (shared, dims) {
            (Some(t), Some(dims)) => Ok(t.reshaped(dims)?),
            (Some(t), None) => Ok(t.clone()),
            (None, Some(dims)) => {
                let mut tensor = Tensor::zeros(place.dtype, dims)?;
                copy(place, &mut tensor)?;
                Ok(tensor)
            }
            (None, None) => Err(KernelError::Argument("a value")),
        }
    }

    fn error(&self, at: u32, source: KernelError) -> SessionError {
        let node = self.plan.node(at);
        SessionError::Kernel {
            node: node.name.clone(),
            op: node.op.name.to_owned(),
            origin: node.origin.clone(),
            source,
        }
    }

    fn panicked(&self, at: u32, panic: &(dyn Any + Send)) -> SessionError {
        let node = self.plan.node(at);
        let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
        let message = text.or_else(|| panic.downcast_ref::<String>().cloned());
        SessionError::Panicked {
            node: node.name.clone(),
            op: node.op.name.to_owned(),
            origin: node.origin.clone(),
            message: message.unwrap_or_default(),
        }
    }

    fn check_finite(&self, at: u32) -> Result<(), SessionError> {
        let instruction = &self.plan.instructions[at as usize];
        for (index, &slot) in instruction.outputs.iter().enumerate() {
            // SAFETY: this thread has just run the instruction that fills the slot.
            let place = unsafe { self.frame.slot(slot) };
            if let Some((element, value)) = first_not_finite(place) {
                let node = self.plan.node(at);
                return Err(SessionError::NotFinite {
                    node: node.name.clone(),
                    op: node.op.name.to_owned(),
                    origin: node.origin.clone(),
                    index,
                    element,
                    value,
                });
            }
        }
        Ok(())
    }
}

/// Copies a slot's elements into a tensor of the same dtype and length.
pub(crate) fn copy(slot: Slot, tensor: &mut Tensor) -> Result<(), KernelError> {
    dispatch!(slot.dtype, PLAIN, T => {
        let out = tensor.as_mut_slice::<T>()?;
        if out.len() != slot.len {
            return Err(KernelError::Argument("a value of this size"));
        }
        if slot.len > 0 {
            // SAFETY: a slot that is filled is valid for its elements, which are of its dtype; who
            // calls this waits for the one that fills it. The tensor is another allocation.
            out.copy_from_slice(unsafe { std::slice::from_raw_parts(slot.ptr.cast::<T>(), slot.len) });
        }
        Ok(())
    }, else Err(KernelError::DType(slot.dtype)))
}

fn first_not_finite(slot: Slot) -> Option<(usize, f64)> {
    fn find<T: Copy>(slot: Slot, value: impl Fn(T) -> f64) -> Option<(usize, f64)> {
        // SAFETY: as in `copy`.
        let all = unsafe { std::slice::from_raw_parts(slot.ptr.cast::<T>(), slot.len) };
        let values = all.iter().map(|&v| value(v)).enumerate();
        values.into_iter().find(|(_, v)| !v.is_finite())
    }
    if slot.len == 0 || slot.ptr.is_null() {
        return None;
    }
    match slot.dtype {
        DType::F16 => find(slot, half::f16::to_f64),
        DType::BF16 => find(slot, half::bf16::to_f64),
        DType::F32 => find(slot, |v: f32| f64::from(v)),
        DType::F64 => find(slot, |v: f64| v),
        _ => None,
    }
}

fn variable(instruction: &Instruction) -> Result<&Variable, KernelError> {
    let first = instruction.variables.first().and_then(Option::as_deref);
    first.ok_or(KernelError::Argument("a variable"))
}
