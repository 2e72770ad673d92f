//! Reads of variables that a called function does not write, moved in front of the call. A function runs on one device: it
//! takes the values of variables on other devices, in place of their handles.

mod only_reads;

use smallvec::SmallVec;

use crate::attr::{Attr, Func};
use crate::data::GraphData;
use crate::error::GraphError;
use crate::flow::value_readers::{find_op, on_value, passes, value_op};
use crate::function::Function;
use crate::node::{Fact, Node, NodeId, OutputId};
use crate::op::{Calls, Effect, FindOp};
use crate::simplified::Simplified;
pub(crate) use only_reads::{can_take_value, handle_of_call};
use only_reads::{carried, handle_behind, is_call};

/// Reads variables of other devices in front of the calls that only read them. Each added node is last in the graph; the
/// result is `true` if there is one.
///
/// # Errors
/// The registry lacks an op.
pub(super) fn read_in_front_of_calls(
    simplified: &mut Simplified,
    find: FindOp<'_>,
) -> Result<bool, GraphError> {
    let nodes = simplified.graph.len();
    for id in simplified.graph.ids() {
        let graph = &simplified.graph;
        let node = graph.node(id);
        let device = |n: NodeId| simplified.devices[n.index()];
        let is_fetched = |i: usize| {
            let given = OutputId {
                node: id,
                index: i as u32,
            };
            node.op.calls == Calls::Loop && simplified.fetches.contains(&given)
        };
        let moved: SmallVec<[usize; 2]> = (0..node.inputs.len())
            .filter(|&i| device(handle_behind(graph, node.inputs[i]).node) != device(id))
            .filter(|&i| can_take_value(graph, id, i) && !is_fetched(i))
            .collect();
        if !moved.is_empty() {
            read_in_front(simplified, id, &moved, find)?;
        }
    }
    Ok(simplified.graph.len() > nodes)
}

/// A copy of a graph in which calls, branches and loops take the values of the variables that they only read, in place
/// of handles: for a file without variables. A loop whose handle is one of `fetches` keeps it.
///
/// # Errors
/// The registry lacks an op.
pub fn with_values(
    graph: &GraphData,
    fetches: &[OutputId],
    find: FindOp<'_>,
) -> Result<GraphData, GraphError> {
    let is_handle = |id| graph.node(id).op.effect == Effect::Handle;
    let mut simplified = Simplified {
        graph: graph.clone(),
        feeds: Vec::new(),
        fetches: fetches.to_vec(),
        targets: Vec::new(),
        // As if all variables were on another device.
        devices: graph.ids().map(|id| u32::from(is_handle(id))).collect(),
    };
    read_in_front_of_calls(&mut simplified, find)?;
    Ok(simplified.graph)
}

/// Reads the variables behind these inputs of a call, after all nodes that the call waits for, and calls functions that
/// take the values.
fn read_in_front(
    simplified: &mut Simplified,
    id: NodeId,
    moved: &[usize],
    find: FindOp<'_>,
) -> Result<(), GraphError> {
    let mut node = Node::clone(simplified.graph.node(id));
    let handles: SmallVec<[(usize, OutputId); 2]> = moved
        .iter()
        .map(|&i| (i, handle_behind(&simplified.graph, node.inputs[i])))
        .collect();
    // A handle from a loop waits for the loop.
    let waits = |n: &NodeId| !handles.iter().any(|(_, handle)| handle.node == *n);
    let inputs = node.inputs.iter().map(|input| input.node);
    let before = inputs.chain(node.controls.iter().copied()).filter(waits);
    let mut before: SmallVec<[NodeId; 2]> = before.collect();
    before.sort_unstable();
    before.dedup();
    let mut values = vec![None; node.inputs.len()];
    for (i, handle) in handles {
        let source = simplified.graph.node(handle.node);
        let read = find_op(source, "ReadVariableOp", find)?;
        let name = format!("{}/{}/value", node.name, source.name);
        let value = simplified.push_read(read, name, handle, before.clone())?;
        simplified.graph.close(id, i, value);
        values[i] = simplified.graph.fact(value).cloned();
        if node.op.calls == Calls::Loop {
            bypass(simplified, id, i, handle);
        }
    }
    node.inputs = simplified.graph.node(id).inputs.clone();
    let prefix = node.name.clone();
    call_on_values(&mut simplified.graph, &mut node, &values, &prefix, find)?;
    simplified.graph.replace(id, node);
    Ok(())
}

