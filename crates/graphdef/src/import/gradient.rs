//! Gradients of functions. A file of TensorFlow 1 asks for one by a node whose op is
//! `SymbolicGradient`; here that is a call of one more function, which holds the gradient.

use std::collections::HashMap;

use thalweg_graph::{DType, Fact, Function, Graph, Output, OutputId, Shape, gradients_with};

use crate::error::Problem;

/// The op that asks for a function's gradient: of its arguments and of what comes back for each of
/// its results, it gives what goes back to each argument.
pub(crate) const SYMBOLIC: &str = "SymbolicGradient";
/// The op that takes its place.
pub(crate) const CALL: &str = "StatefulPartitionedCall";

/// The gradient of `function` as a function called `name`. What is computed on the way there is
/// computed again.
pub(super) fn of(graph: &Graph, function: &Function, name: &str) -> Result<Function, Problem> {
    let wrong = |reason: String| Problem::Gradient {
        function: function.name.clone(),
        reason,
    };
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
