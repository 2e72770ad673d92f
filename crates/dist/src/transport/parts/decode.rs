//! Decodes the graph of a part, node by node.

use std::collections::{BTreeMap, HashSet};

use smallvec::SmallVec;
use thalweg_graph::check::check_node;
use thalweg_graph::flow::REGION;
use thalweg_graph::op::Effect;
use thalweg_graph::{Attr, Attrs, Fact, GraphData, Node, NodeId, OpDef, Origin, OutputId};
use thalweg_graphdef::tensor::Budget;
use thalweg_graphdef::{attr, dtype, shape};
use thalweg_tensor::{DType, Shape, Tensor};

use super::ops::{OpTable, is_cut_end};
use crate::limits::allowed_ops::{AllowedOps, refused};
use crate::transport::messages as wire;
use crate::transport::wire_error::WireError;

/// Decoder of a graph.
pub(super) struct PartDecoder<'a> {
    pub graph: GraphData,
    /// Number of nodes of the complete graph.
    pub count: usize,
    pub ops: &'a OpTable,
    pub allowed: &'a AllowedOps,
    pub budget: &'a mut Budget,
    /// `true` for the graph of a region, whose first nodes are its arguments.
    pub is_region: bool,
    /// Inputs from later nodes: the node, the index of the input, and its source.
    pub open: Vec<(NodeId, usize, OutputId)>,
}

