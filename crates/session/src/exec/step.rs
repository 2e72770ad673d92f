//! A step in flight: its plan, frame and controls, and how its instructions are run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use thalweg_cpu::ThreadPool;
use thalweg_device::{Device, KernelError, SharedObject};
use thalweg_tensor::Memory;
use thalweg_tensor::sync::Unpoisoned;

use super::waiting::Tickets;
use crate::compiled_step::{CallKey, CompiledStep};
use crate::frame::Frame;
use crate::run_options::Cancel;
use crate::task_channels::{Parker, TaskChannels};
use crate::trace::Recorder;
use thalweg_plan::PlanCache;
use thalweg_plan::SessionError;
use thalweg_plan::panicked;
use thalweg_plan::{Plan, PlanContext};

/// Options of a step in flight: timeout, cancellation, trace, checks, channels to other tasks.
#[derive(Clone, Copy, Default)]
pub(crate) struct StepControls<'a> {
    pub(crate) timeout: Option<Duration>,
    pub(crate) cancel: Option<&'a Cancel>,
    pub(crate) check_finite: bool,
    pub(crate) recorder: Option<&'a Recorder>,
    /// Channels to the other tasks of the step.
    pub(crate) channels: Option<&'a dyn TaskChannels>,
    /// `true` if the step has entered the gates of all its variables.
    pub(crate) entered_gates: bool,
}

impl StepControls<'_> {
    pub(super) fn is_idle(&self) -> bool {
        self.timeout.is_none()
            && self.cancel.is_none()
            && !self.check_finite
            && self.recorder.is_none()
    }
}

/// The objects that a step keeps until it ends: those behind handles that a stack, an array or a queue holds.
#[derive(Default)]
pub(crate) struct KeptObjects(Mutex<Vec<SharedObject>>);

impl KeptObjects {
    /// Keeps an object; one that a loop gives again and again is kept once.
    pub(super) fn add(&self, object: SharedObject) {
        let mut all = self.0.lock().unpoisoned();
        if !all.last().is_some_and(|last| Arc::ptr_eq(last, &object)) {
            all.push(object);
        }
    }
}

pub(crate) struct Step<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) frame: &'a Frame,
    pub(crate) devices: &'a [Device],
    pub(crate) context: PlanContext<'a>,
    /// The compiled functions.
    pub(crate) calls: &'a PlanCache<CallKey, CompiledStep>,
    /// The account of their plans.
    pub(crate) plan_memory: Option<&'a Arc<Memory>>,
    pub(crate) tickets: &'a Tickets,
    pub(crate) kept: &'a KeptObjects,
    /// Number of enclosing function calls; 0 for a step itself.
    pub(crate) depth: usize,
    /// A thread to lead each device; the calling one is one of them.
    pub(crate) leaders: &'a ThreadPool,
    pub(crate) controls: StepControls<'a>,
    /// Time at which the step has to be over.
    pub(crate) deadline: Option<Instant>,
    /// `true` if GPU commands are captured and launched as one graph: a step before has made all that they need.
    pub(crate) replay: bool,
}

impl Step<'_> {
    /// Runs all instructions.
    pub(crate) fn run(&self) -> Result<(), SessionError> {
        // The first value that is not finite is the first of the sequence.
        let shared = self.plan.parallel && !self.controls.check_finite;
        let result = match shared || self.plan.waits {
            true => self.run_as_ready(shared),
            false => self.in_sequence(),
        };
        if let Err(error) = &result {
            for number in 0..self.plan.programs.len() {
                // Submitted commands use the frame, which is given back next. The first error is the one to return.
                self.program_run(number).drain(error);
            }
        }
        result
    }

    /// Channels to the other tasks of the step.
    pub(crate) fn channels(&self) -> Result<&dyn TaskChannels, KernelError> {
        let alone = || KernelError::Invalid("no other task takes part in the step".to_owned());
        self.controls.channels.ok_or_else(alone)
    }

    /// Parker of the step's thread while nothing can run; `None` where the thread sleeps.
    pub(crate) fn parker(&self) -> Option<Arc<dyn Parker>> {
        self.controls.channels.and_then(|e| e.parker())
    }

    fn in_sequence(&self) -> Result<(), SessionError> {
        self.frame.rendezvous.clear();
        let watched = !self.controls.is_idle();
        let (mut number, mut at) = (0, 0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let mut starts: SmallVec<[u32; 8]> = SmallVec::from_elem(0, self.plan.programs.len());
            for &(program, end) in &self.plan.segments {
                number = program as usize;
                let run = self.program_run(number);
                at = std::mem::replace(&mut starts[number], end);
                while at < end {
                    if watched {
                        run.run_with_controls(at)?;
                    } else {
                        run.instruction(at)?;
                    }
                    at += 1;
                }
            }
            Ok(())
        }));
        result.unwrap_or_else(|panic| {
            let node = self.plan.programs[number].node(at);
            Err(panicked(node, &*panic))
        })
    }
}
