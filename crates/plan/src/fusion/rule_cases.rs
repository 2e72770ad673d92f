//! The ops of fused graphs, for tests of the rules.

use thalweg_graph::{Fact, Graph, Output, OutputId};
use thalweg_ops::{DataFormat, LinalgOps, SourceOps};
use thalweg_tensor::DType;

use crate::compile::simplified;
use crate::request::{Fetch, PlanContext, Request};
use crate::testing::{Planner, graph};

pub(super) const NHWC: DataFormat = DataFormat::Nhwc;
pub(super) const NCHW: DataFormat = DataFormat::Nchw;

/// A graph under test: the outputs to fetch.
pub(super) type Build = for<'g> fn(&'g Graph) -> Vec<Output<'g>>;

/// The ops of the fused graph, in order, without feeds and constants. Nodes named `far...` are on another CPU.
pub(super) fn fused(build: Build) -> Vec<&'static str> {
    let planner = Planner::cpus(&[1, 1]);
    let g = graph();
    let fetches: Vec<Fetch> = build(&g).iter().map(|o| Fetch::Value(o.id())).collect();
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    let data = g.snapshot();
    let placeholders = data.nodes().filter(|(_, n)| n.op.name == "Placeholder");
    let feeds: Vec<(OutputId, Fact)> = placeholders
        .map(|(node, n)| (OutputId { node, index: 0 }, n.outputs[0].clone()))
        .collect();
    let far = |name: &str| u32::from(name.starts_with("far"));
    let devices: Vec<u32> = data.nodes().map(|(_, n)| far(&n.name)).collect();
    let request = Request {
        feeds: &feeds,
        fetches: &fetches,
        devices: &devices,
        variables: &[],
    };
    let context = PlanContext {
        fuse: true,
        ..planner.context()
    };
    let small = simplified(&data, &request, context).unwrap();
    let fused = super::fused(small, context).graph;
    let ops = fused.nodes().map(|(_, n)| n.op.name);
    ops.filter(|op| !["_Feed", "Const"].contains(op)).collect()
}

pub(super) fn check(cases: &[(&str, Build, &[&str])]) {
    for (case, build, expected) in cases {
        assert_eq!(fused(*build), *expected, "{case}");
    }
}

pub(super) fn f32<'g>(g: &'g Graph, name: &str, dims: &[usize]) -> Output<'g> {
    g.placeholder(name, DType::F32, thalweg_tensor::Shape::known(dims))
}

/// A product of `[4, 5]` and `[5, 3]`.
pub(super) fn product(g: &Graph) -> Output<'_> {
    f32(g, "a", &[4, 5]).matmul(f32(g, "b", &[5, 3]))
}

pub(super) const NORM: &str = "FusedBatchNormV3";

/// A batch normalization of the images; its images, mean and variance.
pub(super) fn norm<'g>(
    x: Output<'g>,
    channels: usize,
    format: DataFormat,
    training: bool,
) -> Vec<Output<'g>> {
    let g = x.graph();
    let moments = ["scale", "offset", "mean", "variance"].map(|n| f32(g, n, &[channels]));
    let node = g.op(NORM).input(x).inputs(moments);
    let node = node.attr("epsilon", 0.01f32).attr("data_format", format);
    node.attr("is_training", training).outputs()
}
