//! Running a plan: in sequence on one thread, or as instructions become ready on several.

mod instruction;
mod parallel;
mod results;
mod values;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use thalweg_device::{Cpu, ThreadPool};
use thalweg_graph::Node;

use crate::error::SessionError;
use crate::frame::Frame;
use crate::options::Cancel;
use crate::plan::Plan;
use crate::trace::Recorder;

pub(crate) use instruction::Run;
pub(crate) use values::copy;

/// What a step is asked for beside its fetches.
#[derive(Clone, Copy, Default)]
pub(crate) struct Watch<'a> {
    pub(crate) timeout: Option<Duration>,
    pub(crate) cancel: Option<&'a Cancel>,
    pub(crate) check_finite: bool,
    pub(crate) recorder: Option<&'a Recorder>,
}

impl Watch<'_> {
    fn is_idle(&self) -> bool {
        self.timeout.is_none()
            && self.cancel.is_none()
            && !self.check_finite
            && self.recorder.is_none()
    }
}

pub(crate) struct Step<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) frame: &'a Frame,
    pub(crate) devices: &'a [Cpu],
    /// A thread to lead each device; the calling one is one of them.
    pub(crate) leaders: &'a ThreadPool,
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
        // The first value that is not finite is the first of the sequence.
        if self.watch.check_finite || !self.plan.parallel {
            self.in_sequence(deadline)
        } else {
            self.in_parallel(deadline)
        }
    }

    /// One program of the step.
    pub(crate) fn run_of(&self, number: usize) -> Run<'_> {
        let program = &self.plan.programs[number];
        Run {
            step: self,
            program,
            part: &self.frame.parts[number],
            cpu: &self.devices[program.device],
        }
    }

    fn in_sequence(&self, deadline: Option<Instant>) -> Result<(), SessionError> {
        self.frame.rendezvous.clear();
        let watched = !self.watch.is_idle();
        let (mut number, mut at) = (0, 0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let mut starts: SmallVec<[u32; 8]> = SmallVec::from_elem(0, self.plan.programs.len());
            for &(program, end) in &self.plan.segments {
                number = program as usize;
                let run = self.run_of(number);
                at = std::mem::replace(&mut starts[number], end);
                while at < end {
                    if watched {
                        run.watched(at, deadline)?;
                    } else {
                        run.instruction(at).map_err(|e| run.error(at, e))?;
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

/// The error of a panic in a node's kernel.
pub(crate) fn panicked(node: &Node, panic: &(dyn Any + Send)) -> SessionError {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let message = text.or_else(|| panic.downcast_ref::<String>().cloned());
    SessionError::Panicked {
        node: node.name.clone(),
        op: node.op.name.to_owned(),
        origin: node.origin.clone(),
        message: message.unwrap_or_default(),
    }
}
