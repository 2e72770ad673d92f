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

/// Finds the variable of a device, container and name, which has this dtype and shape. One of another shape is replaced if
/// the last argument is `true`.
pub type FindVariable<'a> =
    &'a dyn Fn((u32, &str, &str), DType, &Shape, bool) -> Result<Arc<Variable>, KernelError>;

/// `true` if the step initializes the variable behind a handle: it assigns a value of any shape before all other uses.
fn initializes(graph: &GraphData, handle: NodeId) -> bool {
    let assigns = |id: NodeId| {
        let node = graph.node(id);
        node.op.name == "AssignVariableOp" && !node.attrs.bool("validate_shape")
    };
    let mut uses = graph.consumers(handle).peekable();
    let after = |id: NodeId| graph.node(id).controls.iter().any(|&c| assigns(c));
    uses.peek().is_some() && uses.all(|user| assigns(user) || after(user))
}

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
        let stored =
            |(device, container, name): (u32, &str, &str), dtype, shape: &Shape, replace| {
                let on = (device, &context.devices[device as usize]);
                let store = context.store;
                match replace {
                    true => store.replaced(on, container, name, dtype, shape),
                    false => store.variable(on, container, name, dtype, shape),
                }
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
                        let replace = initializes(graph, id);
                        let variable = find((*device, container, name), dtype, &shape, replace);
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
                // A handle in a tensor of another shape is a value.
                && node.outputs.first().is_some_and(|o| o.shape.admits(&[]))
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

#[cfg(test)]
mod tests {
    use super::*;

    use thalweg_graph::simplify::Simplified;
    use thalweg_graph::{Fact, Graph, Output};
    use thalweg_ops::{MathOps, SourceOps};
    use thalweg_tensor::Tensor;

    use crate::compile::simplified;
    use crate::request::{Fetch, Request};
    use crate::testing::{Planner, first, graph};

    fn handle<'g>(g: &'g Graph, name: &str, container: &str, shared: &str) -> Output<'g> {
        let node = g
            .op("VarHandleOp")
            .attr("dtype", DType::F32)
            .attr("shape", Shape::scalar());
        let node = node
            .attr("container", container)
            .attr("shared_name", shared);
        node.name(name).output()
    }

    fn read(handle: Output<'_>) -> Output<'_> {
        let node = handle.graph().op("ReadVariableOp").input(handle);
        node.attr("dtype", DType::F32).output()
    }

    /// The graph that computes these outputs.
    fn small(planner: &Planner, fetches: &[Output<'_>]) -> Simplified {
        let data = fetches[0].graph().snapshot();
        let fetches: Vec<Fetch> = fetches.iter().map(|o| Fetch::Value(o.id())).collect();
        let request = Request {
            feeds: &[],
            fetches: &fetches,
            devices: &vec![0; data.len()],
            variables: &[],
        };
        simplified(&data, &request, planner.context()).unwrap()
    }

    /// By handle, in the order of building: the number of its variable. Nodes named `far...` are on device 1.
    fn numbers(fetches: &[Output<'_>]) -> (Vec<usize>, Bindings) {
        let planner = Planner::cpus(&[1, 1]);
        let small = small(&planner, fetches);
        let device = |n: NodeId| u32::from(small.graph.node(n).name.starts_with("far"));
        let bound = Bindings::new(&small.graph, &device, &[], planner.context()).unwrap();
        let handles = small
            .graph
            .nodes()
            .filter(|(_, n)| n.op.effect == Effect::Handle);
        let of = handles
            .map(|(id, _)| bound.variable_of[&first(id)])
            .collect();
        (of, bound)
    }

    #[test]
    fn handles_of_one_name_container_and_device_are_one_variable() {
        let g = graph();
        let handles = [
            handle(&g, "w", "", ""),
            handle(&g, "again", "", "w"),
            handle(&g, "mine", "box", "w"),
            handle(&g, "far", "", "w"),
            handle(&g, "box_too", "box", "w"),
            handle(&g, "v", "", ""),
        ];
        let (of, bound) = numbers(&handles.map(read));
        assert_eq!(of, [0, 0, 1, 2, 1, 3]);
        let names: Vec<&str> = bound.variables.iter().map(|v| v.name()).collect();
        assert_eq!(names, ["w", "w", "w", "v"]);
    }

    #[test]
    fn a_view_of_a_handle_is_of_the_same_variable() {
        let g = graph();
        let w = handle(&g, "w", "", "");
        let passed = g.op("Identity").input(w).name("passed").output();
        let planner = Planner::cpus(&[1]);
        let small = small(&planner, &[read(passed)]);
        let bound = Bindings::new(&small.graph, &|_| 0, &[], planner.context()).unwrap();
        let node = small.graph.find("passed").unwrap();
        assert_eq!(bound.variable_of.get(&first(node)), Some(&0));
        let accesses = bound.accesses(&small.graph, &planner.machine.kernels);
        let users = accesses.uses.iter().filter(|v| !v.is_empty());
        assert_eq!((accesses.variables, users.count()), (1, 1));
    }

    #[test]
    fn a_placeholder_that_is_not_fed_is_named() {
        let g = graph();
        let x = g.placeholder("x", DType::F32, [-1, 2]);
        let planner = Planner::cpus(&[1]);
        let small = small(&planner, &[x.tanh()]);
        let bound = Bindings::new(&small.graph, &|_| 0, &[], planner.context());
        let error = bound.err().unwrap().to_string();
        assert!(
            error.starts_with("placeholder 'x' (f32[?,2]), made at "),
            "{error}"
        );
    }

    #[test]
    fn a_variable_of_another_dtype_or_shape_than_its_handle_is_an_error() {
        let g = graph();
        let planner = Planner::cpus(&[1]);
        let small = small(&planner, &[read(handle(&g, "w", "", ""))]);
        for (dtype, shape, fits) in [
            (DType::F32, Shape::scalar(), true),
            (DType::F32, Shape::unknown(), true),
            (DType::F64, Shape::scalar(), false),
            (DType::F32, Shape::known(&[2]), false),
        ] {
            let found = |_: (u32, &str, &str), _: DType, _: &Shape, _: bool| {
                Ok(Arc::new(Variable::new("w", dtype, shape.clone())))
            };
            let kernels = planner.context().kernels;
            let bound = Bindings::with(&small.graph, &|_| 0, &[], kernels, &found);
            match bound {
                Ok(_) => assert!(fits, "{dtype}{shape}"),
                Err(e) => {
                    let text =
                        format!("variable 'w' holds {dtype}{shape}, the step takes it as f32[]");
                    assert!(!fits && e.to_string().ends_with(&text), "{e}");
                }
            }
        }
    }

    #[test]
    fn a_fed_handle_is_of_the_variable_that_is_fed() {
        let g = graph();
        let fact = Fact {
            variable: Some((DType::F32, Shape::scalar())),
            ..Fact::new(DType::Resource, Shape::scalar())
        };
        let (a, b, c) = (
            handle(&g, "a", "", ""),
            handle(&g, "b", "", ""),
            handle(&g, "c", "", ""),
        );
        let reads = [a, b, c].map(read).map(|o| Fetch::Value(o.id()));
        let data = g.snapshot();
        let feeds = [a, b].map(|o| (o.id(), fact.clone()));
        let request = Request {
            feeds: &feeds,
            fetches: &reads,
            devices: &vec![0; data.len()],
            variables: &[],
        };
        let planner = Planner::cpus(&[1]);
        let small = simplified(&data, &request, planner.context()).unwrap();
        let given = Arc::new(Variable::new("given", DType::F32, Shape::scalar()));
        given.assign(Tensor::scalar(1.0f32)).unwrap();
        let fed = [Some(given.clone()), Some(given.clone())];
        let bound = Bindings::new(&small.graph, &|_| 0, &fed, planner.context()).unwrap();
        let names: Vec<&str> = bound.variables.iter().map(|v| v.name()).collect();
        // One variable behind two feeds is one variable.
        assert_eq!(names, ["given", "c"]);
        assert!(Arc::ptr_eq(&bound.variables[0], &given));
    }
}
