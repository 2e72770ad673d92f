//! What a step offers to its kernels beside their arguments.

use thalweg_device::{Environment, KernelError, Thing, Waker};
use thalweg_graph::{Func, Tensor};

use super::Run;

/// The step around an instruction.
pub(super) struct Around<'a> {
    pub(super) run: &'a Run<'a>,
}

impl Environment for Around<'_> {
    fn call(&self, function: &Func, arguments: Vec<Tensor>) -> Result<Vec<Tensor>, KernelError> {
        self.run.call(function, arguments)
    }

    fn thing(
        &self,
        container: &str,
        name: &str,
        make: &mut dyn FnMut() -> Result<Thing, KernelError>,
    ) -> Result<Thing, KernelError> {
        self.run.step.workshop.store.thing(container, name, make)
    }

    fn waker(&self) -> Waker {
        Waker::new(|| {})
    }

    fn print(&self, line: &str) {
        eprintln!("{line}");
    }
}
