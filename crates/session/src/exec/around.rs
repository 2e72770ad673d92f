//! What a step offers to its kernels beside their arguments.

use thalweg_device::{Environment, KernelError, Thing, Ticket};
use thalweg_graph::{Func, Node};
use thalweg_tensor::Tensor;

use super::Run;
use crate::exchange::Exchange;

/// The step around an instruction.
pub(super) struct Around<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) node: &'a Node,
}

impl Around<'_> {
    fn exchange(&self) -> Result<&dyn Exchange, KernelError> {
        let alone = || KernelError::Invalid("no other task takes part in the step".to_owned());
        self.run.step.watch.exchange.ok_or_else(alone)
    }
}

impl Environment for Around<'_> {
    fn call(&self, function: &Func, arguments: Vec<Tensor>) -> Result<Vec<Tensor>, KernelError> {
        self.run.call(self.node, function, arguments)
    }

    fn thing(
        &self,
        container: &str,
        name: &str,
        make: &mut dyn FnMut() -> Result<Thing, KernelError>,
    ) -> Result<Thing, KernelError> {
        self.run.step.workshop.store.thing(container, name, make)
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
            // Nobody will run it again.
            None => abandon(),
        }
    }

    fn print(&self, line: &str) {
        eprintln!("{line}");
    }

    fn send(&self, channel: i64, value: Tensor) -> Result<(), KernelError> {
        self.exchange()?.send(channel, value)
    }

    fn receive(&self, channel: i64) -> Result<Tensor, KernelError> {
        let value = self.exchange()?.receive(channel, &self.ticket())?;
        value.ok_or(KernelError::Blocked)
    }
}
