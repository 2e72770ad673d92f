//! An update in two halves: what it uses, and what it writes.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_graph::op::Effect;
use thalweg_graph::{Graph, GraphData, NodeId, Operation, Output, OutputId};
use thalweg_tensor::DType;

/// The halves.
#[derive(Default)]
pub(super) struct Halves<'g> {
    /// Keeps what the other half uses.
    pub(super) prepare: Vec<Operation<'g>>,
    /// Writes the variables.
    pub(super) commit: Vec<Operation<'g>>,
}

/// Splits an update before its first writes: every write, and every node that comes after one, is built once more, in the
/// second half. What such a node takes from elsewhere is kept beside it under `name`, by the first half.
///
/// Nodes that decide what runs belong to the second half too: whether they let a value through cannot be kept.
///
/// # Errors
/// The update has a loop, which cannot be built once more.
pub(super) fn split<'g>(
    update: Operation<'g>,
    token: Output<'g>,
    name: &str,
) -> Result<Halves<'g>, String> {
    if update.is_invalid() {
        return Ok(Halves::default());
    }
    let g = update.graph();
    let data = g.snapshot();
    let order = ancestors(&data, update.id());
    let mut second: BTreeSet<NodeId> = BTreeSet::new();
    for &id in &order {
        let node = data.node(id);
        if node.op.name.ends_with("NextIteration") {
            return Err(format!(
                "the update has a loop, at '{}': no update with a loop happens on all servers or on none",
                node.name
            ));
        }
        let after = |n: &NodeId| second.contains(n);
        let writes = matches!(node.op.effect, Effect::Write | Effect::Flow);
        if writes || node.inputs.iter().any(|i| after(&i.node)) || node.controls.iter().any(after) {
            second.insert(id);
        }
    }
    let mut split = Split {
        g,
        data: &data,
        token,
        name,
        built: BTreeMap::new(),
        kept: BTreeMap::new(),
        halves: Halves::default(),
    };
    for id in order.into_iter().filter(|id| second.contains(id)) {
        // What only orders others is not built: those that it orders are on several servers.
        if data.node(id).op.effect != Effect::Control {
            split.build(id);
        }
    }
    Ok(split.halves)
}

/// The nodes that a node needs, and it, each after those that it needs.
fn ancestors(data: &GraphData, last: NodeId) -> Vec<NodeId> {
    let needed = data.needed(std::iter::once(last), |_| false);
    data.order(&needed)
}

struct Split<'g, 'd> {
    g: &'g Graph,
    data: &'d GraphData,
    token: Output<'g>,
    name: &'d str,
    /// Nodes of the second half, by those that they are built from.
    built: BTreeMap<NodeId, Operation<'g>>,
    /// Values that are kept, by the output that they are of and the place.
    kept: BTreeMap<(OutputId, Place), Output<'g>>,
    halves: Halves<'g>,
}

/// Where a value is kept: on a device that is known, or beside a node.
type Place = Result<String, NodeId>;

impl<'g> Split<'g, '_> {
    /// The node beside which a node of the second half stands: the variable that it writes, or itself.
    fn beside(&self, id: NodeId) -> NodeId {
        let inputs = self.data.node(id).inputs.iter();
        let mut handles = inputs.filter(|&&i| self.g.output(i).dtype() == DType::Resource);
        handles.next().map_or(id, |handle| handle.node)
    }

    /// Where a node of the second half stands.
    fn place(&self, id: NodeId) -> Place {
        let beside = self.beside(id);
        let device = &self.data.node(beside).device;
        match device.task {
            Some(_) => Ok(device.to_string()),
            None => Err(beside),
        }
    }

    /// Builds a node of the second half.
    fn build(&mut self, id: NodeId) {
        let node = self.data.node(id);
        let inputs: Vec<Output<'g>> = node.inputs.iter().map(|&i| self.input(i, id)).collect();
        let controls = self.controls(id);
        let own = self.g.operation(self.beside(id));
        let built = self.g.colocate_with(own, || {
            let mut builder = self.g.op(node.op.name).name(&node.name).inputs(inputs);
            for (name, value) in node.attrs.iter().filter(|(name, _)| !name.starts_with('_')) {
                builder = builder.attr(name, value.clone());
            }
            controls.iter().fold(builder, |b, &c| b.control(c)).build()
        });
        self.built.insert(id, built);
        self.halves.commit.push(built);
    }

    /// The nodes of the second half that a node of it waits for. Those of other places write other variables, and what
    /// they take is kept already: nothing has to wait for them.
    fn controls(&self, id: NodeId) -> Vec<Operation<'g>> {
        let mut open: Vec<NodeId> = self.data.node(id).controls.to_vec();
        let mut found = BTreeMap::new();
        let mut seen = BTreeSet::new();
        while let Some(control) = open.pop() {
            if !seen.insert(control) {
                continue;
            }
            match self.built.get(&control) {
                Some(&built) if self.place(control) == self.place(id) => {
                    found.insert(control, built);
                }
                Some(_) => {}
                None if self.data.node(control).op.effect == Effect::Control => {
                    open.extend(self.data.node(control).controls.iter().copied());
                }
                None => {}
            }
        }
        found.into_values().collect()
    }

    /// What a node of the second half takes in place of an output.
    fn input(&mut self, input: OutputId, of: NodeId) -> Output<'g> {
        if let Some(built) = self.built.get(&input.node) {
            return built.output(input.index);
        }
        let output = self.g.output(input);
        let node = self.data.node(input.node);
        let constant = node.op.effect == Effect::Pure && node.inputs.is_empty();
        // Every task has the constants and feeds that it uses.
        if constant || node.op.effect == Effect::Feed || output.dtype() == DType::Resource {
            return output;
        }
        let (beside, place) = (self.beside(of), self.place(of));
        if let Some(&kept) = self.kept.get(&(input, place.clone())) {
            return kept;
        }
        let (token, fact) = (self.token, output.fact());
        let shared = format!("sync/{}/kept_{}", self.name, self.kept.len());
        let (keep, kept) = self.g.colocate_with(self.g.operation(beside), || {
            let keep = self.g.op("_TurnKeep").input(token).input(output);
            let kept = self.g.op("_TurnKept").input(token);
            let kept = kept.attr("dtype", fact.dtype).attr("shape", fact.shape);
            (
                keep.attr("shared_name", shared.clone()).build(),
                kept.attr("shared_name", shared).output(),
            )
        });
        self.halves.prepare.push(keep);
        self.kept.insert((input, place), kept);
        kept
    }
}
