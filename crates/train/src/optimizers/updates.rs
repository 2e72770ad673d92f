//! What optimizers build their updates with.

use thalweg_graph::output::scalar_of;
use thalweg_graph::{Fact, Graph, NodeBuilder, Output, Reason};
use thalweg_ops::{SourceOps, StateOps, Variable};
use thalweg_tensor::DType;

use crate::rate::Rate;

/// The updates of one [`Optimizer::apply_gradients`](super::Optimizer::apply_gradients).
pub struct Updates<'g> {
    graph: &'g Graph,
    /// The rates that exist already: most models have one dtype, and share them.
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

    /// `rate` in the dtype of `variable`; the same output for all variables of a dtype.
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

    /// A slot of `variable`: an untrained variable of its dtype and shape, called
    /// `variable/name`, that starts with `fill` everywhere and stands where the variable does.
    #[track_caller]
    pub fn slot(&self, variable: Variable<'g>, name: &str, fill: f64) -> Variable<'g> {
        let graph = self.graph;
        let value = variable.value();
        if value.is_invalid() {
            return variable;
        }
        let scope = format!("{}/", variable.handle().operation().name());
        let make = || {
            let initial = graph.name_scope(&format!("{name}/Initializer"), || {
                filled(graph, &value.fact(), fill)
            });
            graph.untrained_variable(name, initial)
        };
        graph.without_control_dependencies(|| graph.name_scope(&scope, || beside(variable, make)))
    }

    /// Starts the node of `op` that updates `variable`, which is its first input.
    #[track_caller]
    pub fn node(&self, op: &str, variable: Variable<'g>) -> NodeBuilder<'g> {
        let name = format!("update_{}/{op}", variable.handle().operation().name());
        self.graph.op(op).name(&name).input(variable.handle())
    }
}

/// Runs `build` so that what it makes stands where `variable` does.
#[track_caller]
pub(super) fn beside<'g, R>(variable: Variable<'g>, build: impl FnOnce() -> R) -> R {
    let handle = variable.handle();
    match handle.is_invalid() {
        true => build(),
        false => handle.graph().colocate_with(handle.operation(), build),
    }
}

/// A tensor like `fact` that is `fill` everywhere. It is filled when it is asked for: a constant of
/// a variable's size would lie in the graph besides the variable.
#[track_caller]
fn filled<'g>(graph: &'g Graph, fact: &Fact, fill: f64) -> Output<'g> {
    let dims = fact.shape.to_dims().and_then(|dims| {
        let dims = dims.iter().map(|&d| i64::try_from(d).ok());
        dims.collect::<Option<Vec<i64>>>()
    });
    let (Some(dims), Some(fill)) = (dims, scalar_of(fact.dtype, fill)) else {
        let text = format!("no {fact} tensor of {fill} can be made");
        return graph.fail("Fill", "Fill", Reason::Argument(text));
    };
    graph.fill(dims, fill)
}
