//! Slots: variables that an optimizer keeps beside a variable.

use thalweg_graph::scalar_of;
use thalweg_graph::{Fact, Graph, Output, Reason};
use thalweg_ops::{SourceOps, StateOps, Variable};

/// Builds a slot of `variable`: an untrained variable called `variable/name`, on the variable's device. `initial`
/// builds its initial value, a tensor like the variable's.
#[track_caller]
pub(crate) fn slot<'g>(
    variable: Variable<'g>,
    name: &str,
    initial: impl FnOnce(&Fact) -> Output<'g>,
) -> Variable<'g> {
    let value = variable.value();
    if value.is_invalid() {
        return variable;
    }
    let graph = value.graph();
    let scope = format!("{}/", variable.handle().operation().name());
    let make = || {
        let initial = graph.name_scope(&format!("{name}/Initializer"), || initial(&value.fact()));
        graph.untrained_variable(name, initial)
    };
    graph.without_control_dependencies(|| graph.name_scope(&scope, || variable.colocate(make)))
}

/// A tensor like `fact` filled with `fill`. It is filled when a step needs it: a constant of the variable's size would
/// lie in the graph.
#[track_caller]
pub(crate) fn filled<'g>(graph: &'g Graph, fact: &Fact, fill: f64) -> Output<'g> {
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
