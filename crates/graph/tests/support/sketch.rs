//! Graphs for tests of the placer: nodes of ops that have only a name.
#![allow(dead_code, reason = "each test program uses a part of this")]

use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_graph::op::Effect;
use thalweg_graph::place::PlaceOptions;
use thalweg_graph::{Attrs, DeviceSpec, Fact, GraphData, Node, NodeId, OpDef, Origin, OutputId};
use thalweg_tensor::{DType, Shape};

const fn op(name: &'static str, effect: Effect) -> OpDef {
    OpDef {
        name,
        effect,
        ..OpDef::EMPTY
    }
}

pub static CONST: OpDef = op("Const", Effect::Pure);
pub static ADD: OpDef = op("Add", Effect::Pure);
pub static SHAPE: OpDef = op("Shape", Effect::Pure);
/// An op for which only the CPU has a kernel.
pub static DECODE: OpDef = op("Decode", Effect::Pure);
/// An op for which only the GPU has a kernel.
pub static FUSED: OpDef = op("Fused", Effect::Pure);
pub static HANDLE: OpDef = op("VarHandleOp", Effect::Handle);
pub static READ: OpDef = op("ReadVariableOp", Effect::Read);
pub static UPDATE: OpDef = op("AssignSub", Effect::Write);

/// The types that have kernels for the ops above.
pub fn kernels(node: &Node) -> SmallVec<[&'static str; 2]> {
    match node.op.name {
        "Decode" => ["CPU"].into_iter().collect(),
        "Fused" => ["GPU"].into_iter().collect(),
        _ => ["GPU", "CPU"].into_iter().collect(),
    }
}

/// A device: `job:task:type:number`, each part a value or nothing; `spec("")` is any device.
pub fn spec(text: &str) -> DeviceSpec {
    let mut parts = text.split(':').chain(std::iter::repeat(""));
    let mut part = || Some(parts.next().unwrap_or_default()).filter(|p| !p.is_empty());
    let (job, task, device_type, index) = (part(), part(), part(), part());
    DeviceSpec {
        job: job.map(Into::into),
        replica: None,
        task: task.map(|t| t.parse().expect("a task")),
        device_type: device_type.map(Into::into),
        index: index.map(|i| i.parse().expect("a number")),
    }
}

pub fn specs(texts: &[&str]) -> Vec<DeviceSpec> {
    texts.iter().map(|t| spec(t)).collect()
}

/// A graph under construction.
#[derive(Default)]
pub struct Sketch(pub GraphData);

impl Sketch {
    /// Adds a node of one output, f32 of 256 elements; a handle's is a resource.
    pub fn add(&mut self, op: &'static OpDef, name: &str, inputs: &[NodeId]) -> NodeId {
        self.on(op, name, inputs, "", &[])
    }

    /// The same with a device and colocation groups.
    pub fn on(
        &mut self,
        op: &'static OpDef,
        name: &str,
        inputs: &[NodeId],
        device: &str,
        groups: &[&str],
    ) -> NodeId {
        let dtype = match op.effect {
            Effect::Handle => DType::Resource,
            _ => DType::F32,
        };
        let output = |&node| OutputId { node, index: 0 };
        self.0.push(Node {
            name: name.to_owned(),
            op,
            inputs: inputs.iter().map(output).collect(),
            controls: SmallVec::new(),
            attrs: Attrs::default(),
            device: spec(device),
            colocation: groups.iter().map(|g| Arc::from(*g)).collect(),
            outputs: [Fact::new(dtype, Shape::known(&[256]))]
                .into_iter()
                .collect(),
            origin: Origin::Other("sketch".into()),
        })
    }
}

/// Strict placement on these devices.
pub fn strict(devices: &[DeviceSpec]) -> PlaceOptions<'_> {
    PlaceOptions {
        devices,
        kernels: &kernels,
        soft: false,
        deny_fallback: false,
        fixed: None,
    }
}
