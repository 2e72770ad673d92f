//! Gradients of all ops in sessions, compared with central finite differences in `f64`, on the CPU and on a GPU.
//!
//! `GRADIENT=Conv2D cargo test -p thalweg-tests --test engine gradients::` runs the cases whose names begin so.

use std::collections::BTreeSet;

use thalweg::graph::op::Gradient;
use thalweg::prelude::*;
use thalweg_cpu::special::igamma;
use thalweg_tests::emulated_gpu::Call;
use thalweg_tests::gradients::{GradientCase, all_cases, check};
use thalweg_tests::test_gpu;

const STEPS: &str =
    "its gradient is not that of its steps, and is tested below and by TensorFlow's values";
const SAMPLES: &str = "the gradient keeps the quantile of a number, and steps do not: a test below";
const RANKS: &str = "it takes several sessions: crates/session/tests/collectives";

/// Ops with a gradient rule and without a case, with the reason.
const WITHOUT_CASE: &[(&str, &str)] = &[
    ("FakeQuantWithMinMaxArgs", STEPS),
    ("FakeQuantWithMinMaxArgsGradient", STEPS),
    ("FakeQuantWithMinMaxVars", STEPS),
    ("FakeQuantWithMinMaxVarsPerChannel", STEPS),
    ("QuantizeAndDequantize", STEPS),
    ("QuantizeAndDequantizeV2", STEPS),
    ("QuantizeAndDequantizeV3", STEPS),
    ("QuantizeAndDequantizeV4", STEPS),
    ("RandomGamma", SAMPLES),
    ("StatelessRandomGammaV2", SAMPLES),
    ("StatelessRandomGammaV3", SAMPLES),
    ("If", "it calls functions: tests/engine/control_flow.rs"),
    (
        "StatelessIf",
        "it calls functions: tests/engine/control_flow.rs",
    ),
    ("While", "it calls functions: tests/engine/control_flow.rs"),
    (
        "StatelessWhile",
        "it calls functions: tests/engine/control_flow.rs",
    ),
    (
        "PartitionedCall",
        "it calls a function: tests/engine/control_flow.rs",
    ),
    (
        "StatefulPartitionedCall",
        "it calls a function: tests/engine/control_flow.rs",
    ),
    ("ResourceGather", "it reads a variable: a test below"),
    ("ResourceGatherNd", "it reads a variable: a test below"),
    (
        "Print",
        "it passes its gradient on as Identity does, and would print here",
    ),
    (
        "RefIdentity",
        "a session runs Identity in its place, which is in the table",
    ),
    (
        "DebugGradientRefIdentity",
        "a session runs Identity in its place, which is in the table",
    ),
    ("HorovodAllreduce", RANKS),
    ("HorovodAllgather", RANKS),
    ("HorovodBroadcast", RANKS),
    ("HorovodAlltoall", RANKS),
    ("HorovodReducescatter", RANKS),
];

/// The cases whose names begin with the variable `GRADIENT`.
fn cases() -> Vec<GradientCase> {
    let prefix = std::env::var("GRADIENT").unwrap_or_default();
    let all = all_cases().into_iter();
    all.filter(|c| c.name.starts_with(&prefix)).collect()
}

fn check_all(vague: bool, options: &SessionOptions) {
    let cases = cases();
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|c| Some(format!("{}: {}", c.name, check(c, vague, options).err()?)))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

#[test]
fn gradients_match_finite_differences() {
    check_all(false, &SessionOptions::new().threads(1));
}

#[test]
fn gradients_match_finite_differences_with_late_shapes() {
    check_all(true, &SessionOptions::new().threads(1));
}

#[test]
fn gradients_match_finite_differences_on_a_gpu() {
    let Some(gpu) = test_gpu::gpu() else { return };
    check_all(false, &gpu.options());
    let launched = |call: &Call| matches!(call, Call::Submit(_, Some(_)));
    let calls = gpu.calls();
    assert!(
        calls.is_none_or(|calls| calls.iter().any(launched)),
        "nothing ran on the GPU"
    );
}

#[test]
fn every_op_with_a_gradient_rule_has_a_case() {
    let mut covered = BTreeSet::new();
    for case in cases() {
        let g = Graph::new();
        let dtype = if case.single { DType::F32 } else { DType::F64 };
        let feed = |t: &Tensor| g.placeholder("x", dtype, t.shape());
        let xs: Vec<Output<'_>> = case.inputs.iter().map(feed).collect();
        (case.build)(&g, &xs);
        covered.extend(g.snapshot().nodes().map(|(_, node)| node.op.name));
    }
    let missing: Vec<&str> = thalweg::ops::ops()
        .filter(|op| matches!(op.def.gradient, Gradient::Rule(_)))
        .map(|op| op.def.name)
        .filter(|name| !covered.contains(name))
        .filter(|name| WITHOUT_CASE.iter().all(|(op, _)| op != name))
        .collect();
    assert!(missing.is_empty(), "not in the table: {missing:?}");
}

