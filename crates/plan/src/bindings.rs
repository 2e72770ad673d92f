//! Bindings: the variable behind each handle of a graph.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use thalweg_device::{Body, DeviceType, KernelError, Variable};
use thalweg_graph::op::Effect;
use thalweg_graph::simplify::FEED;
use thalweg_graph::{GraphData, Node, NodeId, OutputId};
use thalweg_tensor::{DType, Shape};

use crate::error::{SessionError, failed};
use crate::kernels::{Kernels, find};
use crate::order::{Accesses, VariableId};
use crate::request::PlanContext;

/// `true` if a node's output shares its input's buffer.
fn shares(kernels: &Kernels, node: &Node) -> bool {
    find(kernels, DeviceType::Cpu, node).is_some_and(|(_, k)| matches!(k.body, Body::View))
}

/// Finds the variable of a device, container and name, which has this dtype and shape.
pub type FindVariable<'a> =
    &'a dyn Fn((u32, &str, &str), DType, &Shape) -> Result<Arc<Variable>, KernelError>;

/// The variables of a graph.
pub(super) struct Bindings {
    pub(super) variables: Vec<Arc<Variable>>,
    /// By handle: the variable's number.
    pub(super) variable_of: FxHashMap<OutputId, VariableId>,
}

impl Bindings {
    /// Finds the variable behind each handle, and checks that every placeholder is fed. `device` returns the device of
    /// a handle, and `fed` the variable behind one that is fed.
    ///
    /// # Errors
    /// A placeholder that is not fed, a variable of another dtype or shape than its handle's.
    pub(super) fn new(
        graph: &GraphData,
        device: &dyn Fn(NodeId) -> u32,
        fed: &[Option<Arc<Variable>>],
        context: PlanContext<'_>,
    ) -> Result<Bindings, SessionError> {
        let stored = |(device, container, name): (u32, &str, &str), dtype, shape: &Shape| {
            let on = (device, &context.devices[device as usize]);
            context.store.variable(on, container, name, dtype, shape)
        };
        Bindings::with(graph, device, fed, context.kernels, &stored)
    }

    /// As [`Bindings::new`], with variables that `find` returns.
    pub(super) fn with(
        graph: &GraphData,
        device: &dyn Fn(NodeId) -> u32,
        fed: &[Option<Arc<Variable>>],
        kernels: &Kernels,
        find: FindVariable<'_>,
    ) -> Result<Bindings, SessionError> {
        let mut variables: Vec<Arc<Variable>> = Vec::new();
        let mut by_name: FxHashMap<(u32, String, String), VariableId> = FxHashMap::default();
        let mut variable_of: FxHashMap<OutputId, VariableId> = FxHashMap::default();
        for (id, node) in graph.nodes() {
            if node.op.effect == Effect::Feed && !std::ptr::eq(node.op, &FEED) {
                let fact = &node.outputs[0];
                return Err(SessionError::MissingFeed {
                    node: node.name.clone(),
                    dtype: fact.dtype,
                    shape: fact.shape.clone(),
                    origin: node.origin.clone(),
                });
            }
            let output = OutputId { node: id, index: 0 };
            if std::ptr::eq(node.op, &FEED) {
                let index = usize::try_from(node.attrs.int("index")).ok();
                let variable = index.and_then(|i| fed.get(i)).cloned().flatten();
                if let Some(variable) = variable {
                    let same = |v: &Arc<Variable>| Arc::ptr_eq(v, &variable);
                    let number = variables.iter().position(same).unwrap_or(variables.len());
                    if number == variables.len() {
                        variables.push(variable);
                    }
                    variable_of.insert(output, number);
                }
            } else if node.op.effect == Effect::Handle {
                let shared = node.attrs.str("shared_name");
                let name = if shared.is_empty() {
                    &node.name
                } else {
                    shared
                };
                let container = node.attrs.str("container").to_owned();
                let key = (device(id), container, name.to_owned());
                let (dtype, shape) = node.outputs[0]
                    .variable
                    .clone()
                    .unwrap_or((DType::F32, Default::default()));
                let number = match by_name.get(&key) {
                    Some(&number) => number,
                    None => {
                        let (device, container, name) = &key;
                        let variable = find((*device, container, name), dtype, &shape);
                        variables.push(variable.map_err(|e| failed(node, e))?);
                        by_name.insert(key, variables.len() - 1);
                        variables.len() - 1
                    }
                };
                let variable = &variables[number];
                if variable.dtype() != dtype || variable.shape().merge(&shape).is_none() {
                    let source = KernelError::Variable {
                        variable: variable.name().to_owned(),
                        expected_dtype: dtype,
                        expected: shape,
                        found_dtype: variable.dtype(),
                        found: variable.shape().clone(),
                    };
                    return Err(failed(node, source));
                }
                variable_of.insert(output, number);
            } else if let Some(&v) = node.inputs.first().and_then(|i| variable_of.get(i))
                && shares(kernels, node)
            {
                variable_of.insert(output, v);
            }
        }
        Ok(Bindings {
            variables,
            variable_of,
        })
    }

    /// Returns the reads and updates of the variables, by node.
    pub(super) fn accesses(&self, graph: &GraphData, kernels: &Kernels) -> Accesses {
        let shares = |id: NodeId| shares(kernels, graph.node(id));
        Accesses::new(graph, &self.variable_of, &shares)
    }
}
