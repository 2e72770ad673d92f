//! Freezing of single nodes: replaces each use of a variable by the form for a constant.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_graph::op::Effect;
use thalweg_graph::{Attr, GraphData, Node, NodeId, OutputId};
use thalweg_tensor::{DType, Shape, Tensor};

use super::error::FreezeError;
use crate::attr::to_proto;
use crate::export::{ExportError, OUTPUT_SHAPES};
use crate::messages::attr_value::{ListValue, Value};
use crate::messages::{AttrValue, NodeDef};

/// Ops that forward a handle.
const FORWARDING_OPS: &[&str] = &[
    "Identity",
    "Enter",
    "Exit",
    "Switch",
    "Merge",
    "NextIteration",
];

/// The dtype and shape of the variable whose node this is; `None` for other nodes.
pub(super) fn variable(data: &GraphData, id: NodeId) -> Option<(DType, Shape)> {
    let node = data.node(id);
    let fact = node.outputs.first()?;
    match node.op.effect {
        Effect::Handle => fact.variable.clone(),
        _ => None,
    }
}

/// The variable behind an input of a node.
fn behind(data: &GraphData, input: OutputId) -> Option<&(DType, Shape)> {
    data.fact(input).and_then(|f| f.variable.as_ref())
}

/// The frozen form of a node.
#[derive(Clone, Copy, PartialEq)]
enum FrozenForm {
    /// It stays as it is.
    Same,
    /// A read: the value itself.
    Value,
    /// Some of its rows.
    Gather,
    /// Some of its slices.
    GatherNd,
    /// Its shape.
    Shape,
    /// A test for initialization: always true.
    Initialized,
    /// The value where a handle or reference was forwarded.
    Pass,
    /// An update of a variable: refused.
    Update,
    /// A use without a frozen form: refused.
    None,
}

fn form(data: &GraphData, node: &Node) -> FrozenForm {
    let handle = |&&i: &&OutputId| behind(data, i).is_some();
    // Most nodes take the value of a reference.
    let taken = |at: usize, i: OutputId| {
        let reference = data.fact(i).is_some_and(|f| f.reference);
        !reference || node.input_arg(at).is_some_and(|a| a.reference)
    };
    if !node.inputs.iter().any(|i| handle(&i)) {
        // A handle whose variable is unknown.
        return match node.op.effect {
            Effect::Read => FrozenForm::None,
            Effect::Write => FrozenForm::Update,
            _ => FrozenForm::Same,
        };
    }
    let mut inputs = node.inputs.iter().copied().enumerate();
    if !inputs.any(|(at, i)| behind(data, i).is_some() && taken(at, i)) {
        return FrozenForm::Same;
    }
    match node.op.name {
        "ReadVariableOp" => FrozenForm::Value,
        "ResourceGather" => FrozenForm::Gather,
        "ResourceGatherNd" => FrozenForm::GatherNd,
        "VariableShape" => FrozenForm::Shape,
        "VarIsInitializedOp" | "IsVariableInitialized" => FrozenForm::Initialized,
        _ if node.op.effect == Effect::Write => FrozenForm::Update,
        name if FORWARDING_OPS.contains(&node.op.on_handles.unwrap_or(name)) => FrozenForm::Pass,
        _ => FrozenForm::None,
    }
}

/// Checks that a node can be frozen.
pub(super) fn check(data: &GraphData, id: NodeId) -> Result<(), FreezeError> {
    let node = data.node(id);
    let (name, op) = (node.name.clone(), node.op.name);
    match form(data, node) {
        FrozenForm::Update => Err(FreezeError::Update { node: name, op }),
        FrozenForm::None => Err(FreezeError::Use {
            node: name,
            op,
            function: None,
        }),
        _ => Ok(()),
    }
}

/// The context of freezing nodes.
pub(super) struct Freezer<'a> {
    pub data: &'a GraphData,
    /// The values of variables, by their handles.
    pub frozen: &'a BTreeMap<OutputId, Tensor>,
    /// The names of all kept nodes.
    pub names: &'a BTreeSet<&'a str>,
}

