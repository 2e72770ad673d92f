//! Split of an update into two phases: prepare (compute and keep all values that it uses) and commit (write the
//! variables).

use std::collections::{BTreeMap, BTreeSet};

use thalweg_graph::op::Effect;
use thalweg_graph::{Graph, GraphData, NodeId, Operation, Output, OutputId};
use thalweg_tensor::DType;

/// The two phases of an update.
#[derive(Default)]
pub(super) struct TwoPhaseUpdate<'g> {
    /// Compute and keep the values that the commit uses.
    pub(super) prepare: Vec<Operation<'g>>,
    /// Write the variables.
    pub(super) commit: Vec<Operation<'g>>,
}

/// Splits an update before its first writes: every write, and every node that comes after one, is built once more, in
/// the commit. A value that such a node takes from elsewhere is kept on its device under `name`, by the prepare phase.
///
/// Nodes of control flow belong to the commit too: a dead value cannot be kept.
///
/// # Errors
/// The update has a loop, which cannot be rebuilt.
pub(super) fn split<'g>(
    update: Operation<'g>,
    token: Output<'g>,
    name: &str,
) -> Result<TwoPhaseUpdate<'g>, String> {
    if update.is_invalid() {
        return Ok(TwoPhaseUpdate::default());
    }
    let g = update.graph();
    let data = g.snapshot();
    let order = ancestors(&data, update.id());
    let mut commit_nodes: BTreeSet<NodeId> = BTreeSet::new();
    for &id in &order {
        let node = data.node(id);
        if node.op.name.ends_with("NextIteration") {
            return Err(format!(
                "the update has a loop, at '{}': no update with a loop happens on all servers or on none",
                node.name
            ));
        }
        let after = |n: &NodeId| commit_nodes.contains(n);
        let writes = matches!(node.op.effect, Effect::Write | Effect::Flow);
        if writes || node.inputs.iter().any(|i| after(&i.node)) || node.controls.iter().any(after) {
            commit_nodes.insert(id);
        }
    }
    let mut splitter = Splitter {
        g,
        data: &data,
        token,
        name,
        built: BTreeMap::new(),
        kept: BTreeMap::new(),
        update: TwoPhaseUpdate::default(),
    };
    for id in order.into_iter().filter(|id| commit_nodes.contains(id)) {
        // Nodes that only order others are not built: the nodes that they order are on several servers.
        if data.node(id).op.effect != Effect::Control {
            splitter.build(id);
        }
    }
    Ok(splitter.update)
}

/// A node and its ancestors, in topological order.
fn ancestors(data: &GraphData, last: NodeId) -> Vec<NodeId> {
    let needed = data.needed(std::iter::once(last), |_| false);
    data.topological_order(&needed)
}

struct Splitter<'g, 'd> {
    g: &'g Graph,
    data: &'d GraphData,
    token: Output<'g>,
    name: &'d str,
    /// Nodes of the commit, by the nodes that they are rebuilt from.
    built: BTreeMap<NodeId, Operation<'g>>,
    /// Kept values, by output and place.
    kept: BTreeMap<(OutputId, Place), Output<'g>>,
    update: TwoPhaseUpdate<'g>,
}

/// Place of a kept value: a known device, or the device of a node.
type Place = Result<String, NodeId>;

impl<'g> Splitter<'g, '_> {
    /// The node that a node of the commit is colocated with: the variable that it writes, or itself.
    fn colocation_target(&self, id: NodeId) -> NodeId {
        let inputs = self.data.node(id).inputs.iter();
        let mut handles = inputs.filter(|&&i| self.g.output(i).dtype() == DType::Resource);
        handles.next().map_or(id, |handle| handle.node)
    }

    /// The place of a node of the commit.
    fn place(&self, id: NodeId) -> Place {
        let target = self.colocation_target(id);
        let device = &self.data.node(target).device;
        match device.task {
            Some(_) => Ok(device.to_string()),
            None => Err(target),
        }
    }

    /// Builds a node of the commit.
    fn build(&mut self, id: NodeId) {
        let node = self.data.node(id);
        let inputs: Vec<Output<'g>> = node.inputs.iter().map(|&i| self.input(i, id)).collect();
        let controls = self.controls(id);
        let own = self.g.operation(self.colocation_target(id));
        let built = self.g.colocate_with(own, || {
            let mut builder = self.g.op(node.op.name).name(&node.name).inputs(inputs);
            for (name, value) in node.attrs.iter().filter(|(name, _)| !name.starts_with('_')) {
                builder = builder.attr(name, value.clone());
            }
            controls.iter().fold(builder, |b, &c| b.control(c)).build()
        });
        self.built.insert(id, built);
        self.update.commit.push(built);
    }

    /// The nodes of the commit that a node of it waits for. Those at other places write other variables, and the values
    /// that they take are kept already: no wait is needed.
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

    /// The input of a node of the commit in place of an output.
    fn input(&mut self, input: OutputId, of: NodeId) -> Output<'g> {
        if let Some(built) = self.built.get(&input.node) {
            return built.output(input.index);
        }
        let output = self.g.output(input);
        let node = self.data.node(input.node);
        let constant = node.op.effect == Effect::Pure && node.inputs.is_empty();
        // Constants and feeds are on every task that uses them.
        if constant || node.op.effect == Effect::Feed || output.dtype() == DType::Resource {
            return output;
        }
        let (target, place) = (self.colocation_target(of), self.place(of));
        if let Some(&kept) = self.kept.get(&(input, place.clone())) {
            return kept;
        }
        let (token, fact) = (self.token, output.fact());
        let shared = format!("sync/{}/kept_{}", self.name, self.kept.len());
        let (keep, kept) = self.g.colocate_with(self.g.operation(target), || {
            let keep = self.g.op("_TurnKeep").input(token).input(output);
            let kept = self.g.op("_TurnKept").input(token);
            let kept = kept.attr("dtype", fact.dtype).attr("shape", fact.shape);
            (
                keep.attr("shared_name", shared.clone()).build(),
                kept.attr("shared_name", shared).output(),
            )
        });
        self.update.prepare.push(keep);
        self.kept.insert((input, place), kept);
        kept
    }
}
