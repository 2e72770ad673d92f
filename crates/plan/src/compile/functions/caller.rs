//! A node that calls functions, and the functions as they are simplified for its arguments.

use smallvec::SmallVec;
use thalweg_device::{Body, DeviceType, KernelError};
use thalweg_graph::op::Calls;
use thalweg_graph::simplify::{Simplified, known};
use thalweg_graph::{Fact, Function, GraphData, Node, NodeId, OutputId};

use crate::compile::request_graph::simplified;
use crate::error::{SessionError, failed};
use crate::kernels::find;
use crate::request::{Fetch, PlanContext, Request};

/// `true` for a node whose functions a GPU's program holds.
pub(in crate::compile) fn is_call(node: &Node, context: PlanContext<'_>) -> bool {
    let kernel = find(context.kernels, DeviceType::Gpu, node);
    // A node whose value was folded has no inputs any more.
    !known(node) && kernel.is_some_and(|(_, kernel)| matches!(kernel.body, Body::Functions))
}

/// A function that a node calls, as it is simplified.
pub(super) struct Called {
    pub(super) simplified: Simplified,
    /// The outputs of the node's graph that stand for the arguments.
    pub(super) arguments: Vec<OutputId>,
    /// The results that are computed, by number.
    pub(super) computed: SmallVec<[usize; 4]>,
    /// Number of results.
    pub(super) results: usize,
}

/// A node that calls two functions.
pub(in crate::compile) struct Caller<'a> {
    pub(in crate::compile) graph: &'a GraphData,
    pub(in crate::compile) id: NodeId,
    /// The number of its GPU.
    pub(in crate::compile) device: u32,
    pub(in crate::compile) context: PlanContext<'a>,
}

impl<'a> Caller<'a> {
    pub(in crate::compile) fn node(&self) -> &'a Node {
        self.graph.node(self.id)
    }

    pub(super) fn is_loop(&self) -> bool {
        matches!(self.node().op.calls, Calls::Loop)
    }

    pub(in crate::compile) fn function(&self, attr: &str) -> Result<&'a Function, SessionError> {
        let node = self.node();
        let name = node.attrs.func(attr).map_or("", |f| &f.name);
        let function = self.graph.function(name);
        function
            .map(|f| &**f)
            .ok_or_else(|| SessionError::UnknownOp {
                node: node.name.clone(),
                op: name.to_owned(),
                origin: node.origin.clone(),
            })
    }

    /// Returns the outputs of the node that something uses, by number.
    fn live(&self) -> SmallVec<[usize; 4]> {
        let node = self.node();
        match node.attrs.live_outputs() {
            None => (0..node.outputs.len()).collect(),
            Some(live) => live
                .iter()
                .filter_map(|&i| usize::try_from(i).ok())
                .filter(|&i| i < node.outputs.len())
                .collect(),
        }
    }

    /// Returns the values of a loop that an iteration changes, by number.
    pub(in crate::compile) fn changed(&self) -> Result<SmallVec<[usize; 4]>, SessionError> {
        let body = self.function("body")?;
        let mut live = self.live();
        live.retain(|i| !returns_argument(body, *i));
        Ok(live)
    }

    /// Returns the two functions.
    pub(super) fn called(&self) -> Result<[Called; 2], SessionError> {
        let node = self.node();
        let outputs = node.outputs.len();
        if !self.is_loop() {
            if node.inputs.is_empty() {
                return Err(failed(node, KernelError::Argument("a condition")));
            }
            let arguments = node.inputs[1..].to_vec();
            let (on_true, on_false) =
                (self.function("then_branch")?, self.function("else_branch")?);
            return Ok([
                self.simplified(on_true, arguments.clone(), (self.live(), outputs))?,
                self.simplified(on_false, arguments, (self.live(), outputs))?,
            ]);
        }
        let changed = self.changed()?;
        let argument = |(index, &input): (u32, &OutputId)| match changed.contains(&(index as usize))
        {
            true => OutputId {
                node: self.id,
                index,
            },
            false => input,
        };
        let arguments: Vec<OutputId> = (0..).zip(&node.inputs).map(argument).collect();
        let (condition, body) = (self.function("cond")?, self.function("body")?);
        Ok([
            self.simplified(
                condition,
                arguments.clone(),
                (SmallVec::from_slice(&[0]), 1),
            )?,
            self.simplified(body, arguments, (changed, outputs))?,
        ])
    }

    fn simplified(
        &self,
        function: &Function,
        arguments: Vec<OutputId>,
        (computed, results): (SmallVec<[usize; 4]>, usize),
    ) -> Result<Called, SessionError> {
        let facts: Vec<Option<Fact>> = arguments
            .iter()
            .map(|&a| self.graph.fact(a).cloned())
            .collect();
        Ok(Called {
            simplified: self.simplified_for(function, &facts, (&computed, results))?,
            arguments,
            computed,
            results,
        })
    }

    /// Returns a function as it is simplified for arguments with these facts, where so many results of the node are
    /// wanted and these are computed.
    pub(in crate::compile) fn simplified_for(
        &self,
        function: &Function,
        arguments: &[Option<Fact>],
        (computed, results): (&[usize], usize),
    ) -> Result<Simplified, SessionError> {
        let node = self.node();
        let (takes, gives) = (function.inputs.len(), function.outputs.len());
        if takes != arguments.len() || gives != results {
            return Err(failed(
                node,
                KernelError::Invalid(format!(
                    "function '{}' takes {takes} and gives {gives} values, not {} and {results}",
                    function.name,
                    arguments.len()
                )),
            ));
        }
        let feeds: Vec<_> = function
            .inputs
            .iter()
            .zip(arguments)
            .filter_map(|(&node, fact)| Some((OutputId { node, index: 0 }, fact.clone()?)))
            .collect();
        let values = computed.iter().filter_map(|&i| function.outputs.get(i));
        let values = values.map(|&o| Fetch::Value(o));
        let runs = function.runs(node.op.calls);
        let fetches: Vec<Fetch> = values.chain(runs.iter().map(|&n| Fetch::Run(n))).collect();
        let data = function.body.with_library_of(self.graph);
        let request = Request {
            feeds: &feeds,
            fetches: &fetches,
            devices: &vec![self.device; data.len()],
            variables: &[],
        };
        simplified(&data, &request, self.context)
    }
}

/// `true` if a function's result is its argument of the same number.
fn returns_argument(function: &Function, i: usize) -> bool {
    let (Some(&argument), Some(&result)) = (function.inputs.get(i), function.outputs.get(i)) else {
        return false;
    };
    let mut from = result;
    loop {
        let node = function.body.node(from.node);
        match node.op.name {
            _ if from.node == argument => return true,
            "Identity" => from = node.inputs[0],
            _ => return false,
        }
    }
}