impl Freezer<'_> {
    /// Adds the frozen form of a node; `proto` is its message.
    pub(super) fn freeze(
        &self,
        id: NodeId,
        mut proto: NodeDef,
        to: &mut Vec<NodeDef>,
    ) -> Result<(), FreezeError> {
        let node = self.data.node(id);
        self.keep_neighbours(&mut proto);
        if let Some(value) = self.frozen.get(&OutputId { node: id, index: 0 }) {
            self.constant(&mut proto, value)?;
            to.push(proto);
            return Ok(());
        }
        let first = node.inputs.first().and_then(|&i| behind(self.data, i));
        let dtype = first.map_or(DType::F32, |(dtype, _)| *dtype);
        let own = |name: &str| node.attrs.get(name).cloned();
        match form(self.data, node) {
            FrozenForm::Value => self.turn(&mut proto, "Identity", [("T", Some(dtype.into()))])?,
            FrozenForm::Shape => {
                let attrs = [("T", Some(dtype.into())), ("out_type", own("out_type"))];
                self.turn(&mut proto, "Shape", attrs)?;
            }
            FrozenForm::GatherNd => {
                let attrs = [
                    ("Tparams", Some(dtype.into())),
                    ("Tindices", own("Tindices")),
                ];
                self.turn(&mut proto, "GatherNd", attrs)?;
            }
            FrozenForm::Gather => {
                let axis = self.gather_axis(node)?;
                let attrs = [
                    ("Tparams", Some(dtype.into())),
                    ("Tindices", own("Tindices")),
                    ("Taxis", Some(DType::I32.into())),
                    ("batch_dims", Some(Attr::Int(axis.into()))),
                ];
                self.turn(&mut proto, "GatherV2", attrs)?;
                let mut constant = NodeDef {
                    name: self.free_name(&format!("{}/axis", node.name)),
                    device: proto.device.clone(),
                    ..NodeDef::default()
                };
                self.constant(&mut constant, &Tensor::scalar(axis))?;
                proto.input.insert(2, constant.name.clone());
                to.push(constant);
            }
            FrozenForm::Initialized => {
                proto.input.retain(|i| i.starts_with('^'));
                self.constant(&mut proto, &Tensor::scalar(true))?;
            }
            FrozenForm::Pass => {
                proto.op = node.op.on_handles.unwrap_or(node.op.name).to_owned();
                self.set(&mut proto, "T", dtype.into())?;
                proto.attr.remove(OUTPUT_SHAPES);
            }
            FrozenForm::Same | FrozenForm::Update | FrozenForm::None => {}
        }
        to.push(proto);
        Ok(())
    }

    /// The axis of a `ResourceGather`.
    fn gather_axis(&self, node: &Node) -> Result<i32, FreezeError> {
        let asked = node.attrs.int("batch_dims");
        let indices = node.inputs.get(1).and_then(|&i| self.data.fact(i));
        let rank = indices.and_then(|f| f.shape.rank());
        let axis = match (asked < 0, rank) {
            (false, _) => Some(asked),
            (true, rank) => rank.and_then(|r| asked.checked_add(i64::try_from(r).ok()?)),
        };
        let axis = axis.and_then(|a| i32::try_from(a).ok());
        axis.ok_or_else(|| FreezeError::Use {
            node: node.name.clone(),
            op: node.op.name,
            function: None,
        })
    }

    fn free_name(&self, wanted: &str) -> String {
        let names = std::iter::successors(Some(wanted.to_owned()), |n| Some(format!("{n}_")));
        let mut free = names.filter(|n| !self.names.contains(&**n));
        free.next().unwrap_or_else(|| wanted.to_owned())
    }

    /// Turns a node into a constant.
    fn constant(&self, proto: &mut NodeDef, value: &Tensor) -> Result<(), FreezeError> {
        let attrs = [
            ("dtype", Some(value.dtype().into())),
            ("value", Some(Attr::Tensor(value.clone()))),
        ];
        self.turn(proto, "Const", attrs)
    }

    /// Turns a node into one of another op with these attributes, and its attributes that belong to
    /// no op.
    fn turn<const N: usize>(
        &self,
        proto: &mut NodeDef,
        op: &str,
        attrs: [(&str, Option<Attr>); N],
    ) -> Result<(), FreezeError> {
        proto.op = op.to_owned();
        proto
            .attr
            .retain(|name, _| name.starts_with('_') && name != OUTPUT_SHAPES);
        for (name, attr) in attrs {
            if let Some(attr) = attr {
                self.set(proto, name, attr)?;
            }
        }
        Ok(())
    }

    fn set(&self, proto: &mut NodeDef, name: &str, attr: Attr) -> Result<(), FreezeError> {
        let value = to_proto(&attr).map_err(|value| ExportError::Attr {
            node: proto.name.clone(),
            attr: name.to_owned(),
            value,
        })?;
        proto.attr.insert(name.to_owned(), value);
        Ok(())
    }

    /// Removes colocation with nodes that are not kept.
    fn keep_neighbours(&self, proto: &mut NodeDef) {
        let Some(AttrValue {
            value: Some(Value::List(ListValue { s, .. })),
        }) = proto.attr.get_mut("_class")
        else {
            return;
        };
        s.retain(|name| {
            let beside = name
                .strip_prefix(b"loc:@")
                .and_then(|n| std::str::from_utf8(n).ok());
            beside.is_none_or(|n| self.names.contains(n))
        });
        if s.is_empty() {
            proto.attr.remove("_class");
        }
    }
}
