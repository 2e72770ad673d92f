//! The environment of kernels in a step: function calls, shared objects, tickets, files, collectives.

use std::sync::Arc;

use thalweg_device::{
    Collectives, Environment, Files, KernelError, SharedObject, Ticket, print_to_stderr,
};
use thalweg_graph::{Func, Node};
use thalweg_tensor::Tensor;

use super::ProgramRun;

/// The environment of one node's kernel.
pub(super) struct StepEnvironment<'a> {
    pub(super) run: &'a ProgramRun<'a>,
    pub(super) node: &'a Node,
}

impl Environment for StepEnvironment<'_> {
    fn call(
        &self,
        function: &Func,
        arguments: Vec<Tensor>,
        live: Option<&[i64]>,
    ) -> Result<Vec<Tensor>, KernelError> {
        self.run.call(self.node, function, arguments, live)
    }

    fn repeat(
        &self,
        condition: &Func,
        body: &Func,
        values: Vec<Tensor>,
        live: Option<&[i64]>,
    ) -> Result<Vec<Tensor>, KernelError> {
        self.run.repeat(self.node, (condition, body), values, live)
    }

    fn object(
        &self,
        container: &str,
        name: &str,
        make: &mut dyn FnMut() -> Result<SharedObject, KernelError>,
    ) -> Result<SharedObject, KernelError> {
        self.run.step.context.store.object(container, name, make)
    }

    fn session_object(
        &self,
        name: &str,
        make: &mut dyn FnMut() -> Result<SharedObject, KernelError>,
    ) -> Result<SharedObject, KernelError> {
        self.run.step.context.session.objects.get("", name, make)
    }

    fn device(&self) -> String {
        self.run.device.name().to_string()
    }

    fn keep(&self, object: SharedObject) {
        self.run.step.kept.add(object);
    }

    fn is_stopped(&self) -> bool {
        self.run.check_limits(self.node).is_err()
    }

    fn ticket(&self) -> Ticket {
        match self.run.waiting {
            Some((waiting, waiter)) => waiting.ticket(waiter, self.run.step.tickets),
            None => Ticket::new(0, || {}),
        }
    }

    fn on_abandon(&self, abandon: Box<dyn FnOnce() + Send>) {
        match self.run.waiting {
            Some((waiting, waiter)) => waiting.on_abandon(waiter, abandon),
            // It will not run again.
            None => abandon(),
        }
    }

    fn print(&self, line: &str) {
        match self.run.step.context.printer {
            Some(printer) => printer(line),
            None => print_to_stderr(line),
        }
    }

    fn files(&self) -> &Files {
        self.run.step.context.files
    }

    fn collectives(&self) -> Option<&Arc<dyn Collectives>> {
        self.run.step.context.collectives
    }
}
