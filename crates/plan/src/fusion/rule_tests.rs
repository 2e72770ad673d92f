//! Each other rule on a graph that it changes, and on graphs that differ in one condition.

use thalweg_graph::{Attr, Graph, Output};
use thalweg_ops::fused::MEMBERS;
use thalweg_ops::{MathOps, NnOps, Padding, SourceOps};
use thalweg_tensor::DType;

use super::rule_cases::{Build, NCHW, NHWC, NORM, check, f32, norm, product};
use crate::testing::{Planner, graph};

const EX: &str = "_FusedBatchNormEx";

fn images(g: &Graph) -> Output<'_> {
    f32(g, "x", &[2, 5, 5, 6])
}

#[test]
fn a_relu_behind_a_batch_normalization_or_its_sum_is_computed_in_its_pass() {
    check(&[
        (
            "a Relu",
            |g| vec![norm(images(g), 6, NHWC, true)[0].relu()],
            &[EX],
        ),
        (
            "a Relu of a sum",
            |g| {
                let side = f32(g, "side", &[2, 5, 5, 6]);
                vec![(side + norm(images(g), 6, NHWC, true)[0]).relu()]
            },
            &[EX],
        ),
        (
            "another activation",
            |g| vec![norm(images(g), 6, NHWC, true)[0].tanh()],
            &[NORM, "Tanh"],
        ),
        (
            "a sum with a row",
            |g| vec![(norm(images(g), 6, NHWC, true)[0] + f32(g, "row", &[6])).relu()],
            &[NORM, "AddV2", "Relu"],
        ),
        (
            "a sum of three",
            |g| {
                let (x, y) = (images(g), norm(images(g), 6, NHWC, true)[0]);
                vec![g.op("AddN").inputs([x, y, x]).output().relu()]
            },
            &[NORM, "AddN", "Relu"],
        ),
    ]);
}

/// `MaxPoolGrad` over squares of `k` pixels that do not overlap.
fn pool_grad<'g>(x: Output<'g>, y: Output<'g>, dy: Output<'g>, k: i64) -> Output<'g> {
    let node = x.graph().op("MaxPoolGrad").input(x).input(y).input(dy);
    let node = node.attr("ksize", Attr::Ints(vec![1, k, k, 1]));
    let node = node.attr("strides", Attr::Ints(vec![1, k, k, 1]));
    node.attr("padding", "VALID").output()
}

/// Images of `size` squares of `k` pixels, the pooled ones, and their gradient.
fn pooled<'g>(g: &'g Graph, k: usize, dtype: DType) -> [Output<'g>; 3] {
    let of =
        |name, n: usize| g.placeholder(name, dtype, thalweg_tensor::Shape::known(&[1, n, n, 2]));
    let x = of("x", 2 * k);
    let y = x.max_pool([k, k], [k, k], Padding::Valid, NHWC);
    [x, y, of("dy", 2)]
}

const STORE: &str = "_MaxPoolStoreArgmax";
const STORED: &str = "_MaxPoolGradStoredArgmax";

#[test]
fn a_max_pooling_stores_the_argmax_that_its_gradient_needs() {
    check(&[
        (
            "its own gradient",
            |g| {
                let [x, y, dy] = pooled(g, 2, DType::F32);
                vec![y, pool_grad(x, y, dy, 2)]
            },
            &[STORE, STORED],
        ),
        (
            "two gradients",
            |g| {
                let [x, y, dy] = pooled(g, 2, DType::F32);
                vec![pool_grad(x, y, dy, 2), pool_grad(x, y, dy.tanh(), 2)]
            },
            &[STORE, STORED, "Tanh", STORED],
        ),
        (
            "windows whose places fill a byte",
            |g| {
                let [x, y, dy] = pooled(g, 16, DType::F32);
                vec![pool_grad(x, y, dy, 16)]
            },
            &[STORE, STORED],
        ),
        (
            "windows with more places",
            |g| {
                let [x, y, dy] = pooled(g, 17, DType::F32);
                vec![pool_grad(x, y, dy, 17)]
            },
            &["MaxPool", "MaxPoolGrad"],
        ),
        (
            "integers",
            |g| {
                let [x, y, dy] = pooled(g, 2, DType::I32);
                vec![pool_grad(x, y, dy, 2)]
            },
            &["MaxPool", "MaxPoolGrad"],
        ),
        (
            "a gradient of other images",
            |g| {
                let [x, y, dy] = pooled(g, 2, DType::F32);
                vec![pool_grad(x.tanh(), y, dy, 2)]
            },
            &["MaxPool", "Tanh", "MaxPoolGrad"],
        ),
        (
            "a gradient on another device",
            |g| {
                let [x, y, dy] = pooled(g, 2, DType::F32);
                vec![pool_grad(x, y, dy, 2).named("far")]
            },
            &["MaxPool", "MaxPoolGrad"],
        ),
    ]);
}

