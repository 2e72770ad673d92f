//! Gradients of functions (SymbolicGradient). A file of TensorFlow 1 requests one by a node of this
//! op; here it becomes a call of an additional function, which holds the gradient.

use std::collections::HashMap;

use thalweg_graph::function::MAX_CALL_DEPTH;
use thalweg_graph::{Fact, Function, Graph, Output, OutputId, gradients_with};
use thalweg_tensor::{DType, Shape};

use crate::error::Problem;

/// The most calls in the gradient of one function, each counted as often as it is made.
const MAX_CALLS: usize = 1 << 10;

/// Checks that a function does not call itself, and that its calls are not too many to build
/// gradients of: each call is inlined.
fn check_calls(
    graph: &Graph,
    function: &Function,
    around: &mut Vec<String>,
    left: &mut usize,
) -> Result<(), String> {
    let deepest = MAX_CALL_DEPTH / 4;
    if around.len() >= deepest {
        return Err(format!("its calls are more than {deepest} deep"));
    }
    if around.contains(&function.name) {
        return Err(format!("'{}' calls itself", function.name));
    }
    around.push(function.name.clone());
    let nodes = function.body.nodes();
    for name in nodes.flat_map(|(_, n)| n.functions()) {
        *left = left
            .checked_sub(1)
            .ok_or_else(|| format!("it makes more than {MAX_CALLS} calls"))?;
        if let Some(called) = graph.function(name) {
            check_calls(graph, &called, around, left)?;
        }
    }
    around.pop();
    Ok(())
}

/// Builds the gradient of `function` as a function called `name`. The forward values are recomputed
/// in it.
pub(super) fn of(graph: &Graph, function: &Function, name: &str) -> Result<Function, Problem> {
    let wrong = |reason: String| Problem::Gradient {
        function: function.name.clone(),
        reason,
    };
    let mut left = MAX_CALLS;
    check_calls(graph, function, &mut Vec::new(), &mut left).map_err(wrong)?;
    let body = graph.body(name);
    let argument = |name: &str, dtype| body.argument(name, &Fact::new(dtype, Shape::unknown()));
    let own: Vec<Output<'_>> = (function.arguments.iter())
        .map(|p| argument(&p.name, p.dtype))
        .collect();
    let back: Vec<Output<'_>> = (function.results.iter())
        .map(|p| argument(&format!("{}_grad", p.name), p.dtype))
        .collect();
    let at = |&node| OutputId { node, index: 0 };
    let given: HashMap<OutputId, Output<'_>> = function
        .inputs
        .iter()
        .map(at)
        .zip(own.iter().copied())
        .collect();
    let results = function.inline(body, &given, &function.outputs);
    let (ys, dys): (Vec<_>, Vec<_>) = results
        .iter()
        .zip(&back)
        .filter(|(y, _)| y.dtype().is_float())
        .map(|(&y, &dy)| (y, Some(dy)))
        .unzip();
    let xs: Vec<Output<'_>> = own
        .iter()
        .copied()
        .filter(|x| x.dtype().is_float())
        .collect();
    let mut dxs = gradients_with(&ys, &xs, &dys, &[]).into_iter();
    let mut gradients = Vec::with_capacity(own.len());
    for (x, port) in own.iter().zip(&function.arguments) {
        let dx = match x.dtype().is_float() {
            true => dxs.next().flatten(),
            false if DType::PLAIN.contains(&port.dtype) => None,
            false => {
                return Err(wrong(format!(
                    "its argument '{}' has no gradient",
                    port.name
                )));
            }
        };
        gradients.push(dx.unwrap_or_else(|| body.op("ZerosLike").input(*x).output()));
    }
    if let Some(error) = body.errors().first() {
        return Err(wrong(error.to_string()));
    }
    let arguments: Vec<Output<'_>> = own.iter().chain(&back).copied().collect();
    let closed = graph.close_bodies(&[(body, &arguments, &gradients)]);
    let made = closed.functions.into_iter().next();
    let made = made.ok_or_else(|| wrong("it could not be made".to_owned()))?;
    Ok(Function {
        name: name.to_owned(),
        origin: function.origin.clone(),
        ..made
    })
}
