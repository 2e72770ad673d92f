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
