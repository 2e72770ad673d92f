//! Input that graphs bring: what TensorFlow does not show, such as files that are refused, steps that are cancelled, and
//! readers' counters.

mod csv;
mod datasets;
mod files;
mod strings;

use thalweg::graph::{Attr, NodeBuilder};
use thalweg::prelude::*;

fn string<'g>(g: &'g Graph, text: &str) -> Output<'g> {
    g.constant(Tensor::strings(&[], &[text]).unwrap())
}

/// A node with the attributes of a dataset of one scalar component.
fn node<'g>(g: &'g Graph, op: &str, inputs: &[Output<'g>], dtype: DType) -> NodeBuilder<'g> {
    let node = g.op(op).inputs(inputs.iter().copied());
    node.attr("output_types", Attr::Types(vec![dtype]))
        .attr("output_shapes", Attr::Shapes(vec![Shape::unknown()]))
}

/// The numbers from 0 to `stop`.
fn range(g: &Graph, stop: i64) -> Output<'_> {
    node(
        g,
        "RangeDataset",
        &[0, stop, 1].map(|n| g.constant(n)),
        DType::I64,
    )
    .output()
}

/// The start of an iterator over a dataset, and its next element.
fn iterate<'g>(g: &'g Graph, dataset: Output<'g>, dtype: DType) -> (Operation<'g>, Output<'g>) {
    let iterator = node(g, "IteratorV2", &[], dtype)
        .attr("shared_name", "")
        .attr("container", "");
    let iterator = iterator.output();
    let start = g.op("MakeIterator").input(dataset).input(iterator).build();
    (
        start,
        node(g, "IteratorGetNext", &[iterator], dtype).output(),
    )
}

/// The elements of a dataset, up to the error at its end.
fn elements(session: &Session<'_>, dataset: Output<'_>, dtype: DType) -> (Vec<Tensor>, String) {
    let (start, next) = iterate(session.graph(), dataset, dtype);
    session.run::<()>(start, []).unwrap();
    let mut all = Vec::new();
    loop {
        match session.run::<Tensor>(next, []) {
            Ok(element) => all.push(element),
            Err(error) => return (all, error.to_string()),
        }
    }
}
