//! Broadcast of variables from one rank.

use thalweg_collective::ALL_RANKS;
use thalweg_graph::{Graph, Operation};
use thalweg_ops::{CollectiveOps, StateOps, Variable};

/// Broadcasts variables from one rank.
#[track_caller]
pub(crate) fn broadcast<'g>(
    graph: &'g Graph,
    variables: &[Variable<'g>],
    root: usize,
) -> Operation<'g> {
    let of_root =
        |v: &Variable<'g>| v.colocate(|| v.assign(v.read().broadcast_from(root, ALL_RANKS)));
    let assigned: Vec<Operation<'g>> = variables.iter().map(of_root).collect();
    graph.group("broadcast_variables", assigned)
}
