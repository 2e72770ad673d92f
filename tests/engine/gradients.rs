//! Gradients, through a session, against central finite differences in `f64`, on the CPU and on a
//! GPU.
//!
//! `GRADIENT=Conv2D cargo test -p thalweg-tests --test engine gradients::` runs the cases whose names begin so.

use std::collections::BTreeSet;

use thalweg::graph::op::Gradient;
use thalweg::prelude::*;
use thalweg::session::Feed;
use thalweg_tests::card;
use thalweg_tests::emulated_gpu::Call;
use thalweg_tests::gradient_cases::{Case, elementwise, mixed, reductions};
use thalweg_tests::gradient_cases_array::lookups;
use thalweg_tests::gradient_cases_collect::collected;
use thalweg_tests::gradient_cases_images::images;
use thalweg_tests::gradient_cases_math::functions;
use thalweg_tests::gradient_cases_moves::moves;
use thalweg_tests::gradient_cases_nn::layers;
use thalweg_tests::gradient_cases_rearrange::rearranged;

/// Half the distance between the two points of a difference.
const STEP: f64 = 1e-5;

/// Ops with a gradient rule that stand in no case, and why.
const WITHOUT_CASE: &[(&str, &str)] = &[
    ("If", "it calls functions: tests/engine/flow.rs"),
    ("StatelessIf", "it calls functions: tests/engine/flow.rs"),
    ("While", "it calls functions: tests/engine/flow.rs"),
    ("StatelessWhile", "it calls functions: tests/engine/flow.rs"),
    (
        "PartitionedCall",
        "it calls a function: tests/engine/flow.rs",
    ),
    (
        "StatefulPartitionedCall",
        "it calls a function: tests/engine/flow.rs",
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
];

fn cases() -> Vec<Case> {
    let prefix = std::env::var("GRADIENT").unwrap_or_default();
    let all = [
        elementwise(),
        functions(),
        reductions(),
        moves(),
        rearranged(),
        collected(),
        lookups(),
        layers(),
        reductions(),
        moves(),
        lookups(),
        layers(),
        images(),
    ];
    let all = all.into_iter().flatten();
    all.filter(|c| c.name.starts_with(&prefix)).collect()
}

/// What is wrong with the gradient of a case; `vague` hides its shapes while the graph is built.
fn check(case: &Case, vague: bool, options: &SessionOptions) -> Result<(), String> {
    let g = Graph::new();
    let xs: Vec<Output<'_>> = case
        .inputs
        .iter()
        .map(|t| {
            let shape = if vague {
                Shape::of_rank(t.dims().len())
            } else {
                t.shape()
            };
            g.placeholder("x", DType::F64, shape)
        })
        .collect();
    let ys = (case.build)(&g, &xs);
    let weights: Vec<Output<'_>> = ys
        .iter()
        .map(|_| g.placeholder("weight", DType::F64, Shape::unknown()))
        .collect();
    let given: Vec<Option<Output<'_>>> = weights.iter().copied().map(Some).collect();
    let grads = gradients_with(&ys, &xs, &given, &[]);
    let session = Session::with_options(&g, options.clone()).map_err(|e| e.to_string())?;
    session
        .run(g.initializers(), [])
        .map_err(|e| e.to_string())?;

    let feeds = |inputs: &[Tensor]| -> Vec<Feed<'_>> {
        xs.iter().zip(inputs).map(|(x, t)| x.feed(t)).collect()
    };
    let at = session
        .run(&ys, feeds(&case.inputs))
        .map_err(|e| e.to_string())?;
    let projection: Vec<Tensor> = (0..ys.len())
        .map(|i| mixed(at.tensor(i).unwrap().dims(), 40 + i as u64))
        .collect();
    // The weighted sum of all outputs.
    let value = |inputs: &[Tensor]| -> Result<f64, String> {
        let got = session.run(&ys, feeds(inputs)).map_err(|e| e.to_string())?;
        let dot = |(i, w): (usize, &Tensor)| -> f64 {
            let y = got.slice::<f64>(i).unwrap();
            y.iter()
                .zip(w.as_slice::<f64>().unwrap())
                .map(|(y, w)| y * w)
                .sum()
        };
        Ok(projection.iter().enumerate().map(dot).sum())
    };
    let mut all = feeds(&case.inputs);
    all.extend(weights.iter().zip(&projection).map(|(w, t)| w.feed(t)));
    for (i, grad) in grads.iter().enumerate() {
        // No gradient stands for one of zeros.
        let zeros = Tensor::zeros(DType::F64, case.inputs[i].dims()).map_err(|e| e.to_string())?;
        let got = match grad {
            Some(grad) => session
                .run(*grad, &all)
                .map_err(|e| format!("input {i}: {e}"))?
                .tensor(0)
                .cloned(),
            None => Ok(zeros),
        };
        let got = got.map_err(|e| e.to_string())?;
        if got.dims() != case.inputs[i].dims() {
            return Err(format!("input {i}: a gradient of shape {}", got.shape()));
        }
        for (element, &found) in got.as_slice::<f64>().unwrap().iter().enumerate() {
            let moved = |by: f64| {
                let mut inputs = case.inputs.clone();
                inputs[i].as_mut_slice::<f64>().unwrap()[element] += by;
                value(&inputs)
            };
            // A power of two: sums and differences of a Cast's floats are exact.
            let (step, off) = match case.name.starts_with("Cast") {
                true => (1.0 / 1024.0, 1e-6),
                false if case.single => (1.0 / 64.0, 1e-2),
                false => (STEP, 1e-6),
            };
            let expected = (moved(step)? - moved(-step)?) / (2.0 * step);
            if (found - expected).abs() > 0.1 * off + off * expected.abs() {
                return Err(format!(
                    "input {i}, element {element}: {found}, not {expected}"
                ));
            }
        }
    }
    Ok(())
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
fn gradients_are_finite_differences() {
    check_all(false, &SessionOptions::with_threads(1));
}

#[test]
fn gradients_are_finite_differences_where_shapes_are_known_late() {
    check_all(true, &SessionOptions::with_threads(1));
}

#[test]
fn gradients_are_finite_differences_on_a_gpu() {
    let Some(gpu) = card::gpu() else { return };
    check_all(false, &gpu.options());
    let launched = |call: &Call| matches!(call, Call::Submit(_, Some(_)));
    let calls = gpu.calls();
    assert!(
        calls.is_none_or(|calls| calls.iter().any(launched)),
        "nothing ran on the GPU"
    );
}

#[test]
fn every_op_with_a_gradient_rule_is_in_the_table() {
    let mut covered = BTreeSet::new();
    for case in cases() {
        let g = Graph::new();
        let feed = |t: &Tensor| g.placeholder("x", DType::F64, t.shape());
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
    session.run(y, [x.feed(at)]).unwrap().scalar(0).unwrap()
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
fn a_loss_that_is_itself_asked_about_has_gradient_one_and_what_comes_through_others() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, []);
    let y = x * 3.0;
    let z = y * y;
    let grads = gradients(&[y, z], &[y, z, x]);
    let at = |i: usize| scalar(&g, grads[i].unwrap(), x, 2.0);
    assert_eq!((at(0), at(1), at(2)), (1.0 + 12.0, 1.0, 39.0));
}

#[test]
fn what_is_stopped_counts_as_constant() {
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
fn what_no_loss_depends_on_has_no_gradient() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, []);
    let other = g.placeholder("other", DType::F64, []);
    assert!(gradients(&[x * x], &[other])[0].is_none());
    assert!(gradients(&[], &[other])[0].is_none());
    assert!(g.errors().is_empty());
}

#[test]
fn gradients_have_gradients() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, []);
    let mut y = x * x * x * x;
    for _ in 0..3 {
        y = gradients(&[y], &[x])[0].unwrap();
    }
    assert_eq!(scalar(&g, y, x, 1.5), 24.0 * 1.5);
}

#[test]
fn the_gradient_of_slices_of_a_variable_is_added_up_where_they_came_from() {
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
        let got = session.run(dv, []).unwrap();
        assert_eq!(
            got.tensor(0).unwrap().to_vec::<f64>().unwrap(),
            each,
            "{op}"
        );
    }
}
