//! Branches of Switch and Merge that become an `If`.

use rustc_hash::FxHashSet;

use super::copied::{CallOps, CopiedBody};
use super::part_order::PartId;
use super::parts::Parts;
use crate::data::GraphData;
use crate::flow::ops::{MERGE, SWITCH};
use crate::function::Function;
use crate::node::{Fact, Node, NodeId, OutputId};
use crate::simplified::known;
use thalweg_tensor::{DType, Shape, Tensor};

/// The two branches of a value.
pub(super) struct Branches {
    /// The value that decides.
    on: OutputId,
    switches: Vec<NodeId>,
    merges: Vec<Merged>,
    /// The nodes of each branch, by number: where the value is false, and where it is true.
    sides: [Vec<NodeId>; 2],
    /// The outputs of a branch that later nodes on the same side use.
    shared: Vec<(OutputId, u32)>,
}

/// A value that comes out of one of two branches.
struct Merged {
    node: NodeId,
    /// By side: the number of the input that comes from there.
    inputs: [usize; 2],
    /// `true` if the number of the input is used.
    says_which: bool,
}

/// The functions of two branches, and the values that they take.
pub(super) struct BranchCall {
    /// The value that decides, and the arguments.
    pub(super) inputs: Vec<OutputId>,
    /// The functions, false first.
    pub(super) functions: [Function; 2],
    /// By output: the output of the graph that it stands for, and its fact.
    pub(super) outputs: Vec<(OutputId, Fact)>,
}

impl Branches {
    /// The branches of these nodes of a part; `None` where they have another form.
    pub(super) fn find(
        parts: &Parts<'_>,
        number: PartId,
        on: OutputId,
        fetched: &FxHashSet<OutputId>,
    ) -> Option<Branches> {
        let graph = parts.graph;
        let mut found = Branches {
            on,
            switches: Vec::new(),
            merges: Vec::new(),
            sides: [Vec::new(), Vec::new()],
            shared: Vec::new(),
        };
        for &id in &parts.parts[number as usize].members {
            let node = graph.node(id);
            let here = OutputId { node: id, index: 0 };
            let outside = parts.place(id).depth == 0;
            match node.op.name {
                SWITCH if outside => found.switches.push(id),
                MERGE if outside => {
                    let [a, b] = node.inputs[..] else {
                        return None;
                    };
                    let inputs = match (parts.side(on, a)?, parts.side(on, b)?) {
                        (0, 1) => [0, 1],
                        (1, 0) => [1, 0],
                        _ => return None,
                    };
                    // A handle belongs to the session's variables, which a call's result does not tell.
                    if !node.controls.is_empty() || node.outputs[0].dtype == DType::Resource {
                        return None;
                    }
                    let which = OutputId { node: id, index: 1 };
                    let used = |user: NodeId| graph.node(user).inputs.contains(&which);
                    found.merges.push(Merged {
                        node: id,
                        inputs,
                        says_which: fetched.contains(&which) || graph.consumers(id).any(used),
                    });
                    continue;
                }
                _ => found.sides[parts.side(on, here)? as usize].push(id),
            }
            found.share(parts, number, id)?;
        }
        Some(found)
    }

    /// `true` for a node through which a value comes out.
    pub(super) fn gives(&self, node: NodeId) -> bool {
        self.merges.iter().any(|m| m.node == node)
    }

    /// Notes the outputs of a node of a branch that nodes of other parts use; `None` if one of these is not on the same
    /// side.
    fn share(&mut self, parts: &Parts<'_>, number: PartId, id: NodeId) -> Option<()> {
        let graph = parts.graph;
        let mut seen: FxHashSet<OutputId> = FxHashSet::default();
        for user in graph.consumers(id) {
            if parts.part_of(user) == Some(number) {
                continue;
            }
            let node = graph.node(user);
            let side = |o: OutputId| parts.side(self.on, o);
            // The order is that of the calls.
            let used = node.inputs.iter().filter(|i| i.node == id);
            for &output in used {
                let merges = node.op.name == MERGE && parts.place(user).depth == 0;
                let fits = match merges {
                    true => parts.is_branch_of(user, self.on),
                    false => {
                        side(output).is_some()
                            && side(output)
                                == side(OutputId {
                                    node: user,
                                    index: 0,
                                })
                    }
                };
                let fact = graph.fact(output)?;
                if !fits || fact.dtype.is_handle() {
                    return None;
                }
                if seen.insert(output) {
                    self.shared.push((output, side(output)?));
                }
            }
        }
        Some(())
    }

