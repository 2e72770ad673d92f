//! Loops of Enter, Merge, Switch, NextIteration and Exit that become a `While`.

use rustc_hash::{FxHashMap, FxHashSet};

use super::copied::{CallOps, CopiedBody};
use super::parts::Parts;
use crate::data::GraphData;
use crate::flow::contexts::{Level, value_of};
use crate::flow::ops::{ENTER, EXIT, MERGE, NEXT, SWITCH};
use crate::function::Function;
use crate::node::{Fact, NodeId, OutputId};
use crate::op::Effect;

/// A loop in the form that TensorFlow's `while_loop` and its gradient build.
pub(super) struct Loop {
    /// The values that it carries from iteration to iteration.
    variables: Vec<LoopVariable>,
    /// The value on which it goes on: the output of its LoopCond.
    goes_on: OutputId,
    /// The Enter nodes of values that are the same in every iteration.
    constants: Vec<NodeId>,
    /// The Switch nodes on the condition.
    switches: Vec<NodeId>,
    /// The nodes that compute the condition, by number.
    condition: Vec<NodeId>,
    /// The nodes of the body, by number.
    body: Vec<NodeId>,
}

/// A value that a loop carries from iteration to iteration.
struct LoopVariable {
    enter: NodeId,
    merge: NodeId,
    /// The value after an iteration.
    next: OutputId,
    /// The node through which the last value leaves.
    exit: Option<NodeId>,
}

/// `true` if a Switch depends on this value.
fn decides(graph: &GraphData, switch: NodeId, value: OutputId) -> bool {
    let on = graph.node(switch).inputs.get(1);
    on.is_some_and(|&on| value_of(graph, on) == value)
}

/// The functions of a loop, and the values that it takes.
pub(super) struct LoopCall {
    pub(super) inputs: Vec<OutputId>,
    pub(super) condition: Function,
    pub(super) body: Function,
    /// By output of the loop: the output of the graph that it stands for, and its fact.
    pub(super) outputs: Vec<(Option<OutputId>, Fact)>,
}

/// The place of a node in a loop.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Condition,
    Body,
    /// Behind the Switch, on the side that ends the loop.
    End,
}

impl Loop {
    /// The loop of these nodes; `None` where they have another form.
    pub(super) fn find(parts: &Parts<'_>, members: &[NodeId]) -> Option<Loop> {
        let graph = parts.graph;
        let op = |id: NodeId| graph.node(id).op.name;
        let goes_on = members
            .iter()
            .find(|&&m| op(m) == "LoopCond" && parts.place(m).depth == 1);
        let goes_on = OutputId {
            node: *goes_on?,
            index: 0,
        };
        let mut found = Loop {
            variables: Vec::new(),
            goes_on,
            constants: Vec::new(),
            switches: Vec::new(),
            condition: Vec::new(),
            body: Vec::new(),
        };
        let mut enters: FxHashSet<NodeId> = FxHashSet::default();
        let mut nexts: FxHashMap<NodeId, OutputId> = FxHashMap::default();
        let mut exits: FxHashMap<OutputId, NodeId> = FxHashMap::default();
        for &id in members {
            let node = graph.node(id);
            let around = parts.place(id);
            let place = match around.second {
                None => Place::Condition,
                Some(Level::Branch(on, 1)) if *on == goes_on => Place::Body,
                Some(Level::Branch(on, _)) if *on == goes_on => Place::End,
                Some(Level::Unknown) => return None,
                Some(_) => Place::Condition,
            };
            // Control flow of the loop itself; that of loops and branches inside is left to their own compilation.
            let own = around.depth - u32::from(place != Place::Condition) == 1;
            match (node.op.name, place) {
                (ENTER, Place::Condition) if own => match node.attrs.bool("is_constant") {
                    true => found.constants.push(id),
                    false => _ = enters.insert(id),
                },
                (MERGE, Place::Condition) if own && enters.contains(&node.inputs.first()?.node) => {
                    let [enter, next] = node.inputs[..] else {
                        return None;
                    };
                    found.variables.push(LoopVariable {
                        enter: enter.node,
                        merge: id,
                        next,
                        exit: None,
                    });
                }
                (SWITCH, Place::Condition) if own && decides(graph, id, goes_on) => {
                    found.switches.push(id);
                }
                (NEXT, Place::Body) if own => _ = nexts.insert(id, node.inputs[0]),
                (EXIT, Place::End) if own && node.controls.is_empty() => {
                    exits.insert(value_of(graph, node.inputs[0]), id);
                }
                // The last values under other names.
                ("Identity" | "NoOp", Place::End) => {}
                (_, Place::End) => return None,
                (_, Place::Condition) => found.condition.push(id),
                (_, Place::Body) => found.body.push(id),
            }
        }
        found.close(graph, &enters, nexts, exits)?;
        found.add_condition_of_body(graph)?;
        found.leaves_by_exits(parts, members).then_some(found)
    }

