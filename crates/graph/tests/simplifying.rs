//! Pruning, feeds, folding, sharing, and nodes that equal their input.

mod support;

use support::{constant, evaluate, graph, placeholder};
use thalweg_graph::simplify::{DEFAULT_FOLD_TIME, Simplified, SimplifyOptions, simplify};
use thalweg_graph::{Fact, Graph, NodeId, Output};
use thalweg_tensor::{DType, Shape};

fn run(
    g: &Graph,
    feeds: &[(Output<'_>, &[usize])],
    fetches: &[Output<'_>],
    targets: &[NodeId],
) -> Simplified {
    with(g, feeds, fetches, targets, true)
}

fn with(
    g: &Graph,
    feeds: &[(Output<'_>, &[usize])],
    fetches: &[Output<'_>],
    targets: &[NodeId],
    optimise: bool,
) -> Simplified {
    let feeds: Vec<_> = feeds
        .iter()
        .map(|(o, dims)| (o.id(), Fact::new(DType::F32, Shape::known(dims))))
        .collect();
    let fetches: Vec<_> = fetches.iter().map(|o| o.id()).collect();
    let options = SimplifyOptions {
        fold_time: DEFAULT_FOLD_TIME,
        evaluate: optimise.then_some(&evaluate),
        share: optimise,
        devices: None,
        ops: None,
    };
    simplify(&g.snapshot(), &feeds, &fetches, targets, &options).unwrap()
}

/// `name = Op(inputs)` of each node.
fn nodes(s: &Simplified) -> Vec<String> {
    let text = s.graph.to_text();
    text.lines()
        .map(|l| l.split(')').next().unwrap().to_owned() + ")")
        .collect()
}

fn add<'g>(x: Output<'g>, y: Output<'g>, name: &str) -> Output<'g> {
    x.graph().op("AddV2").input(x).input(y).name(name).output()
}

#[test]
fn nodes_that_are_not_fetched_are_pruned() {
    let g = graph();
    let x = placeholder(&g, "x", []);
    let y = add(x, x, "y");
    add(y, y, "unused");
    let s = run(&g, &[(x, &[])], &[y], &[]);
    assert_eq!(nodes(&s), ["x = _Feed()", "y = AddV2(x:0, x:0)"]);
    assert_eq!(s.fetches[0].node, s.graph.find("y").unwrap());
}

#[test]
fn feeding_an_output_cuts_the_graph_there() {
    let g = graph();
    let x = placeholder(&g, "x", []);
    let inner = add(x, x, "inner");
    let y = add(inner, inner, "y");
    let s = run(&g, &[(inner, &[])], &[y], &[]);
    assert_eq!(
        nodes(&s),
        ["inner = _Feed()", "y = AddV2(inner:0, inner:0)"]
    );
    // A fed output that is fetched has the fed value; a feed without a use has no node.
    let s = run(&g, &[(inner, &[]), (x, &[])], &[inner], &[]);
    assert_eq!(nodes(&s), ["inner = _Feed()"]);
    assert_eq!((s.feeds[0].is_some(), s.feeds[1].is_some()), (true, false));
}

#[test]
fn one_output_of_a_node_can_be_fed_and_another_computed() {
    let g = graph();
    let x = placeholder(&g, "x", []);
    let both = g.op("Twice").input(x).name("both").build();
    let y = add(both.output(0), both.output(1), "y");
    let s = run(&g, &[(both.output(1), &[]), (x, &[])], &[y], &[]);
    assert_eq!(
        nodes(&s),
        [
            "both_1 = _Feed()",
            "x = _Feed()",
            "both = Twice(x:0)",
            "y = AddV2(both:0, both_1:0)"
        ]
    );
}

#[test]
fn shapes_are_inferred_anew_from_the_feeds() {
    let g = graph();
    let x = placeholder(&g, "x", [-1, 1]);
    let y = placeholder(&g, "y", Shape::unknown());
    let z = add(x, y, "z");
    let s = run(&g, &[(x, &[4, 1]), (y, &[3])], &[z], &[]);
    assert_eq!(
        s.graph.fact(s.fetches[0]).unwrap().shape,
        Shape::known(&[4, 3])
    );
}

#[test]
fn shapes_that_do_not_fit_are_an_error_of_the_node() {
    let g = graph();
    let x = placeholder(&g, "x", [-1]);
    let y = placeholder(&g, "y", [-1]);
    let z = add(x, y, "z");
    let fact = |n: usize| Fact::new(DType::F32, Shape::known(&[n]));
    let options = SimplifyOptions {
        fold_time: DEFAULT_FOLD_TIME,
        evaluate: None,
        share: false,
        devices: None,
        ops: None,
    };
    let feeds = [(x.id(), fact(2)), (y.id(), fact(3))];
    let e = simplify(&g.snapshot(), &feeds, &[z.id()], &[], &options).unwrap_err();
    assert_eq!(e.node, "z");
}

#[test]
fn constants_are_folded_into_one() {
    let g = graph();
    let x = placeholder(&g, "x", []);
    let three = add(constant(&g, 1.0f32), constant(&g, 2.0f32), "three");
    let y = add(x, add(three, three, "six"), "y");
    let s = run(&g, &[(x, &[])], &[y], &[]);
    assert_eq!(
        nodes(&s),
        ["x = _Feed()", "six = AddV2()", "y = AddV2(x:0, six:0)"]
    );
    let six = s.graph.node(s.graph.find("six").unwrap());
    assert_eq!(
        six.outputs[0]
            .value
            .as_ref()
            .unwrap()
            .to_scalar::<f32>()
            .unwrap(),
        6.0
    );
    let s = with(&g, &[(x, &[])], &[y], &[], false);
    assert_eq!(s.graph.len(), 6, "nothing is folded unless asked for");
}

#[test]
fn large_values_are_not_folded() {
    let g = graph();
    let half = constant(&g, vec![1.0f32; 200_000]);
    let small = add(
        constant(&g, vec![1.0f32; 10]),
        constant(&g, 1.0f32),
        "small",
    );
    let large = add(half, constant(&g, vec![1.0f32; 200_000]), "large");
    let s = run(&g, &[], &[small, large], &[]);
    let folded = |name| s.graph.node(s.graph.find(name).unwrap()).inputs.is_empty();
    assert!(folded("small"));
    let huge = constant(&g, vec![1.0f32; 300_000]);
    let sum = add(huge, huge, "huge");
    let s = run(&g, &[], &[sum], &[]);
    assert!(!s.graph.node(s.fetches[0].node).inputs.is_empty());
}

#[test]
fn equal_nodes_are_shared_and_different_ones_are_not() {
    let g = graph();
    let (x, y) = (placeholder(&g, "x", []), placeholder(&g, "y", []));
    let scaled = g
        .op("AddV2")
        .input(x)
        .input(y)
        .attr("scale", 2.0f32)
        .name("c")
        .output();
    let all = [add(x, y, "a"), add(x, y, "b"), scaled, add(y, x, "d")];
    let s = run(&g, &[(x, &[]), (y, &[])], &all, &[]);
    assert_eq!(s.fetches[0], s.fetches[1]);
    assert_eq!(s.graph.len(), 2 + 3);
    let s = with(&g, &[(x, &[]), (y, &[])], &all, &[], false);
    assert_ne!(s.fetches[0], s.fetches[1]);
}

#[test]
fn random_nodes_and_nodes_with_other_controls_are_not_shared() {
    let g = graph();
    let x = placeholder(&g, "x", []);
    let random = |name: &str| g.op("Random").name(name).output();
    let (a, b) = (random("a"), random("b"));
    let s = run(&g, &[], &[a, b], &[]);
    assert_ne!(s.fetches[0], s.fetches[1]);
    let first = add(x, x, "first");
    let late = g.control_dependencies([a], || add(x, x, "late"));
    let s = run(&g, &[(x, &[])], &[first, late], &[]);
    assert_ne!(s.fetches[0], s.fetches[1]);
}

#[test]
fn folding_stops_at_its_time_limit() {
    let g = graph();
    let y = (0..3).fold(constant(&g, 1.0f32), |x, i| add(x, x, &format!("y{i}")));
    let calls = std::cell::Cell::new(0);
    let counted = |node: &_, inputs: &[&_]| {
        calls.set(calls.get() + 1);
        evaluate(node, inputs)
    };
    let folds = |fold_time| {
        calls.set(0);
        let options = SimplifyOptions {
            fold_time,
            evaluate: Some(&counted),
            share: true,
            devices: None,
            ops: None,
        };
        let s = simplify(&g.snapshot(), &[], &[y.id()], &[], &options).unwrap();
        (calls.get(), nodes(&s).len())
    };
    assert_eq!(folds(DEFAULT_FOLD_TIME), (3, 1));
    assert_eq!(folds(std::time::Duration::ZERO), (0, 4));
}

#[test]
fn a_node_that_equals_its_input_is_left_out_unless_it_waits() {
    let g = graph();
    let x = placeholder(&g, "x", []);
    let same = x.named("same");
    let y = add(same, x, "y");
    let s = run(&g, &[(x, &[])], &[y, same], &[same.id().node]);
    assert_eq!(nodes(&s), ["x = _Feed()", "y = AddV2(x:0, x:0)"]);
    assert_eq!(s.fetches[1].node, s.targets[0]);
    let random = g.op("Random").build();
    let waits = g.control_dependencies([random], || x.named("waits"));
    let s = run(&g, &[(x, &[])], &[waits], &[]);
    assert_eq!(s.graph.len(), 3);
}

#[test]
fn a_node_whose_outputs_equal_its_inputs_stays_only_for_those_that_wait_for_it() {
    let g = graph();
    let (x, y) = (placeholder(&g, "x", []), placeholder(&g, "y", []));
    let (a, b) = (add(x, x, "a"), add(y, y, "b"));
    let both = g.op("IdentityN").inputs([a, b]).name("both").build();
    let z = add(both.output(1), both.output(1), "z");
    let feeds: [(Output<'_>, &[usize]); 2] = [(x, &[]), (y, &[])];
    let s = run(&g, &feeds, &[z], &[]);
    let names = nodes(&s);
    assert!(
        names.contains(&"z = AddV2(b:0, b:0)".to_owned()),
        "{names:?}"
    );
    assert!(names.iter().all(|n| !n.starts_with("both")), "{names:?}");
    // Waiting for it is waiting for both inputs.
    let late = g.control_dependencies([both], || g.op("Twice").input(x).name("late").build());
    let s = run(&g, &feeds, &[late.output(0)], &[both.id()]);
    let names = nodes(&s);
    assert!(
        names.contains(&"both = IdentityN(a:0, b:0)".to_owned()),
        "{names:?}"
    );
}

#[test]
fn a_node_whose_outputs_equal_its_inputs_stays_where_an_input_runs_unused() {
    let g = graph();
    let x = placeholder(&g, "x", []);
    let random = g.op("Random").name("random").output();
    let waits = g.control_dependencies([random], || x.named("waits"));
    for other in [random, add(random, x, "sum"), waits] {
        let both = g.op("IdentityN").inputs([other, x]).name("both").build();
        let s = run(&g, &[(x, &[])], &[both.output(1)], &[]);
        let names = nodes(&s);
        assert!(names.contains(&"random = Random()".to_owned()), "{names:?}");
    }
}

#[test]
fn a_constant_keeps_what_it_waits_for() {
    let g = graph();
    let random = g.op("Random").name("random").build();
    let late = g.control_dependencies([random], || constant(&g, 1.0f32));
    let s = run(&g, &[], &[late], &[]);
    assert_eq!(nodes(&s), ["random = Random()", "Const = Const(^random)"]);
}

#[test]
fn a_fed_placeholder_may_be_waited_for_and_run() {
    let g = graph();
    let x = placeholder(&g, "x", []);
    let done = g.op("NoOp").control(x).name("done").build();
    let s = run(&g, &[(x, &[])], &[], &[done.id(), x.id().node]);
    assert_eq!(nodes(&s), ["x = _Feed()", "done = NoOp(^x)"]);
}
