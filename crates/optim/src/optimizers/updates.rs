//! Updates: builds the nodes of the updates of an optimizer.

use thalweg_graph::{Graph, NodeBuilder, Operation, Output};
use thalweg_ops::{StateOps, Variable};
use thalweg_tensor::DType;

use crate::rate::Rate;
use crate::slots::{filled, slot};

/// The updates of one [`Optimizer::apply_gradients`](super::Optimizer::apply_gradients).
pub struct Updates<'g> {
    graph: &'g Graph,
    /// Rates that are built already: most models have one dtype, and share them.
    rates: Vec<(&'static str, DType, Output<'g>)>,
}

impl<'g> Updates<'g> {
    pub(super) fn new(graph: &'g Graph) -> Updates<'g> {
        Updates {
            graph,
            rates: Vec::new(),
        }
    }

    /// The graph to build in.
    pub fn graph(&self) -> &'g Graph {
        self.graph
    }

    /// Builds `rate` in the dtype of `variable`; the same output for all variables of a dtype.
    #[track_caller]
    pub fn rate(
        &mut self,
        name: &'static str,
        rate: Rate<'g>,
        variable: Variable<'g>,
    ) -> Output<'g> {
        let dtype = variable.value().dtype();
        let known = self.rates.iter().find(|r| (r.0, r.1) == (name, dtype));
        if let Some(&(_, _, output)) = known {
            return output;
        }
        let output = rate.on(self.graph, name, dtype);
        self.rates.push((name, dtype, output));
        output
    }

    /// Builds a slot of `variable`: an untrained variable of its dtype and shape, called `variable/name`, that starts
    /// with `fill` everywhere, on the variable's device.
    #[track_caller]
    pub fn slot(&self, variable: Variable<'g>, name: &str, fill: f64) -> Variable<'g> {
        slot(variable, name, |like| filled(self.graph, like, fill))
    }

    /// Starts the node of `op` that updates `variable`, which is its first input.
    #[track_caller]
    pub fn node(&self, op: &str, variable: Variable<'g>) -> NodeBuilder<'g> {
        let name = format!("update_{}/{op}", variable.handle().operation().name());
        self.graph.op(op).name(&name).input(variable.handle())
    }

    /// Runs `build` in a name scope for the update of `variable`, on the variable's device: for updates of several
    /// nodes.
    #[track_caller]
    pub fn colocate<R>(&self, variable: Variable<'g>, build: impl FnOnce() -> R) -> R {
        let scope = format!("update_{}", variable.handle().operation().name());
        self.graph.name_scope(&scope, || variable.colocate(build))
    }
}

/// Builds a number that changes in each step and that the updates of all variables share, such as the power of a beta:
/// an untrained `f32` variable beside `first`. It is at the root of the names, as in TensorFlow's checkpoints.
#[track_caller]
pub(super) fn power<'g>(first: Variable<'g>, name: &str, initial: f32) -> Variable<'g> {
    let graph = first.handle().graph();
    let make = || first.colocate(|| graph.untrained_variable(name, initial));
    graph.name_scope("/", make)
}

/// Multiplies a [`power`] by `base`. Other computations of the step use its old value.
#[track_caller]
pub(super) fn raise<'g>(power: Variable<'g>, base: f32) -> Operation<'g> {
    power.colocate(|| power.assign(power * f64::from(base)))
}