/// Makes the users of a handle that a loop hands through take it from its source, after the loop, and run there if they
/// are no calls.
fn bypass(simplified: &mut Simplified, id: NodeId, index: usize, handle: OutputId) {
    let given = OutputId {
        node: id,
        index: index as u32,
    };
    let graph = &mut simplified.graph;
    let users: Vec<NodeId> = graph.consumers(id).collect();
    for user in users {
        let node = graph.node(user).clone();
        let inputs = node.inputs.iter().enumerate();
        for (i, _) in inputs.filter(|(_, input)| **input == given) {
            graph.close(user, i, handle);
            graph.wait_for(user, id);
            if !is_call(&node) {
                simplified.devices[user.index()] = simplified.devices[handle.node.index()];
            }
        }
    }
}

/// Makes a call take values: `values` has the fact of each that is new, by input. The functions that it calls then are
/// defined in the library, with names that begin with `prefix`.
fn call_on_values(
    library: &mut GraphData,
    node: &mut Node,
    values: &[Option<Fact>],
    prefix: &str,
    find: FindOp<'_>,
) -> Result<(), GraphError> {
    let names: Vec<String> = node.functions().into_iter().map(str::to_owned).collect();
    for name in names {
        if let Some(function) = library.function(&name).cloned() {
            let first = values.len().saturating_sub(function.inputs.len());
            let name = format!("{prefix}/{name}");
            let function = function_on_values(library, &function, &values[first..], name, find)?;
            library.define(function);
        }
    }
    let rename = |f: &Func| Func {
        name: format!("{prefix}/{}", f.name),
        attrs: f.attrs.clone(),
    };
    for (name, attr) in node.attrs.clone().iter() {
        let new = match attr {
            Attr::Func(f) => Attr::Func(rename(f)),
            Attr::Funcs(all) => Attr::Funcs(all.iter().map(rename).collect()),
            Attr::Types(types) if ["Tin", "T"].contains(&name) => {
                let mut types = types.clone();
                let first = values.len().saturating_sub(types.len());
                for (ty, value) in types.iter_mut().zip(&values[first..]) {
                    *ty = value.as_ref().map_or(*ty, |f| f.dtype);
                }
                Attr::Types(types)
            }
            // A loop gives what it takes.
            Attr::Shapes(shapes)
                if shapes.len() == values.len() && node.op.calls == Calls::Loop =>
            {
                let mut shapes = shapes.clone();
                for (shape, value) in shapes.iter_mut().zip(values) {
                    if let Some(value) = value {
                        shape.clone_from(&value.shape);
                    }
                }
                Attr::Shapes(shapes)
            }
            _ => continue,
        };
        node.attrs.set(name.to_owned(), new);
    }
    if node.op.calls == Calls::Loop {
        for (output, value) in node.outputs.iter_mut().zip(values) {
            if let Some(value) = value {
                *output = value.clone();
            }
        }
    }
    Ok(())
}

/// The function of this name that takes values in place of handles: `values` has the fact of each, by argument.
fn function_on_values(
    library: &mut GraphData,
    function: &Function,
    values: &[Option<Fact>],
    name: String,
    find: FindOp<'_>,
) -> Result<Function, GraphError> {
    let mut new = Function {
        name,
        ..function.clone()
    };
    new.drop_argument_attrs();
    let mut carriers: Vec<OutputId> = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let Some(value) = value else { continue };
        let id = new.inputs[at];
        let mut node = Node::clone(new.body.node(id));
        node.attrs.set("T", Attr::Type(value.dtype));
        node.outputs = SmallVec::from_elem(value.clone(), 1);
        new.body.replace(id, node);
        new.arguments[at].dtype = value.dtype;
        carriers.push(OutputId { node: id, index: 0 });
    }
    for id in function.body.ids() {
        let found = carried(new.body.node(id), &carriers);
        if found.is_empty() {
            continue;
        }
        let mut node = Node::clone(new.body.node(id));
        let called = is_call(&node);
        if called {
            let inputs = node.inputs.iter().enumerate();
            let values: Vec<Option<Fact>> = inputs
                .map(|(i, input)| found.contains(&i).then(|| new.body.fact(*input).cloned())?)
                .collect();
            call_on_values(library, &mut node, &values, &new.name, find)?;
        } else {
            node = on_value(&new.body, id, find)?;
        }
        let outputs = 0..node.outputs.len();
        let carries = |i: &usize| match called {
            true => node.op.calls == Calls::Loop && found.contains(i),
            false => passes(&node) && value_op(function.body.node(id)).is_none(),
        };
        carriers.extend(outputs.filter(carries).map(|i| OutputId {
            node: id,
            index: i as u32,
        }));
        new.body.replace(id, node);
    }
    for (result, output) in new.results.iter_mut().zip(&new.outputs) {
        if carriers.contains(output) {
            result.dtype = new.body.fact(*output).map_or(result.dtype, |f| f.dtype);
        }
    }
    Ok(new)
}