fn scalar(g: &Graph, y: Output<'_>, x: Output<'_>, at: f64) -> f64 {
    let session = Session::new(g).unwrap();
    let (y, x) = (g.output(y.id()), g.output(x.id()));
    session.step(y, [x.feed(at)]).unwrap().scalar(0).unwrap()
}

#[test]
fn the_gradients_of_several_uses_and_several_losses_add_up() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, []);
    let (a, b) = (x * x * x, x * 5.0);
    let both = gradients(&[a, b, a], &[x])[0].unwrap();
    assert_eq!(scalar(&g, both, x, 2.0), 2.0 * 12.0 + 5.0);
}

#[test]
fn the_gradient_of_a_loss_to_itself_is_one_plus_paths_through_others() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, []);
    let y = x * 3.0;
    let z = y * y;
    let grads = gradients(&[y, z], &[y, z, x]);
    let at = |i: usize| scalar(&g, grads[i].unwrap(), x, 2.0);
    assert_eq!((at(0), at(1), at(2)), (1.0 + 12.0, 1.0, 39.0));
}

#[test]
fn stop_gradient_counts_as_constant() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, []);
    let a = x * 2.0;
    let y = a * x;
    let stopped = gradients_with(&[y], &[x, a], &[], &[a]);
    assert_eq!(scalar(&g, stopped[0].unwrap(), x, 3.0), 6.0);
    assert_eq!(scalar(&g, stopped[1].unwrap(), x, 3.0), 3.0);
    let free = gradients(&[y], &[x])[0].unwrap();
    assert_eq!(scalar(&g, free, x, 3.0), 12.0);
}

#[test]
fn unused_inputs_have_no_gradient() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, []);
    let other = g.placeholder("other", DType::F64, []);
    assert!(gradients(&[x * x], &[other])[0].is_none());
    assert!(gradients(&[], &[other])[0].is_none());
    assert!(g.errors().is_empty());
}

#[test]
fn second_gradients_exist() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, []);
    let mut y = x * x * x * x;
    for _ in 0..3 {
        y = gradients(&[y], &[x])[0].unwrap();
    }
    assert_eq!(scalar(&g, y, x, 1.5), 24.0 * 1.5);
}

#[test]
fn gradients_of_repeated_rows_of_a_variable_are_added() {
    for (op, indices, each) in [
        (
            "ResourceGather",
            Tensor::from(&[2, 0, 2][..]),
            [5.0, 6.0, 0.0, 0.0, 10.0, 12.0],
        ),
        (
            "ResourceGatherNd",
            Tensor::new(&[3, 1], &[2, 0, 2]).unwrap(),
            [5.0, 6.0, 0.0, 0.0, 10.0, 12.0],
        ),
    ] {
        let g = Graph::new();
        let v = g.variable("v", Tensor::new(&[3, 2], &[1f64; 6]).unwrap());
        let rows = g.op(op).input(v.handle()).input(g.constant(indices));
        let rows = rows.attr("dtype", DType::F64).output();
        let dy = Tensor::new(&[3, 2], &[1.0, 2.0, 5.0, 6.0, 9.0, 10.0]).unwrap();
        let dv = gradients(&[rows * g.constant(dy)], &[v.handle()])[0].unwrap();
        let session = Session::new(&g).unwrap();
        session.run(g.initializers(), []).unwrap();
        let got = session.step(dv, []).unwrap();
        assert_eq!(
            got.tensor(0).unwrap().to_vec::<f64>().unwrap(),
            each,
            "{op}"
        );
    }
}

#[test]
fn fake_quantization_by_channels_needs_a_dimension_of_channels() {
    let g = Graph::new();
    let limits = [g.constant([-1.0f32]), g.constant([1.0f32])];
    let by_channels = |x: Output<'_>| {
        let node = g.op("FakeQuantWithMinMaxVarsPerChannel").input(x);
        node.inputs(limits).output().is_invalid()
    };
    assert!(by_channels(g.constant(0.5f32)));
    assert!(by_channels(g.constant([0.5f32, 0.25])));
    assert!(!by_channels(g.constant([0.5f32])));
}

