//! A case of gradients: a computation with inputs away from kinks; helpers to build cases.

use thalweg_graph::{Attr, Graph, NodeBuilder, Output};
use thalweg_ops::SourceOps;
use thalweg_tensor::shape::elements;
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

/// Numbers between 0.2 and 1.7 in size, of both signs, no two the same.
pub fn mixed(dims: &[usize], seed: u64) -> Tensor {
    let values = sizes(dims, seed).enumerate();
    let signed = values.map(|(i, v)| {
        if (i as u64 + seed).is_multiple_of(3) {
            -v
        } else {
            v
        }
    });
    Tensor::new(dims, &signed.collect::<Vec<f64>>()).unwrap()
}

/// Numbers between 0.2 and 1.7, no two the same.
pub fn positive(dims: &[usize], seed: u64) -> Tensor {
    Tensor::new(dims, &sizes(dims, seed).collect::<Vec<f64>>()).unwrap()
}

fn sizes(dims: &[usize], seed: u64) -> impl Iterator<Item = f64> {
    // Multiples of the golden ratio are spread evenly, and none comes twice.
    (0..elements(dims)).map(move |i| {
        let turn = (i as f64 + 1.0 + 17.0 * seed as f64) * 0.618_033_988_749_895;
        0.2 + 1.5 * turn.fract()
    })
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
    fn cast(x: Output<'_>, to: DType) -> Output<'_> {
        x.graph().op("Cast").input(x).attr("DstT", to).output()
    }
    GradientCase {
        single: true,
        ..case(name, inputs, move |g, x| {
            let x: Vec<Output<'_>> = x.iter().map(|&x| cast(x, DType::F32)).collect();
            let ys = build(g, &x).into_iter();
            ys.map(|y| cast(y, DType::F64)).collect()
        })
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