    /// Fills in what comes after the merges in order: the next values and the exits.
    fn close(
        &mut self,
        graph: &GraphData,
        enters: &FxHashSet<NodeId>,
        nexts: FxHashMap<NodeId, OutputId>,
        mut exits: FxHashMap<OutputId, NodeId>,
    ) -> Option<()> {
        let switches: FxHashMap<NodeId, NodeId> = self
            .switches
            .iter()
            .map(|&s| (graph.node(s).inputs[0].node, s))
            .collect();
        for variable in &mut self.variables {
            variable.next = *nexts.get(&variable.next.node)?;
            if let Some(&node) = switches.get(&variable.merge) {
                variable.exit = exits.remove(&OutputId { node, index: 0 });
            }
        }
        // Every way in, on and out belongs to a value that is carried.
        let whole = enters.len() == self.variables.len()
            && nexts.len() == self.variables.len()
            && exits.is_empty();
        whole.then_some(())
    }

    /// Adds the nodes of the condition whose values the body uses to the body.
    fn add_condition_of_body(&mut self, graph: &GraphData) -> Option<()> {
        let condition: FxHashSet<NodeId> = self.condition.iter().copied().collect();
        let mut added: FxHashSet<NodeId> = FxHashSet::default();
        let in_body = self.body.iter().chain(&self.switches);
        let mut stack: Vec<NodeId> = in_body
            .flat_map(|&n| graph.node(n).inputs.iter().map(|i| i.node))
            .chain(self.variables.iter().map(|v| v.next.node))
            .collect();
        while let Some(at) = stack.pop() {
            if condition.contains(&at) && at != self.goes_on.node && added.insert(at) {
                let node = graph.node(at);
                // It would run twice.
                if node.op.effect != Effect::Pure {
                    return None;
                }
                stack.extend(node.inputs.iter().map(|i| i.node));
            }
        }
        self.body.extend(added);
        self.body.sort_unstable();
        Some(())
    }

    /// `true` for a node through which a last value leaves.
    pub(super) fn gives(&self, node: NodeId) -> bool {
        self.variables.iter().any(|v| v.exit == Some(node))
    }

    /// `true` if no value leaves the loop but by an exit.
    fn leaves_by_exits(&self, parts: &Parts<'_>, members: &[NodeId]) -> bool {
        let own = members.first().and_then(|&m| parts.part_of(m));
        let exits: FxHashSet<NodeId> = self.variables.iter().filter_map(|v| v.exit).collect();
        let stays = |user| parts.part_of(user) == own;
        let mut inside = members.iter().filter(|m| !exits.contains(m));
        inside.all(|&m| parts.graph.consumers(m).all(stays))
    }

