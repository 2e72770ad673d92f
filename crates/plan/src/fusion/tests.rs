//! Tests of the checks of a replacement that a fusion rule proposes.

use smallvec::{SmallVec, smallvec};
use thalweg_device::Cpu;
use thalweg_graph::simplify::{DEFAULT_FOLD_TIME, Simplified, SimplifyOptions, simplify};
use thalweg_graph::{Graph, Node, NodeId, Output};
use thalweg_ops::{MathOps, NewGraph, RandomOps, SourceOps};
use thalweg_tensor::{DType, Shape, Tensor};

use super::replacement::{Refused, Replacement};
use super::rewriter::Rewriter;
use crate::kernels::Kernels;

/// The graph that tests change: `tanh` and `square` of `square(x)`, which is fetched with `sin(tanh)`.
fn simplified(g: &Graph) -> Simplified {
    let x = g.placeholder("x", DType::F32, [2, 3]);
    let first = x.square();
    let last = first.tanh().sin();
    prepared(g, x, &[first, last])
}

fn prepared(g: &Graph, x: Output<'_>, fetched: &[Output<'_>]) -> Simplified {
    let data = g.snapshot();
    let feeds = [(x.id(), data.fact(x.id()).unwrap().clone())];
    let fetched: Vec<_> = fetched.iter().map(|o| o.id()).collect();
    let devices = vec![0; data.len()];
    let options = SimplifyOptions {
        fold_time: DEFAULT_FOLD_TIME,
        evaluate: None,
        share: false,
        devices: Some(&devices),
        ops: None,
    };
    simplify(&data, &feeds, &fetched, &[], &options).unwrap()
}

fn of(rewriter: &Rewriter<'_>, op: &str) -> (NodeId, Node) {
    let ids = rewriter.ids();
    let id = ids.into_iter().find(|&id| rewriter.is(id, &[op]).is_some());
    let id = id.unwrap();
    (id, (**rewriter.node(id).unwrap()).clone())
}

/// Checks the replacement that `change` makes for the node of an op.
fn checked(op: &str, change: impl FnOnce(&Rewriter<'_>, NodeId, Node) -> Replacement) -> Outcome {
    let g = Graph::new();
    let cpu = Cpu::new(1);
    let (cpus, kernels) = ([Some(&cpu)], Kernels::default());
    let rewriter = Rewriter::new(simplified(&g), &cpus, &kernels);
    let (id, node) = of(&rewriter, op);
    let replacement = change(&rewriter, id, node);
    (id, replacement.check(&rewriter))
}

type Outcome = (NodeId, Result<(), Refused>);

fn one(id: NodeId, node: Node) -> Replacement {
    Replacement::one(id, node, [])
}

#[test]
fn a_node_with_the_same_outputs_is_taken() {
    let (_, outcome) = checked("Sin", |graph, id, node| {
        let (tanh, inner) = of(graph, "Tanh");
        Replacement::one(
            id,
            Node {
                inputs: inner.inputs,
                ..node
            },
            [tanh],
        )
    });
    assert_eq!(outcome, Ok(()));
}

#[test]
fn another_dtype_or_shape_is_refused_where_others_see_it() {
    let (id, outcome) = checked("Sin", |_, id, mut node| {
        node.outputs[0].dtype = DType::F64;
        one(id, node)
    });
    assert_eq!(outcome, Err(Refused::Output(id, 0)));
    let (id, outcome) = checked("Sin", |_, id, mut node| {
        node.outputs[0].shape = Shape::known(&[3, 2]);
        one(id, node)
    });
    assert_eq!(outcome, Err(Refused::Output(id, 0)));
}

#[test]
fn an_op_with_an_effect_is_refused() {
    let (id, outcome) = checked("Sin", |_, id, node| {
        let g = Graph::new();
        let random = g.random_uniform(Tensor::vector(&[2i32, 3]), 0.0, 1.0, DType::F32, None);
        let op = g.snapshot().node(random.id().node).op;
        one(id, Node { op, ..node })
    });
    assert_eq!(outcome, Err(Refused::Effect(id)));
}

#[test]
fn other_waits_and_later_inputs_are_refused() {
    let (id, outcome) = checked("Tanh", |graph, id, mut node| {
        node.controls = SmallVec::from_iter([of(graph, "Square").0]);
        one(id, node)
    });
    assert_eq!(outcome, Err(Refused::Controls(id)));
    let (id, outcome) = checked("Tanh", |graph, id, mut node| {
        node.inputs[0].node = of(graph, "Sin").0;
        one(id, node)
    });
    assert_eq!(outcome, Err(Refused::Input(id, 0)));
}

#[test]
fn users_go_to_an_equal_output_that_comes_before_them() {
    let aside = |change: fn(&Rewriter<'_>, &mut Replacement)| {
        let g = Graph::new();
        let cpu = Cpu::new(1);
        let (cpus, kernels) = ([Some(&cpu)], Kernels::default());
        let rewriter = Rewriter::new(simplified(&g), &cpus, &kernels);
        let (tanh, _) = of(&rewriter, "Tanh");
        let mut replacement = Replacement {
            left_out: smallvec![tanh],
            redirected: Some((tanh, of(&rewriter, "Square").0)),
            ..Replacement::default()
        };
        change(&rewriter, &mut replacement);
        let (sin, _) = of(&rewriter, "Sin");
        let checked = replacement.check(&rewriter);
        let at = |id: NodeId| rewriter.node(id).map(|n| n.inputs[0].node);
        let before = at(sin);
        let mut rewriter = rewriter;
        if checked.is_ok() {
            rewriter.apply(replacement);
            let square = of(&rewriter, "Square").0;
            assert_eq!(rewriter.node(sin).unwrap().inputs[0].node, square);
            assert!(rewriter.node(tanh).is_none());
            assert_eq!(rewriter.users(square), [sin]);
        }
        (before == Some(tanh), sin, checked)
    };
    let (was, _, checked) = aside(|_, _| ());
    assert!(was);
    assert_eq!(checked, Ok(()));
    let (_, sin, checked) = aside(|graph, r| {
        r.redirected = Some((r.left_out[0], of(graph, "Sin").0));
        // It would use itself.
        r.put = smallvec![];
    });
    assert_eq!(checked, Err(Refused::Input(sin, 0)));
    let (_, _, checked) = aside(|_, r| r.left_out.clear());
    assert!(matches!(checked, Err(Refused::Used(_))));
}

#[test]
fn used_and_fetched_nodes_are_not_left_out() {
    // `Tanh` reads it, and it is fetched.
    let (square, outcome) = checked("Square", |_, id, _| Replacement {
        left_out: smallvec![id],
        ..Replacement::default()
    });
    assert_eq!(outcome, Err(Refused::Used(square)));
    let (tanh, outcome) = checked("Tanh", |_, id, _| Replacement {
        left_out: smallvec![id],
        ..Replacement::default()
    });
    assert_eq!(outcome, Err(Refused::Used(tanh)));
}
