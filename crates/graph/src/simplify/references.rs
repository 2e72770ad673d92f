//! References to variables: replaces each op on references by its op on handles, and adds a read
//! before each use of the value.

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::Simplifier;
use crate::attr::{Attr, AttrKind};
use crate::check::check_node;
use crate::error::{GraphError, Reason};
use crate::flow::{ENTER, MERGE, SWITCH};
use crate::node::{Attrs, Fact, Node, NodeId, OutputId};
use crate::op::{ArgType, Effect, OpDef};
use thalweg_tensor::dtype::DType;
use thalweg_tensor::shape::Shape;

/// The sources of inputs, and their facts.
type Inputs = (SmallVec<[OutputId; 4]>, SmallVec<[Fact; 4]>);

impl Simplifier<'_> {
    /// The inputs of a node of the old graph, in the new one, and their facts; adds the nodes that
    /// it has to wait for because of them to `controls`.
    pub(super) fn inputs(
        &mut self,
        old: NodeId,
        controls: &mut SmallVec<[NodeId; 2]>,
    ) -> Result<Inputs, GraphError> {
        let node = self.data.node(old).clone();
        // A Merge needs one of its inputs, whichever arrives: the others may never.
        let needs_one = node.op.name == MERGE;
        let mut inputs = SmallVec::new();
        let mut facts: SmallVec<[Fact; 4]> = SmallVec::new();
        for (i, &input) in node.inputs.iter().enumerate() {
            if self.calls.get(&old).is_some_and(|c| !c.needs_input(i)) {
                let unused = self.unused(old, input)?;
                facts.push(self.fact(unused));
                inputs.push(unused);
                continue;
            }
            let takes_reference = node.input_arg(i).is_some_and(|a| a.reference);
            let here = match self.values.get(&input) {
                Some(&here) if !self.is_handle_of(input, here) => Some(here),
                Some(&here) if takes_reference => {
                    controls.extend(self.after.get(&input).into_iter().flatten().copied());
                    Some(here)
                }
                Some(_) => {
                    // The read comes after all other inputs of the node are there: the nodes that
                    // these wait for have run by then.
                    let others = node.inputs.iter().filter(|_| !needs_one);
                    let others = others.filter_map(|o| self.values.get(o));
                    let ordered = others.map(|o| o.node).filter(|n| self.is_ordered(*n));
                    let waits: SmallVec<[NodeId; 2]> =
                        controls.iter().copied().chain(ordered).collect();
                    Some(self.value_of(input, &waits)?)
                }
                None => None,
            };
            facts.push(match here {
                Some(here) => self.fact(here),
                // It comes from a later node, with the dtype of the first input.
                None => {
                    let dtype = facts.first().map_or(DType::F32, |f| f.dtype);
                    Fact::new(dtype, Shape::unknown())
                }
            });
            inputs.push(here.unwrap_or(OutputId {
                node: NodeId::INVALID,
                index: 0,
            }));
        }
        controls.sort();
        controls.dedup();
        Ok((inputs, facts))
    }

    /// `true` if `here` is the handle that stands for a reference of the old graph.
    fn is_handle_of(&self, old: OutputId, here: OutputId) -> bool {
        let reference = self.data.fact(old).is_some_and(|f| f.reference);
        let fact = self.out.fact(here);
        (reference || self.aliases.contains(&old))
            && fact.is_some_and(|f| f.dtype == DType::Resource)
    }

    /// The nodes that a fetched reference comes out of, if [`Simplifier::fetched`] has left its handle in place of it.
    pub(super) fn comes_out_of(&self, old: OutputId, here: OutputId) -> Option<&[NodeId]> {
        let after = self.after.get(&old).map_or(&[][..], |nodes| &nodes[..]);
        self.is_handle_of(old, here).then_some(after)
    }

    /// `true` if a node only forwards the value of a reference: in TensorFlow both share a buffer,
    /// which updates write to, so a node that waits for an update and uses this sees the new value.
    /// It is removed, and each of its users reads the variable.
    pub(super) fn is_alias(&self, node: &Node) -> bool {
        let [input] = node.inputs[..] else {
            return false;
        };
        let handle = self.values.get(&input).copied();
        node.op.name == "Identity" && handle.is_some_and(|here| self.is_handle_of(input, here))
    }

    /// Makes a node an alias of the reference whose value it forwards.
    ///
    /// # Errors
    /// The registry has no NoOp.
    pub(super) fn alias(
        &mut self,
        old: NodeId,
        mut controls: SmallVec<[NodeId; 2]>,
    ) -> Result<(), GraphError> {
        let input = self.data.node(old).inputs[0];
        let output = OutputId {
            node: old,
            index: 0,
        };
        controls.extend(self.after.get(&input).into_iter().flatten().copied());
        controls.sort();
        controls.dedup();
        let handle = self.values[&input];
        self.values.entry(output).or_insert(handle);
        self.aliases.insert(output);
        // A node that waits for it waits for all its control inputs.
        let stands_for = match controls[..] {
            [] => handle.node,
            [only] => only,
            _ => {
                let source = self.data.node(old).clone();
                let op = self.op(&source, "NoOp")?;
                let all = Node {
                    name: format!("{}/waits", source.name),
                    op,
                    inputs: SmallVec::new(),
                    controls: controls.clone(),
                    attrs: Attrs::default(),
                    device: source.device.clone(),
                    colocation: SmallVec::new(),
                    outputs: SmallVec::new(),
                    origin: source.origin.clone(),
                };
                self.push(old, all)
            }
        };
        self.nodes.insert(old, stands_for);
        self.after.insert(output, controls);
        Ok(())
    }

    /// `true` if a node carries the value of a reference into a loop or a branch that updates the variable: in TensorFlow it
    /// carries the variable's buffer, so each reader inside sees the updates before it.
    pub(super) fn carries_alias(&self, node: &Node) -> bool {
        let carries = match node.op.name {
            ENTER => node.attrs.bool("is_constant"),
            SWITCH => true,
            _ => false,
        };
        let Some(&input) = node.inputs.first().filter(|_| carries) else {
            return false;
        };
        let handle = self.values.get(&input);
        handle.is_some_and(|here| self.is_handle_of(input, *here)) && self.is_updated_in_flow(input)
    }

    /// `true` if a node in a loop or a branch updates the variable behind a reference or an alias of it.
    fn is_updated_in_flow(&self, of: OutputId) -> bool {
        let mut at = of;
        while self.aliases.contains(&at) {
            at = self.data.node(at.node).inputs[0];
        }
        let (mut open, mut seen) = (vec![at], FxHashSet::from_iter([at.node]));
        while let Some(reference) = open.pop() {
            for user in self.data.consumers(reference.node) {
                let node = self.data.node(user);
                let mut inputs = node.inputs.iter().enumerate();
                let takes = |i: usize| node.input_arg(i).is_some_and(|a| a.reference);
                if !inputs.any(|(i, input)| *input == reference && takes(i)) {
                    continue;
                }
                if node.op.effect == Effect::Write && self.contexts.in_control_flow(node, user) {
                    return true;
                }
                let outputs = node.outputs.iter().zip(0u32..);
                let references = outputs.filter(|(fact, _)| fact.reference);
                if seen.insert(user) {
                    open.extend(references.map(|(_, index)| OutputId { node: user, index }));
                }
            }
        }
        false
    }

    /// Replaces a node that carries an alias by the same node on the handle.
    ///
    /// # Errors
    /// As [`Simplifier::inputs`].
    pub(super) fn carry(
        &mut self,
        old: NodeId,
        mut controls: SmallVec<[NodeId; 2]>,
    ) -> Result<(), GraphError> {
        let node = self.data.node(old).clone();
        let alias = node.inputs[0];
        controls.extend(self.after.get(&alias).into_iter().flatten().copied());
        let (mut inputs, mut facts) = self.inputs(old, &mut controls)?;
        inputs[0] = self.values[&alias];
        facts[0] = self.fact(inputs[0]);
        self.on_handles(old, node.op, inputs, &facts, controls)?;
        let outputs = 0..node.outputs.len() as u32;
        self.aliases
            .extend(outputs.map(|index| OutputId { node: old, index }));
        Ok(())
    }

    /// The strings that stand in TensorFlow behind the reference of a queue or a stack: a container and a name.
    fn strings_of(&self, reference: OutputId) -> [String; 2] {
        let mut node = self.data.node(reference.node);
        while let Some(&before) = node.inputs.first()
            && self.data.fact(before).is_some_and(|f| f.reference)
        {
            node = self.data.node(before.node);
        }
        let or = |attr: &str, default: &str| match node.attrs.str(attr) {
            "" => default.to_owned(),
            given => given.to_owned(),
        };
        [or("container", "localhost"), or("shared_name", &node.name)]
    }

    /// The value behind a reference, for a reader that waits for `controls`: that of a variable, or the name of a queue
    /// or a stack.
    fn value_of(
        &mut self,
        reference: OutputId,
        controls: &[NodeId],
    ) -> Result<OutputId, GraphError> {
        let handle = self.values[&reference];
        let source = self.data.node(reference.node).clone();
        let dtype = source.outputs[reference.index as usize].dtype;
        // The handle of a queue or a stack.
        let named = dtype == DType::String && self.fact(handle).variable.is_none();
        let op = match named {
            true => self.op(&source, "_HandleName")?,
            false => self.op(&source, "ReadVariableOp")?,
        };
        let mut controls: SmallVec<[NodeId; 2]> = controls.into();
        controls.extend(self.after.get(&reference).into_iter().flatten().copied());
        controls.sort();
        controls.dedup();
        let key = (handle, controls.clone());
        if let Some(&read) = self.reads.get(&key) {
            return Ok(read);
        }
        let mut attrs = Attrs::default();
        if named {
            let [container, name] = self.strings_of(reference);
            attrs.set("container", container.into());
            attrs.set("name", name.into());
        } else {
            attrs.set("dtype", dtype.into());
        }
        let (attrs, outputs) =
            check_node(op, &[self.fact(handle)], attrs).map_err(|r| GraphError::of(&source, r))?;
        let node = Node {
            name: format!("{}/value", source.name),
            op,
            inputs: SmallVec::from_elem(handle, 1),
            controls,
            attrs,
            device: self.out.node(handle.node).device.clone(),
            colocation: SmallVec::new(),
            outputs,
            origin: source.origin.clone(),
        };
        // The read is on the variable's device, which its handle does not leave, and not on the
        // device of a node that forwards the reference: the value crosses.
        let device = self.devices[handle.node.index()];
        let read = OutputId {
            node: self.push_on(device, reference.node, node),
            index: 0,
        };
        self.reads.insert(key, read);
        Ok(read)
    }

    /// The output for a fetch: for a reference, its value. That of a reference outside of branches and loops is read when
    /// the step ends: its handle stands for it until [`read_last`](super::last_reads::read_last) adds the read.
    pub(super) fn fetched(&mut self, old: OutputId) -> Result<OutputId, GraphError> {
        match self.values.get(&old) {
            Some(&here) if !self.is_handle_of(old, here) => Ok(here),
            Some(&handle)
                if self.fact(handle).variable.is_some()
                    && !self
                        .contexts
                        .in_control_flow(self.data.node(old.node), old.node) =>
            {
                Ok(handle)
            }
            Some(_) => self.value_of(old, &[]),
            None => {
                // Only a node on a cycle that no loop closes is missing.
                let node = self.data.node(old.node);
                let reason = Reason::Argument("it waits for itself: the graph has a cycle".into());
                Err(GraphError::of(node, reason))
            }
        }
    }

    /// Replaces a node that takes or makes references by `op`, on handles.
    pub(super) fn on_handles(
        &mut self,
        old: NodeId,
        op: &'static OpDef,
        inputs: SmallVec<[OutputId; 4]>,
        facts: &[Fact],
        controls: SmallVec<[NodeId; 2]>,
    ) -> Result<(), GraphError> {
        let node = self.data.node(old).clone();
        let mut attrs = Attrs::default();
        for def in op.attrs {
            // An attribute that follows from the inputs differs for a handle.
            let follows = |a: &crate::op::Arg| a.ty == ArgType::Attr(def.name);
            let is_dtype = def.kind == AttrKind::Type;
            if let Some(value) = node.attrs.get(def.name)
                && value.kind() == def.kind
                && !(is_dtype && op.inputs.iter().any(follows))
            {
                attrs.set(def.name, value.clone());
            }
        }
        if let Some((_, shape)) = node.outputs.first().and_then(|f| f.variable.as_ref())
            && op.effect == Effect::Handle
        {
            // The shape attribute holds, unless some assignment may change the shape.
            let loose = |id: NodeId| {
                let user = self.data.node(id);
                user.op.effect == Effect::Write
                    && user.attrs.get("validate_shape") == Some(&Attr::Bool(false))
            };
            let shape = match self.data.consumers(old).any(loose) {
                true => Shape::unknown(),
                false => shape.clone(),
            };
            attrs.set("shape", shape.into());
        }
        let (attrs, outputs) = match check_node(op, facts, attrs) {
            Ok(checked) => checked,
            Err(reason) if self.contexts.in_control_flow(&node, old) => {
                return self.misfit(old, inputs, facts, controls, reason);
            }
            Err(reason) => return Err(GraphError::of(&node, reason)),
        };
        let new = Node {
            name: node.name.clone(),
            op,
            inputs: inputs.clone(),
            controls,
            attrs,
            device: node.device.clone(),
            colocation: node.colocation.clone(),
            outputs,
            origin: node.origin.clone(),
        };
        let own = new.outputs.len();
        let id = self.place(old, new, false);
        self.nodes.insert(old, id);
        for (index, fact) in node.outputs.iter().enumerate() {
            let index = index as u32;
            let output = OutputId { node: old, index };
            let here = match inputs.first() {
                _ if (index as usize) < own => OutputId { node: id, index },
                Some(&handle) => handle,
                None => continue,
            };
            self.values.entry(output).or_insert(here);
            if fact.reference {
                self.after.insert(output, SmallVec::from_elem(id, 1));
            }
        }
        Ok(())
    }
}
