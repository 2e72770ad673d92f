use thalweg_graph::Graph;
use thalweg_ops::{SourceOps, StateOps};

use super::*;
use crate::testing::{Planner, graph};

/// A placeholder `x`, a constant `c` and a variable `w`.
fn small() -> Graph {
    let g = graph();
    g.placeholder("x", DType::F32, [-1, 2]);
    g.constant([1.0f32]).named("c");
    g.variable("w", 1.0f32);
    g
}

fn output(data: &GraphData, node: &str, index: u32) -> OutputId {
    let node = data.find(node).unwrap_or(NodeId::INVALID);
    OutputId { node, index }
}

type Feed = (&'static str, u32, DType, &'static [usize]);

fn error(fetches: &[(&str, u32)], feeds: &[Feed]) -> String {
    let g = small();
    let data = g.snapshot();
    let fetches: Vec<Fetch> = fetches
        .iter()
        .map(|&(node, i)| Fetch::Value(output(&data, node, i)))
        .collect();
    let feeds = feeds
        .iter()
        .map(|&(node, i, dtype, dims)| (output(&data, node, i), dtype, dims));
    check_request(&data, &fetches, feeds)
        .unwrap_err()
        .to_string()
}

#[test]
fn a_request_that_fits_gives_the_facts_of_its_feeds() {
    let g = small();
    let data = g.snapshot();
    let x = output(&data, "x", 0);
    let c = output(&data, "c", 0);
    // The node of a handle has no value, but may be run.
    let fetches = [Fetch::Value(c), Fetch::Run(data.find("w").unwrap())];
    let feeds = [(x, DType::F32, &[7, 2][..]), (c, DType::F32, &[1])];
    let facts = check_request(&data, &fetches, feeds.into_iter()).unwrap();
    let texts: Vec<String> = facts.iter().map(|(_, fact)| fact.to_string()).collect();
    assert_eq!(texts, ["f32[7,2]", "f32[1]"]);
}

#[test]
fn each_mistake_of_a_request_has_its_text() {
    type Fetches = &'static [(&'static str, u32)];
    let cases: [(Fetches, &[Feed], &str); 9] = [
        (
            &[("c", 1)],
            &[],
            "fetch 'c:1' is an output that does not exist",
        ),
        (
            &[("y", 0)],
            &[],
            "fetch '<invalid>:0' is an output that does not exist",
        ),
        (
            &[],
            &[("c", 1, DType::F32, &[])],
            "feed 'c:1' is an output that does not exist",
        ),
        (
            &[("w", 0)],
            &[],
            "'w:0' is the handle of a variable and has no value: fetch or feed the variable's value",
        ),
        (
            &[],
            &[("w", 0, DType::F32, &[])],
            "'w:0' is the handle of a variable and has no value: fetch or feed the variable's value",
        ),
        (
            &[],
            &[("x", 0, DType::F32, &[1, 2]), ("x", 0, DType::F32, &[1, 2])],
            "'x:0' is fed twice",
        ),
        (
            &[],
            &[("x", 0, DType::F64, &[1, 2])],
            "takes f32[?,2], but was fed f64[1,2]",
        ),
        (
            &[],
            &[("x", 0, DType::F32, &[2, 3])],
            "takes f32[?,2], but was fed f32[2,3]",
        ),
        // More elements than can be counted.
        (
            &[],
            &[("x", 0, DType::F32, &[usize::MAX, 2])],
            "takes f32[?,2], but was fed f32[18446744073709551615,2]",
        ),
    ];
    for (fetches, feeds, text) in cases {
        let found = error(fetches, feeds);
        assert!(found.ends_with(text), "{found}");
    }
}

#[test]
fn a_node_to_run_must_exist() {
    let data = small().snapshot();
    let missing = [Fetch::Run(NodeId::INVALID)];
    let error = check_request(&data, &missing, std::iter::empty()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "fetch '<invalid>:0' is an output that does not exist"
    );
}

#[test]
fn feeds_of_a_partial_run_have_the_shapes_of_the_graph() {
    let data = small().snapshot();
    let facts = partial_feed_facts(&data, &[output(&data, "x", 0)]).unwrap();
    assert_eq!(facts[0].1.to_string(), "f32[?,2]");
    // A feed's value is not that of the graph's constant.
    let facts = partial_feed_facts(&data, &[output(&data, "c", 0)]).unwrap();
    assert_eq!(facts[0].1.value, None);
    let error = partial_feed_facts(&data, &[output(&data, "c", 3)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "feed 'c:3' is an output that does not exist"
    );
}

#[test]
fn a_fetch_is_named_as_in_the_graph() {
    let data = small().snapshot();
    let c = output(&data, "c", 0);
    assert_eq!(Fetch::Value(c).name(&data), "c:0");
    assert_eq!(Fetch::Run(c.node).name(&data), "c");
    assert_eq!(Fetch::Run(NodeId::INVALID).name(&data), "<invalid>");
}

#[test]
fn instructions_run_at_once_on_the_threads_of_their_device_and_the_cores() {
    let planner = Planner::cpus(&[4]);
    for (parallel, cores, threads) in [
        (Parallel::Never, 8, 1),
        (Parallel::Always, 1, 4),
        (Parallel::WhereWorth, 8, 4),
        (Parallel::WhereWorth, 3, 3),
        (Parallel::WhereWorth, 0, 1),
    ] {
        let context = PlanContext {
            parallel,
            cores,
            ..planner.context()
        };
        assert_eq!(context.threads(0), threads, "{parallel:?}, {cores}");
    }
}

#[test]
fn a_call_of_a_function_draws_from_counters_of_its_own() {
    let planner = Planner::cpus(&[1]);
    let context = planner.context();
    let inner = PlanContext {
        path: "outer/call",
        ..context
    };
    assert!(Arc::ptr_eq(
        &context.counter("noise"),
        &context.counter("noise")
    ));
    assert!(!Arc::ptr_eq(
        &context.counter("noise"),
        &inner.counter("noise")
    ));
    let names = planner.session.counters.state();
    let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["noise", "outer/call/noise"]);
}
