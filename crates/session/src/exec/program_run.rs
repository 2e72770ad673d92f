//! One program of a step, while it runs.

use thalweg_device::{Cpu, Device};
use thalweg_plan::Program;

use super::step::Step;
use super::waiting::{WaiterId, Waiting};
use crate::frame::ProgramFrame;

/// One program of a step, while it runs.
#[derive(Clone, Copy)]
pub(crate) struct ProgramRun<'a> {
    pub(crate) step: &'a Step<'a>,
    pub(crate) program: &'a Program,
    pub(crate) part: &'a ProgramFrame,
    pub(crate) device: &'a Device,
    /// The device's own threads, or those of its host.
    pub(crate) cpu: &'a Cpu,
    /// Wait state of the node that this runs, if it may have to wait.
    pub(super) waiting: Option<(&'a Waiting, WaiterId)>,
}

impl<'a> ProgramRun<'a> {
    /// The same, for a node that may have to wait.
    pub(super) fn waiting(self, on: &'a Waiting, waiter: WaiterId) -> ProgramRun<'a> {
        ProgramRun {
            waiting: Some((on, waiter)),
            ..self
        }
    }
}

impl Step<'_> {
    /// Returns one program of the step.
    pub(crate) fn program_run(&self, number: usize) -> ProgramRun<'_> {
        let program = &self.plan.programs[number];
        let device = &self.devices[program.device];
        ProgramRun {
            step: self,
            program,
            part: &self.frame.parts[number],
            device,
            cpu: device.host(),
            waiting: None,
        }
    }
}