impl PartDecoder<'_> {
    /// Decodes these nodes and closes the loops.
    pub(super) fn of(
        mut self,
        nodes: &[wire::Node],
        values: &mut dyn Iterator<Item = Tensor>,
    ) -> Result<GraphData, WireError> {
        for node in nodes {
            self.add(node, values)?;
        }
        self.closed()
    }

    /// Adds a node, with the same checks as a node that is built or imported.
    fn add(
        &mut self,
        node: &wire::Node,
        values: &mut dyn Iterator<Item = Tensor>,
    ) -> Result<(), WireError> {
        if !self.allowed.has(&node.op) {
            return Err(WireError::Forbidden(refused(&node.name, &node.op)));
        }
        let added = self.node(node, values);
        let mut added = added.map_err(|reason| node_error(&node.name, &node.op, reason))?;
        match (&node.region, std::ptr::eq(added.op, &REGION)) {
            (Some(region), true) => self.region(region, &mut added, values)?,
            (None, false) => {}
            _ => {
                let reason = "it stands for a region if it has one".to_owned();
                return Err(node_error(&node.name, &node.op, reason));
            }
        }
        self.graph.push(added);
        Ok(())
    }

    /// Decodes a node. The error is the reason alone.
    fn node(
        &mut self,
        node: &wire::Node,
        values: &mut dyn Iterator<Item = Tensor>,
    ) -> Result<Node, String> {
        let op = self.ops.get(node.op.as_str()).copied();
        let op = op.ok_or(
            "there is no such op on this task: start its server with it (SessionOptions::ops)",
        )?;
        let attrs = self.attrs(node, op)?;
        let (inputs, mut facts) = self.inputs(node, op)?;
        if self.is_region {
            // As the master does: a constant need not fit a node that does not run.
            for fact in &mut facts {
                *fact = fact.clone().without_value();
            }
        }
        let controls = self.controls(node)?;
        let (attrs, outputs) = match node.known {
            0 if is_cut_end(op) => {
                let fact = end(node)?;
                if !inputs.is_empty() || attrs.get("T") != Some(&Attr::Type(fact.dtype)) {
                    return Err("its dtype is not what it says".to_owned());
                }
                (attrs, SmallVec::from_elem(fact, 1))
            }
            0 => check_node(op, &facts, attrs).map_err(|e| e.to_string())?,
            count => {
                if op.effect != Effect::Pure || !inputs.is_empty() {
                    return Err("its value cannot be known before it runs".to_owned());
                }
                (attrs, known(count, values)?)
            }
        };
        Ok(Node {
            name: node.name.clone(),
            op,
            inputs,
            controls,
            attrs,
            device: Default::default(),
            colocation: SmallVec::new(),
            outputs,
            origin: Origin::Other(node.origin.as_str().into()),
        })
    }

    /// Decodes the attributes of a node.
    fn attrs(&mut self, node: &wire::Node, op: &OpDef) -> Result<Attrs, String> {
        let mut attrs = Attrs::default();
        let given = BTreeMap::new();
        for (name, value) in &node.attrs {
            let kind = op.attr(name).map(|a| a.kind);
            let mut cx = attr::AttrCx {
                budget: &mut *self.budget,
                given: &given,
            };
            let value = attr::from_proto(value, kind, &mut cx).map_err(|e| e.to_string())?;
            attrs.set(name.clone(), value);
        }
        Ok(attrs)
    }

    /// Decodes the inputs of the next node and their facts. Inputs from later nodes are left open.
    fn inputs(
        &mut self,
        node: &wire::Node,
        op: &OpDef,
    ) -> Result<(SmallVec<[OutputId; 4]>, Vec<Fact>), String> {
        let at = self.graph.id(self.graph.len());
        let mut inputs: SmallVec<[OutputId; 4]> = SmallVec::new();
        let mut facts: Vec<Fact> = Vec::with_capacity(node.inputs.len());
        for (position, input) in node.inputs.iter().enumerate() {
            let mut from = self.output(input);
            if self.is_later(input) {
                if !op.name.ends_with("Merge") || input.node as usize >= self.count {
                    return Err(format!("its input {position} comes after it"));
                }
                facts.push(self.fact_of_later(node));
                self.open.push((at, position, from));
                from.node = NodeId::INVALID;
            } else {
                let fact = self.graph.fact(from).cloned();
                let missing = || format!("its input {position} does not exist");
                facts.push(fact.ok_or_else(missing)?);
            }
            inputs.push(from);
        }
        Ok((inputs, facts))
    }

    /// Decodes an output.
    fn output(&self, output: &wire::Output) -> OutputId {
        OutputId {
            node: self.graph.id(output.node as usize),
            index: output.index,
        }
    }

    /// `true` if an input of the next node comes from itself or from a later node.
    fn is_later(&self, input: &wire::Output) -> bool {
        input.node as usize >= self.graph.len()
    }

    /// Returns the fact of a loop's back edge. As when a loop is built, it has the dtype of the loop's initial value.
    fn fact_of_later(&self, node: &wire::Node) -> Fact {
        let outer = node.inputs.iter().find(|i| !self.is_later(i));
        let outer = outer.and_then(|i| self.graph.fact(self.output(i)));
        Fact {
            reference: outer.is_some_and(|f| f.reference),
            ..Fact::new(outer.map_or(DType::F32, |f| f.dtype), Shape::unknown())
        }
    }

    /// Decodes the control inputs of the next node.
    fn controls(&self, node: &wire::Node) -> Result<SmallVec<[NodeId; 2]>, String> {
        let control = |&c: &u32| {
            let earlier = (c as usize) < self.graph.len();
            let late = || "it waits for what comes after it".to_owned();
            earlier.then(|| self.graph.id(c as usize)).ok_or_else(late)
        };
        node.controls.iter().map(control).collect()
    }

    /// Closes the loops and returns the graph.
    fn closed(mut self) -> Result<GraphData, WireError> {
        let mut seen = HashSet::new();
        for (node, input, from) in self.open {
            let merged = OutputId { node, index: 0 };
            let dtype = |o: OutputId| self.graph.fact(o).map(|f| f.dtype);
            let back = self.graph.get(from.node);
            let back = back.is_some_and(|n| n.op.name.ends_with("NextIteration"));
            // As when a loop is built, one input is a back edge.
            if !back || dtype(merged) != dtype(from) || !seen.insert(node) {
                let node = self.graph.node(node);
                let reason = format!("what comes back into its input {input} does not fit");
                return Err(node_error(&node.name, node.op.name, reason));
            }
            self.graph.close(node, input, from);
        }
        Ok(self.graph)
    }
}

/// Returns the error of an invalid node.
pub(super) fn node_error(node: &str, op: &str, reason: String) -> WireError {
    WireError::Node {
        node: node.to_owned(),
        op: op.to_owned(),
        reason,
    }
}

/// Decodes the fact of a node at a cut: the message states it.
fn end(node: &wire::Node) -> Result<Fact, String> {
    let [fact] = &node.facts[..] else {
        return Err("what is known of it is missing".to_owned());
    };
    let shape = shape::from_proto(&fact.shape.clone().unwrap_or_default());
    let dtype = dtype::from_number(fact.dtype).map_err(|e| e.to_string())?;
    Ok(Fact::new(dtype, shape.map_err(|e| e.to_string())?))
}

/// Returns the facts of a constant node, whose values are the next ones.
fn known(
    count: u32,
    values: &mut dyn Iterator<Item = Tensor>,
) -> Result<SmallVec<[Fact; 1]>, String> {
    let mut outputs = SmallVec::new();
    for _ in 0..count {
        let value = values.next().ok_or("its values are missing")?;
        outputs.push(Fact {
            value: Some(value.clone()),
            ..Fact::new(value.dtype(), value.shape())
        });
    }
    Ok(outputs)
}
