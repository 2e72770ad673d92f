//! Names of feeds, fetches and targets, resolved in a session's graph.

use std::collections::HashSet;

use thalweg_graph::{Graph, NodeId, OutputId};
use thalweg_graphdef::names;

use super::status::Status;

/// Resolves a fetch.
pub(super) fn fetch(graph: &Graph, name: &str) -> Result<OutputId, Status> {
    output(
        graph,
        name,
        || Status::not_found(format!("FetchOutputs node {name}: not found")),
        |most| {
            Status::invalid(format!(
                "FetchOutputs {name}: output index too large, must be < {most}"
            ))
        },
    )
}

/// Resolves a feed.
pub(super) fn feed(graph: &Graph, name: &str) -> Result<OutputId, Status> {
    output(
        graph,
        name,
        || Status::not_found(format!("FeedInputs: unable to find feed output {name}")),
        |most| {
            Status::invalid(format!(
                "FeedInputs: {name} should have output index < {most}"
            ))
        },
    )
}

fn output(
    graph: &Graph,
    name: &str,
    missing: impl Fn() -> Status,
    beyond: impl Fn(usize) -> Status,
) -> Result<OutputId, Status> {
    let (node, index) = names::output(name).ok_or_else(&missing)?;
    let found = graph.find(node).ok_or_else(&missing)?;
    let count = found.outputs().len();
    match (index as usize) < count {
        true => Ok(found.output(index).id()),
        false => Err(beyond(count)),
    }
}

/// Resolves targets.
pub(super) fn targets(graph: &Graph, names: &[String]) -> Result<Vec<NodeId>, Status> {
    let mut missing = String::new();
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        match graph.find(name) {
            Some(node) => found.push(node.id()),
            None => missing += &format!("{name} "),
        }
    }
    match missing.is_empty() {
        true => Ok(found),
        false => Err(Status::not_found(format!(
            "PruneForTargets: Some target nodes not found: {missing}"
        ))),
    }
}

/// Checks that no output is fed twice, or both fed and fetched.
pub(super) fn check_disjoint<'a>(
    feeds: impl Iterator<Item = &'a str>,
    fetches: impl Iterator<Item = &'a str>,
) -> Result<(), Status> {
    let mut fed = HashSet::new();
    for name in feeds {
        if !fed.insert(name) {
            return Err(Status::invalid(format!(
                "Endpoint \"{name}\" fed more than once."
            )));
        }
    }
    for name in fetches {
        if fed.contains(name) {
            return Err(Status::invalid(format!("{name} is both fed and fetched.")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use thalweg_ops::{NewGraph, SourceOps};
    use thalweg_tensor::DType;
    use tonic::Code;

    use super::*;

    #[test]
    fn names_of_feeds_and_fetches_are_resolved() {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, []);
        type Resolve = fn(&Graph, &str) -> Result<OutputId, Status>;
        for (resolve, kind) in [(fetch as Resolve, "Fetch"), (feed as Resolve, "Feed")] {
            for name in ["x", "x:0"] {
                assert_eq!(resolve(&g, name), Ok(x.id()), "{kind} {name}");
            }
            for (name, code) in [
                ("", Code::NotFound),
                ("y", Code::NotFound),
                ("x:y", Code::NotFound),
                ("x:1", Code::InvalidArgument),
            ] {
                let error = resolve(&g, name).unwrap_err();
                assert_eq!(error.code, code, "{kind} {name}: {error}");
                assert!(error.message.contains(name), "{error}");
            }
        }
    }

    #[test]
    fn all_missing_targets_are_named() {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, []);
        let resolve = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&n| n.to_owned()).collect();
            targets(&g, &names)
        };
        assert_eq!(resolve(&["x"]), Ok(vec![x.id().node]));
        let error = resolve(&["a", "x", "b"]).unwrap_err();
        assert!(error.message.ends_with("not found: a b "), "{error}");
    }

    #[test]
    fn an_output_is_fed_once_and_not_fetched() {
        for (feeds, fetches, wrong) in [
            (&["x:0", "y:0"][..], &["z:0", "z:0"][..], None),
            (&["x:0", "y:0", "x:0"], &[], Some("fed more than once")),
            (
                &["x:0"],
                &["z:0", "x:0"],
                Some("x:0 is both fed and fetched"),
            ),
        ] {
            let checked = check_disjoint(feeds.iter().copied(), fetches.iter().copied());
            let error = checked.err().map(|e| e.message).unwrap_or_default();
            assert_eq!(error.is_empty(), wrong.is_none(), "{error}");
            assert!(error.contains(wrong.unwrap_or_default()), "{error}");
        }
    }
}