#[test]
fn the_gradient_of_a_relu_before_a_pooling_is_taken_of_the_pooled_images() {
    check(&[
        (
            "a Relu of the images",
            |g| {
                let [x, y, dy] = pooled(g, 17, DType::F32);
                let dx = pool_grad(x, y, dy, 17);
                vec![g.op("ReluGrad").input(dx).input(x).output()]
            },
            &["MaxPool", "ReluGrad", "MaxPoolGrad"],
        ),
        (
            "a Relu of something else",
            |g| {
                let [x, y, dy] = pooled(g, 17, DType::F32);
                let dx = pool_grad(x, y, dy, 17);
                vec![g.op("ReluGrad").input(dx).input(x.sin()).output()]
            },
            &["MaxPool", "MaxPoolGrad", "Sin", "ReluGrad"],
        ),
    ]);
}

#[test]
fn the_sum_over_the_channels_of_a_pooling_gradient_is_that_of_its_own_gradient() {
    let cases: &[(&str, Build, &[&str])] = &[
        (
            "a sum alone",
            |g| {
                let [x, y, dy] = pooled(g, 17, DType::F32);
                vec![g.op("BiasAddGrad").input(pool_grad(x, y, dy, 17)).output()]
            },
            // The pooling was only for its gradient, and stays as nothing asks to remove it.
            &["MaxPool", "BiasAddGrad"],
        ),
        (
            "a sum beside the gradient",
            |g| {
                let [x, y, dy] = pooled(g, 17, DType::F32);
                let dx = pool_grad(x, y, dy, 17);
                vec![dx, g.op("BiasAddGrad").input(dx).output()]
            },
            &["MaxPool", "MaxPoolGrad", "BiasAddGrad"],
        ),
        (
            "channels in another place",
            |g| {
                let [x, y, dy] = pooled(g, 17, DType::F32);
                let sum = g.op("BiasAddGrad").input(pool_grad(x, y, dy, 17));
                vec![sum.attr("data_format", NCHW).output()]
            },
            &["MaxPool", "MaxPoolGrad", "BiasAddGrad"],
        ),
    ];
    check(cases);
}

/// A vector of so many elements.
fn vector<'g>(g: &'g Graph, name: &str, elements: usize) -> Output<'g> {
    f32(g, name, &[elements])
}

const LARGE: usize = 16 * 1024;

#[test]
fn elementwise_ops_that_follow_each_other_become_a_chain() {
    check(&[
        (
            "large values",
            |g| vec![(vector(g, "x", LARGE).tanh() + vector(g, "y", LARGE)).square()],
            &["_Fused"],
        ),
        (
            "a row that is added to each",
            |g| vec![(f32(g, "x", &[128, 128]).tanh() + f32(g, "row", &[128])).square()],
            &["_Fused"],
        ),
        (
            "values that stay in a cache",
            |g| vec![vector(g, "x", LARGE - 1).tanh().square()],
            &["Tanh", "Square"],
        ),
        (
            "a single op",
            |g| vec![vector(g, "x", LARGE).tanh()],
            &["Tanh"],
        ),
        (
            "a value in between that is fetched",
            |g| {
                let y = vector(g, "x", LARGE).tanh();
                vec![y, y.square()]
            },
            &["Tanh", "Square"],
        ),
        (
            "a value in between with two users in the chain",
            |g| {
                let y = vector(g, "x", LARGE).tanh();
                vec![y.square() * y]
            },
            &["_Fused"],
        ),
        (
            "a value in between that a sum uses too",
            |g| {
                let y = vector(g, "x", LARGE).tanh();
                let sum = g.op("Sum").input(y).input(g.constant([0i32])).output();
                vec![y.square(), sum]
            },
            &["Tanh", "Sum", "Square"],
        ),
        (
            "integers",
            |g| {
                let x = g.placeholder("x", DType::I32, [LARGE as i64]);
                vec![(x + x).square()]
            },
            &["AddV2", "Square"],
        ),
        (
            "an op on another device",
            |g| vec![vector(g, "x", LARGE).tanh().named("far").square()],
            &["Tanh", "Square"],
        ),
        (
            "more ops than a chain has room for",
            |g| vec![(0..65).fold(vector(g, "x", LARGE), |x, _| x.tanh())],
            &["Tanh", "_Fused"],
        ),
    ]);
}

#[test]
fn the_members_of_a_fused_node_are_listed_in_their_order() {
    let planner = Planner::cpus(&[1]).optimised();
    let g = graph();
    let y = product(&g)
        .named("y")
        .bias_add(f32(&g, "c", &[3]), NHWC)
        .named("z");
    let z = y.relu().named("w");
    let feeds = ["a", "b", "c"].map(|n| g.find(n).unwrap().output(0));
    let plan = planner.plan(&[z], &feeds).unwrap();
    let program = &plan.programs[0];
    let members = ["y", "z", "w"].map(|n| n.as_bytes().to_vec());
    assert_eq!(
        program.node(0).attrs.get(MEMBERS),
        Some(&Attr::Strs(members.to_vec()))
    );
}
