//! Gradients through lists. The gradient of a list is a list of the same length; an absent element of it stands
//! for zeros. The rules are those of TensorFlow's `list_ops.py`.

use smallvec::smallvec;
use thalweg_graph::op::InputGradients;
use thalweg_graph::{GradCx, Graph, Output, Value};
use thalweg_tensor::{DType, Tensor};

use crate::support::constants::{ints, shape_of};

/// Scalar that stands for a shape of unknown rank.
fn unknown_shape<'g>(graph: &'g Graph) -> Output<'g> {
    Value::Tensor(Tensor::scalar(-1i32)).on(graph)
}

/// Dtype of the elements.
fn dtype(g: &GradCx<'_, '_>) -> DType {
    g.attrs().dtype("element_dtype").unwrap_or(DType::F32)
}

/// First output of `op` on these inputs, with the list's element dtype.
fn list_node<'g>(g: &GradCx<'_, 'g>, op: &str, inputs: &[Output<'g>]) -> Output<'g> {
    let node = g.graph().op(op).inputs(inputs.iter().copied());
    node.attr("element_dtype", dtype(g)).output()
}

fn length<'g>(list: Output<'g>) -> Output<'g> {
    list.graph().op("TensorListLength").input(list).output()
}

fn element_shape<'g>(list: Output<'g>) -> Output<'g> {
    let node = list.graph().op("TensorListElementShape").input(list);
    node.attr("shape_type", DType::I32).output()
}

/// List of the same length with all elements absent.
fn absent_like<'g>(g: &GradCx<'_, 'g>, list: Output<'g>) -> Output<'g> {
    list_node(g, "TensorListReserve", &[element_shape(list), length(list)])
}

fn zeros_like<'g>(x: Output<'g>) -> Output<'g> {
    x.graph().op("ZerosLike").input(x).output()
}

/// Shape of a row of `x`.
fn row_shape<'g>(x: Output<'g>) -> Output<'g> {
    let graph = x.graph();
    let known = x.shape().to_dims();
    let known = known.and_then(|dims| {
        let row = dims.get(1..)?.iter().map(|&d| i32::try_from(d).ok());
        row.collect::<Option<Vec<i32>>>()
    });
    match known {
        Some(dims) => ints(graph, &dims),
        None => {
            let (begin, size) = (ints(graph, &[1]), ints(graph, &[-1]));
            let parts = [shape_of(x), begin, size];
            graph.op("Slice").inputs(parts).output()
        }
    }
}

/// Gradient of TensorListPushBack.
pub(super) fn push_back<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let shape = match dtype(g) {
        DType::Variant => unknown_shape(g.graph()),
        _ => shape_of(g.input(1)),
    };
    let node = g.graph().op("TensorListPopBack");
    let node = node.input(g.grad()).input(shape);
    let popped = node.attr("element_dtype", dtype(g)).build();
    smallvec![Some(popped.output(0)), Some(popped.output(1))]
}

/// Gradient of TensorListPopBack.
pub(super) fn pop_back<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let shorter = g.dy(0).unwrap_or_else(|| absent_like(g, g.output(0)));
    let last = g.dy(1).unwrap_or_else(|| zeros_like(g.output(1)));
    smallvec![Some(list_node(g, "TensorListPushBack", &[shorter, last]))]
}

/// Gradient of TensorListGetItem.
pub(super) fn get_item<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let nothing = absent_like(g, g.input(0));
    let parts = [nothing, g.input(1), g.grad()];
    smallvec![Some(list_node(g, "TensorListSetItem", &parts))]
}

/// Gradient of TensorListSetItem.
pub(super) fn set_item<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (dlist, index, item) = (g.grad(), g.input(1), g.input(2));
    let mut before = list_node(g, "TensorListSetItem", &[dlist, index, zeros_like(item)]);
    if g.attrs().bool("resize_if_index_out_of_bounds") {
        let parts = [before, length(g.input(0))];
        before = g.graph().op("TensorListResize").inputs(parts).output();
    }
    let own = list_node(g, "TensorListGetItem", &[dlist, index, shape_of(item)]);
    smallvec![Some(before), None, Some(own)]
}

/// Gradient of TensorListResize.
pub(super) fn resize<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let parts = [g.grad(), length(g.input(0))];
    let resized = g.graph().op("TensorListResize").inputs(parts).output();
    smallvec![Some(resized)]
}

/// Gradient of TensorListStack.
pub(super) fn stack<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let parts = [g.grad(), unknown_shape(g.graph())];
    smallvec![Some(list_node(g, "TensorListFromTensor", &parts))]
}

/// Gradient of TensorListFromTensor.
pub(super) fn from_tensor<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let parts = [g.grad(), row_shape(g.input(0))];
    smallvec![Some(list_node(g, "TensorListStack", &parts))]
}

/// Gradient of TensorListGather.
pub(super) fn gather<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let graph = g.graph();
    // An element that was gathered twice gets the sum of both gradients.
    let parts = [g.grad(), g.input(1), length(g.input(0))];
    let rows = graph.op("UnsortedSegmentSum").inputs(parts).output();
    smallvec![Some(list_node(
        g,
        "TensorListFromTensor",
        &[rows, unknown_shape(graph)]
    ))]
}

/// Gradient of TensorListScatterV2.
pub(super) fn scatter<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let parts = [g.grad(), g.input(1), row_shape(g.input(0))];
    smallvec![Some(list_node(g, "TensorListGather", &parts))]
}

/// Gradient of TensorListScatterIntoExistingList.
pub(super) fn scatter_into<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (dlist, tensor, indices) = (g.grad(), g.input(1), g.input(2));
    let parts = [dlist, zeros_like(tensor), indices];
    let before = list_node(g, "TensorListScatterIntoExistingList", &parts);
    let parts = [before, length(g.input(0))];
    let before = g.graph().op("TensorListResize").inputs(parts).output();
    let rows = list_node(g, "TensorListGather", &[dlist, indices, row_shape(tensor)]);
    smallvec![Some(before), Some(rows)]
}

/// Gradient of TensorListConcatV2.
pub(super) fn concat<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let Some(dy) = g.dy(0) else {
        return InputGradients::new();
    };
    let parts = [dy, element_shape(g.input(0)), g.output(1)];
    smallvec![Some(list_node(g, "TensorListSplit", &parts))]
}

/// Gradient of TensorListSplit.
pub(super) fn split<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, x) = (g.graph(), g.input(0));
    let parts = [ints(graph, &[-1]), row_shape(x)];
    let shape = graph.op("ConcatV2").inputs(parts);
    let shape = shape
        .input(Value::Tensor(Tensor::scalar(0i32)).on(graph))
        .output();
    let parts = [g.grad(), shape, g.input(2)];
    smallvec![Some(list_node(g, "TensorListConcatV2", &parts))]
}
