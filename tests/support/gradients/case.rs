//! A case of gradients: a computation with inputs away from kinks; helpers to build cases.

use thalweg_graph::{Attr, Graph, NodeBuilder, Output};
use thalweg_ops::SourceOps;
pub use thalweg_session::gradient_check::{mixed, positive};
use thalweg_tensor::{DType, Tensor};

/// Builds outputs from fed inputs.
pub type Build = Box<dyn for<'g> Fn(&'g Graph, &[Output<'g>]) -> Vec<Output<'g>>>;

/// A computation whose gradient is compared with finite differences.
pub struct GradientCase {
    pub name: String,
    /// The `f64` inputs that are differentiated.
    pub inputs: Vec<Tensor>,
    pub build: Build,
    /// Computes in `f32`, for ops that take no `f64`; differences are coarse then.
    pub single: bool,
}

/// A case of one node whose inputs are the differentiated ones.
pub fn node(
    name: &str,
    op: &'static str,
    inputs: Vec<Tensor>,
    attrs: &[(&'static str, Attr)],
) -> GradientCase {
    let attrs = attrs.to_vec();
    case(name, inputs, move |g, x| {
        let node = with(g.op(op), &attrs).inputs(x.iter().copied()).build();
        let floats = node
            .outputs()
            .into_iter()
            .filter(|o| o.dtype() == DType::F64);
        floats.collect()
    })
}

/// Any computation.
pub fn case(
    name: &str,
    inputs: Vec<Tensor>,
    build: impl for<'g> Fn(&'g Graph, &[Output<'g>]) -> Vec<Output<'g>> + 'static,
) -> GradientCase {
    GradientCase {
        name: name.to_owned(),
        inputs,
        build: Box::new(build),
        single: false,
    }
}

/// A computation in `f32`, with inputs cast to it.
pub fn single(
    name: &str,
    inputs: Vec<Tensor>,
    build: impl for<'g> Fn(&'g Graph, &[Output<'g>]) -> Vec<Output<'g>> + 'static,
) -> GradientCase {
    GradientCase {
        single: true,
        ..case(name, inputs, build)
    }
}

pub fn with<'g>(node: NodeBuilder<'g>, attrs: &[(&'static str, Attr)]) -> NodeBuilder<'g> {
    attrs
        .iter()
        .fold(node, |n, (name, value)| n.attr(name, value.clone()))
}

pub fn ints<'g>(g: &'g Graph, values: &[i32]) -> Output<'g> {
    g.constant(values)
}