    /// The call that the branches become; `None` if a node uses a value that is not at hand. The functions have these
    /// names, false first.
    pub(super) fn call(
        &self,
        graph: &GraphData,
        ops: CallOps,
        names: [&str; 2],
    ) -> Option<BranchCall> {
        let mut arguments: Vec<(OutputId, Fact)> = Vec::new();
        for output in self.outside(graph) {
            arguments.push((output, graph.fact(output)?.clone()));
        }
        let outputs = self.outputs(graph)?;
        let mut functions = Vec::new();
        for (side, name) in names.into_iter().enumerate() {
            let body = CopiedBody::new(graph, ops, &arguments);
            functions.push(self.function(graph, body, side, &outputs, name)?);
        }
        let inputs = std::iter::once(self.on).chain(arguments.iter().map(|(o, _)| *o));
        Some(BranchCall {
            inputs: inputs.collect(),
            functions: functions.try_into().ok()?,
            outputs,
        })
    }

    /// The outputs of the call. One of a branch alone has any shape: the other branch has no value for it.
    fn outputs(&self, graph: &GraphData) -> Option<Vec<(OutputId, Fact)>> {
        let mut outputs = Vec::new();
        for merged in &self.merges {
            for index in 0..1 + u32::from(merged.says_which) {
                let node = merged.node;
                let output = OutputId { node, index };
                outputs.push((output, graph.fact(output)?.clone().without_value()));
            }
        }
        for &(output, _) in &self.shared {
            let fact = graph.fact(output)?;
            outputs.push((output, Fact::new(fact.dtype, Shape::unknown())));
        }
        Some(outputs)
    }

    /// The function of one side.
    fn function(
        &self,
        graph: &GraphData,
        mut body: CopiedBody<'_>,
        side: usize,
        outputs: &[(OutputId, Fact)],
        name: &str,
    ) -> Option<Function> {
        let index = side as u32;
        let mut switches = self.switches.iter().copied().peekable();
        let pass = |body: &mut CopiedBody<'_>, node: NodeId| {
            body.alias(OutputId { node, index }, graph.node(node).inputs[0])
        };
        for &id in &self.sides[side] {
            while let Some(switch) = switches.next_if(|&s| s < id) {
                pass(&mut body, switch)?;
            }
            body.copy(id)?;
        }
        switches.try_for_each(|switch| pass(&mut body, switch))?;
        for merged in &self.merges {
            let node = graph.node(merged.node);
            let input = merged.inputs[side];
            body.alias(
                OutputId {
                    node: merged.node,
                    index: 0,
                },
                node.inputs[input],
            )?;
            if !merged.says_which {
                continue;
            }
            let value = Tensor::scalar(input as i32);
            let which = body.constant(format!("{}/value_index", node.name), node, value);
            body.set(
                OutputId {
                    node: merged.node,
                    index: 1,
                },
                which,
            );
        }
        for &(output, from) in &self.shared {
            if from != index {
                let source: &Node = graph.node(output.node);
                let name = format!("{}/no_value", graph.output_name(output).replace(':', "_"));
                let none = body.no_value(name, source, graph.fact(output)?);
                body.set(output, none);
            }
        }
        let results: Vec<OutputId> = outputs.iter().map(|(o, _)| *o).collect();
        body.function(name, &results, graph.node(self.on.node))
    }

    /// The outputs outside of the branches that their nodes use, but for known values.
    fn outside(&self, graph: &GraphData) -> Vec<OutputId> {
        let mut inside: FxHashSet<NodeId> = FxHashSet::default();
        let nodes = || {
            let merges = self.merges.iter().map(|m| &m.node);
            let sides = self.sides.iter().flatten();
            self.switches.iter().chain(sides).chain(merges)
        };
        inside.extend(nodes());
        let mut outside: Vec<OutputId> = Vec::new();
        let mut seen: FxHashSet<OutputId> = FxHashSet::default();
        for &id in nodes() {
            let node = graph.node(id);
            let count = match node.op.name == SWITCH && self.switches.contains(&id) {
                true => 1,
                false => node.inputs.len(),
            };
            for &input in &node.inputs[..count] {
                if !inside.contains(&input.node)
                    && !known(graph.node(input.node))
                    && seen.insert(input)
                {
                    outside.push(input);
                }
            }
        }
        outside
    }
}