    /// The call that the loop becomes; `None` if a node uses a value that is not at hand. The functions have these
    /// names.
    pub(super) fn call(
        &self,
        graph: &GraphData,
        ops: CallOps,
        (condition_name, body_name): (&str, &str),
    ) -> Option<LoopCall> {
        let merged = |node| OutputId { node, index: 0 };
        let fact = |o: OutputId| graph.fact(o).cloned();
        // By argument: the output of the graph that it stands for in an iteration, and its fact.
        let mut arguments: Vec<(OutputId, Fact)> = Vec::new();
        let mut inputs: Vec<OutputId> = Vec::new();
        for variable in &self.variables {
            let merge = merged(variable.merge);
            arguments.push((merge, fact(merge)?));
            inputs.push(graph.node(variable.enter).inputs[0]);
        }
        for outside in self.outside(graph) {
            arguments.push((outside, fact(outside)?));
            inputs.push(outside);
        }
        let carried = self.variables.len();
        let source = graph.node(self.goes_on.node);
        let mut condition = CopiedBody::new(graph, ops, &arguments);
        self.enter(graph, &mut condition)?;
        for &id in &self.condition {
            if id == self.goes_on.node {
                condition.alias(self.goes_on, source.inputs[0])?;
            } else {
                condition.copy(id)?;
            }
        }
        let mut body = CopiedBody::new(graph, ops, &arguments);
        self.enter(graph, &mut body)?;
        let mut switches = self.switches.iter().copied().peekable();
        for &id in &self.body {
            while let Some(switch) = switches.next_if(|&s| s < id) {
                Self::pass(graph, &mut body, switch)?;
            }
            body.copy(id)?;
        }
        switches.try_for_each(|switch| Self::pass(graph, &mut body, switch))?;
        let next = self.variables.iter().map(|v| v.next);
        let next: Vec<OutputId> = next.chain(inputs[carried..].iter().copied()).collect();
        let exits = self.variables.iter().map(|v| v.exit.map(merged));
        let exits = exits.chain(inputs[carried..].iter().map(|_| None));
        let outputs = exits.zip(&arguments).map(|(exit, (_, argument))| {
            let fact = exit.and_then(fact).unwrap_or_else(|| argument.clone());
            (exit, fact.without_value())
        });
        let outputs = outputs.collect();
        Some(LoopCall {
            condition: condition.function(condition_name, &[self.goes_on], source)?,
            body: body.function(body_name, &next, source)?,
            outputs,
            inputs,
        })
    }

    /// Lets the outputs of the loop's Enter nodes stand for the values that come in.
    fn enter(&self, graph: &GraphData, body: &mut CopiedBody<'_>) -> Option<()> {
        for &node in &self.constants {
            body.alias(OutputId { node, index: 0 }, graph.node(node).inputs[0])?;
        }
        Some(())
    }

    /// Lets the output of a Switch of the body stand for its input.
    fn pass(graph: &GraphData, body: &mut CopiedBody<'_>, node: NodeId) -> Option<()> {
        body.alias(OutputId { node, index: 1 }, graph.node(node).inputs[0])
    }

    /// The outputs outside of the loop that its nodes use, but for known values.
    fn outside(&self, graph: &GraphData) -> Vec<OutputId> {
        let mut inside: FxHashSet<NodeId> = FxHashSet::default();
        let own = [&self.constants, &self.switches, &self.condition, &self.body];
        inside.extend(own.into_iter().flatten());
        inside.extend(self.variables.iter().map(|v| v.merge));
        let users = own.into_iter().flatten();
        let used = users.flat_map(|&n| graph.node(n).inputs.iter().copied());
        let used = used.chain(self.variables.iter().map(|v| v.next));
        let mut outside: Vec<OutputId> = Vec::new();
        let mut seen: FxHashSet<OutputId> = FxHashSet::default();
        for output in used {
            let known = crate::simplified::known(graph.node(output.node));
            if !inside.contains(&output.node) && !known && seen.insert(output) {
                outside.push(output);
            }
        }
        outside
    }
}