#[test]
fn gradients_pass_fake_quantization_within_its_range_and_go_to_the_limits_beyond() {
    let g = Graph::new();
    let x = g.constant([[-3.0f32, 0.5], [1.0, 4.0], [-5.0, 0.0]]);
    let (low, high) = (g.constant([-2.0f32, -1.0]), g.constant([2.0f32, 1.0]));
    let node = g.op("FakeQuantWithMinMaxVarsPerChannel").input(x);
    let y = node.input(low).input(high).output();
    let weights = g.constant([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let found = gradients(&[y * weights], &[x, low, high]);
    let found: Vec<Output<'_>> = found.into_iter().map(Option::unwrap).collect();
    let session = Session::new(&g).unwrap();
    let values: Vec<Tensor> = session.run(&found[..], []).unwrap();
    assert_eq!(
        values[0],
        Tensor::from([[0.0f32, 2.0], [3.0, 0.0], [0.0, 6.0]])
    );
    assert_eq!(values[1], Tensor::from([6.0f32, 0.0]));
    assert_eq!(values[2], Tensor::from([0.0f32, 4.0]));

    let by_attrs = g.op("FakeQuantWithMinMaxArgs").input(x);
    let y = by_attrs.attr("min", -4.0f32).attr("max", 1.5f32).output();
    let found = gradients(&[y], &[x])[0].unwrap();
    let value: Tensor = session.run(found, []).unwrap();
    assert_eq!(value, Tensor::from([[1.0f32, 1.0], [1.0, 0.0], [0.0, 1.0]]));
}

#[test]
fn gradients_pass_quantization_and_those_of_its_fourth_version_within_the_range_alone() {
    let g = Graph::new();
    let x = g.constant([-3.0f32, -0.5, 1.0, 1.25]);
    let (low, high) = (g.constant(-1.0f32), g.constant(1.0f32));
    let weights = g.constant([1.0f32, 2.0, 3.0, 4.0]);
    let session = |found: Output<'_>| -> Tensor {
        let session = Session::new(&g).unwrap();
        session.run(g.output(found.id()), []).unwrap()
    };
    for (op, expected) in [
        ("QuantizeAndDequantizeV2", [1.0f32, 2.0, 3.0, 4.0]),
        ("QuantizeAndDequantizeV4", [0.0, 2.0, 3.0, 0.0]),
    ] {
        let node = g.op(op).input(x).input(low).input(high);
        let y = node.attr("range_given", true).output();
        let found = gradients(&[y * weights], &[x])[0].unwrap();
        assert_eq!(session(found), Tensor::from(expected), "{op}");
    }
    let y = g.op("QuantizeAndDequantizeV3").input(x).input(low);
    let y = y.input(high).input(g.constant(8)).output();
    let found = gradients(&[y * weights], &[x])[0].unwrap();
    assert_eq!(session(found), Tensor::from([1.0f32, 2.0, 3.0, 4.0]));
    let y = g.op("QuantizeAndDequantize").input(x).output();
    let found = gradients(&[y * weights], &[x])[0].unwrap();
    assert_eq!(session(found), Tensor::from([1.0f32, 2.0, 3.0, 4.0]));
}

/// Implicit reparametrisation: as its parameter moves, a number stays at its quantile.
#[test]
fn numbers_of_gamma_distributions_keep_their_quantile_along_their_gradient() {
    const STEP: f64 = 1e-4;
    let alphas = [0.3f64, 1.0, 2.5, 40.0];
    for op in [
        "RandomGamma",
        "StatelessRandomGammaV2",
        "StatelessRandomGammaV3",
    ] {
        let g = Graph::new();
        let alpha = g.constant(alphas);
        let node = match op {
            "RandomGamma" => g.op(op).input(g.constant([1i32])).attr("seed", 5i64),
            "StatelessRandomGammaV2" => g
                .op(op)
                .input(g.constant([1i32, 4]))
                .input(g.constant([3i64, 5])),
            _ => {
                let key = g
                    .op(op)
                    .input(g.constant([1i32, 4]))
                    .input(g.constant([7u64]));
                key.input(g.constant([1u64, 2])).input(g.constant(1i32))
            }
        };
        let sample = node.input(alpha).output();
        let slope = gradients(&[sample], &[alpha])[0].unwrap();
        let session = Session::new(&g).unwrap();
        let values: Vec<Tensor> = session.run(&[sample, slope][..], []).unwrap();
        let [x, slope] = [0, 1].map(|i| values[i].to_vec::<f64>().unwrap());
        for (i, &a) in alphas.iter().enumerate() {
            let quantile = |step: f64| igamma(a + step, x[i] + step * slope[i]);
            let moved = (quantile(STEP) - quantile(-STEP)) / (2.0 * STEP);
            assert!(moved.abs() < 1e-5, "{op}, {a}: {moved}");
        }
    }
}
