//! Which values a checkpoint has, and the nodes that give them back to variables.

use thalweg_checkpoint::SliceSpec;
use thalweg_graph::{Graph, NodeId, Output, OutputId, VariableInfo};
use thalweg_ops::{SourceOps, Variable};
use thalweg_tensor::DType;

use crate::slots::beside;

/// A variable, as a checkpoint knows it.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Its name in the checkpoint.
    pub(super) name: String,
    /// Of a part of a partitioned variable: which part.
    pub(super) slice: Option<SliceSpec>,
    /// Its value.
    pub(super) value: OutputId,
    /// What takes a value, and the node that assigns it.
    pub(super) feed: OutputId,
    pub(super) assign: NodeId,
}

/// The items of variables under names, and nodes for their restoring. Names end up as nodes `restore/NAME`.
pub(super) fn items(graph: &Graph, variables: &[(String, VariableInfo)]) -> Vec<Item> {
    let build = || {
        let all = variables.iter();
        all.map(|(name, variable)| item(graph, name, variable))
            .collect()
    };
    graph.without_control_dependencies(|| graph.name_scope("restore", build))
}

fn item(graph: &Graph, name: &str, info: &VariableInfo) -> Item {
    let variable = Variable::of(graph, info);
    let value = variable.value();
    let (dtype, shape) = (value.dtype(), value.shape());
    let (feed, assign) = beside(variable, || {
        let feed = graph.placeholder("value", dtype, shape.clone());
        (feed, assigned(graph, variable.handle(), feed))
    });
    let slice = info.slice.as_ref().and_then(|slice| {
        let lens = shape.to_dims()?;
        let extents = slice.begin.iter().zip(lens.iter());
        let extents: Vec<_> = extents.map(|(&begin, &len)| Some((begin, len))).collect();
        SliceSpec::new(&slice.dims, &extents).ok()
    });
    // The whole variable's name, unless the program has given the part one of its own.
    let name = match (&slice, &info.slice) {
        (Some(_), Some(of)) if name == info.name => of.of.clone(),
        _ => name.to_owned(),
    };
    Item {
        name,
        slice,
        value: value.id(),
        feed: feed.id(),
        assign,
    }
}

/// The node that gives a variable of either kind a value.
fn assigned<'g>(graph: &'g Graph, handle: Output<'g>, value: Output<'g>) -> NodeId {
    let op = match handle.dtype() {
        DType::Resource => "AssignVariableOp",
        _ => "Assign",
    };
    graph.op(op).input(handle).input(value).build().id()
}
