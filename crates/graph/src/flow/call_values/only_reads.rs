//! Handles of variables that called functions only read.

use smallvec::SmallVec;
use thalweg_tensor::DType;

use crate::data::GraphData;
use crate::flow::value_readers::{passes, value_op};
use crate::function::{Function, MAX_CALL_DEPTH};
use crate::node::{Node, NodeId, OutputId};
use crate::op::Calls;

/// The handle behind an input of a call, if loops hand it through; otherwise the input.
pub(crate) fn handle_of_call(graph: &GraphData, call: &Node, input: OutputId) -> OutputId {
    match is_call(call) {
        true => handle_behind(graph, input),
        false => input,
    }
}

/// The handle that a loop hands through to this output; the output itself if it is no such one.
pub(super) fn handle_behind(graph: &GraphData, mut output: OutputId) -> OutputId {
    loop {
        let node = graph.node(output.node);
        let index = output.index as usize;
        let is_handle = graph
            .fact(output)
            .is_some_and(|f| f.dtype == DType::Resource);
        if node.op.calls != Calls::Loop || !is_handle || !hands_through(graph, node, index) {
            return output;
        }
        output = node.inputs[index];
    }
}

/// `true` if the body of a loop returns this argument as it is.
fn hands_through(graph: &GraphData, node: &Node, index: usize) -> bool {
    let body = node.attrs.func("body");
    let Some(body) = body.and_then(|f| graph.function(&f.name)) else {
        return false;
    };
    let (Some(mut output), Some(argument)) =
        (body.outputs.get(index).copied(), body.inputs.get(index))
    else {
        return false;
    };
    while body.body.node(output.node).op.name == "Identity" {
        output = body.body.node(output.node).inputs[0];
    }
    output.node == *argument
}

/// `true` if a call can take a variable's value in place of the handle at this input: the called functions, and those that
/// they call, use it for reads only. A loop may hand it to the next turn.
pub(crate) fn can_take_value(graph: &GraphData, id: NodeId, input: usize) -> bool {
    let node = graph.node(id);
    let handle = handle_behind(graph, node.inputs[input]);
    let of_variable = graph
        .fact(handle)
        .is_some_and(|f| f.dtype == DType::Resource && f.variable.is_some());
    is_call(node)
        && of_variable
        && graph.node(handle.node).inputs.is_empty()
        && only_reads(graph, node, input, 0)
}

fn only_reads(library: &GraphData, node: &Node, input: usize, depth: usize) -> bool {
    let names = node.functions();
    if names.is_empty() || depth > MAX_CALL_DEPTH {
        return false;
    }
    let body = (node.op.calls == Calls::Loop).then(|| node.attrs.func("body"));
    let body = body.flatten().map(|f| f.name.as_str());
    names.into_iter().all(|name| {
        let Some(function) = library.function(name) else {
            return false;
        };
        let handed = argument(node, function, input)
            .and_then(|at| results_of_handle(library, function, at, depth + 1));
        match body == Some(name) {
            true => handed.as_deref() == Some(&[input]),
            false => handed.as_deref() == Some(&[]),
        }
    })
}

/// The argument of a function that an input of its call is: arguments are the last inputs.
fn argument(node: &Node, function: &Function, input: usize) -> Option<usize> {
    (input + function.inputs.len()).checked_sub(node.inputs.len())
}

/// The results that are the handle of an argument; `None` if something else than a read uses it.
fn results_of_handle(
    library: &GraphData,
    function: &Function,
    argument: usize,
    depth: usize,
) -> Option<Vec<usize>> {
    let mut carriers = vec![OutputId {
        node: *function.inputs.get(argument)?,
        index: 0,
    }];
    for (id, node) in function.body.nodes() {
        for i in carried(node, &carriers) {
            if is_call(node) && only_reads(library, node, i, depth) {
                if node.op.calls == Calls::Loop {
                    carriers.push(OutputId {
                        node: id,
                        index: i as u32,
                    });
                }
            } else if i == 0 && passes(node) {
                let outputs = 0..node.outputs.len() as u32;
                carriers.extend(outputs.map(|index| OutputId { node: id, index }));
            } else if i > 0 || value_op(node).is_none() {
                return None;
            }
        }
    }
    let handed = function.outputs.iter().enumerate();
    let handed = handed.filter(|(_, output)| carriers.contains(output));
    Some(handed.map(|(i, _)| i).collect())
}

/// The inputs of a node that are among these outputs.
pub(super) fn carried(node: &Node, carriers: &[OutputId]) -> SmallVec<[usize; 2]> {
    let inputs = node.inputs.iter().enumerate();
    inputs
        .filter(|(_, input)| carriers.contains(input))
        .map(|(i, _)| i)
        .collect()
}

pub(super) fn is_call(node: &Node) -> bool {
    !node.functions().is_empty()
}
