//! Gradients as a graph transformation: `gradients` adds ordinary nodes that compute them.
//!
//! ```
//! # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
//! use thalweg_graph::gradients::{gradients, gradients_with};
//!
//! let g = ops::graph();
//! let x = ops::placeholder(&g, "x", []);
//! let square = x * x;
//! let y = square + x;
//!
//! let whole = gradients(&[y], &[x])[0].expect("y depends on x");
//! // Where the square is taken as a constant, the gradient is one.
//! let part = gradients_with(&[y], &[x], &[], &[square])[0].expect("y depends on x");
//!
//! let data = g.snapshot();
//! assert_eq!(data.node(whole.id().node).op.name, "AddN");
//! assert_eq!(data.node(part.id().node).op.name, "OnesLike");
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::data::GraphData;
use crate::error::Reason;
use crate::graph::Graph;
use crate::node::{Attrs, Node, NodeId, OutputId};
use crate::op::{Effect, Gradient, OpDef};
use crate::output::{Operation, Output};
use thalweg_tensor::dtype::DType;

/// The context of a gradient rule: the node, and the gradients of its outputs.
pub struct GradCx<'a, 'g> {
    graph: &'g Graph,
    id: NodeId,
    node: &'a Node,
    dys: &'a [Option<Output<'g>>],
}

impl<'g> GradCx<'_, 'g> {
    /// The graph, to which the rule adds nodes.
    pub fn graph(&self) -> &'g Graph {
        self.graph
    }

    /// The node's attributes.
    pub fn attrs(&self) -> &Attrs {
        &self.node.attrs
    }

    /// The number of inputs.
    pub fn inputs(&self) -> usize {
        self.node.inputs.len()
    }

    /// Input `i`.
    pub fn input(&self, i: usize) -> Output<'g> {
        match self.node.inputs.get(i) {
            Some(&id) => self.graph.output(id),
            None => self.graph.invalid(),
        }
    }

    /// The number of outputs.
    pub fn outputs(&self) -> usize {
        self.node.outputs.len()
    }

    /// The op of the node.
    pub fn op(&self) -> &'static OpDef {
        self.node.op
    }

    /// Output `i`.
    pub fn output(&self, i: u32) -> Output<'g> {
        self.graph.operation(self.id).output(i)
    }

    /// The gradient of output `i`, if there is one.
    pub fn dy(&self, i: usize) -> Option<Output<'g>> {
        self.dys.get(i).copied().flatten()
    }

    /// The gradient of the only output. A rule is called only if some output has a gradient.
    pub fn grad(&self) -> Output<'g> {
        self.dy(0).unwrap_or_else(|| self.graph.invalid())
    }
}

/// The gradients of the sum of `ys` with respect to each of `xs`; `None` for an `x` that no `y`
/// depends on.
///
/// `x` may be any output, or the handle of a variable: its gradient is then the sum over all of its
/// reads. The graph keeps mistakes (an op without a gradient on the way).
///
/// ```
/// # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
/// use thalweg_graph::gradients;
///
/// let g = ops::graph();
/// let x = ops::placeholder(&g, "x", [-1]);
/// let other = ops::placeholder(&g, "other", []);
/// let y = x * x;
///
/// let found = gradients(&[y], &[x, other]);
/// // The gradient is an output like any other, of the shape of `x`.
/// let dx = found[0].expect("y depends on x");
/// assert_eq!(dx.shape(), x.shape());
/// let _second = gradients(&[dx], &[x]);
/// assert!(found[1].is_none());
/// assert!(g.errors().is_empty());
/// ```
#[track_caller]
pub fn gradients<'g>(ys: &[Output<'g>], xs: &[Output<'g>]) -> Vec<Option<Output<'g>>> {
    gradients_with(ys, xs, &[], &[])
}

/// As [`gradients`], with the gradient of each `y` given (`None`, or too few: ones), and with the
/// outputs in `stop` taken as constants.
#[track_caller]
pub fn gradients_with<'g>(
    ys: &[Output<'g>],
    xs: &[Output<'g>],
    grad_ys: &[Option<Output<'g>>],
    stop: &[Output<'g>],
) -> Vec<Option<Output<'g>>> {
    let Some(graph) = ys.first().map(|y| y.graph()) else {
        return vec![None; xs.len()];
    };
    if ys.iter().chain(xs).any(|o| o.is_invalid()) {
        return vec![Some(graph.invalid()); xs.len()];
    }
    let given = grad_ys.iter().flatten();
    if let Some(i) = ys
        .iter()
        .chain(xs)
        .chain(stop)
        .chain(given)
        .position(|o| !std::ptr::eq(o.graph(), graph))
    {
        graph.report("gradients", "gradients", Reason::OtherGraph { input: i });
        return vec![Some(graph.invalid()); xs.len()];
    }
    // A list is differentiable if a gradient for it, also a list, is given.
    let differentiable = |i: usize, y: &Output<'g>| match y.dtype() {
        DType::Variant => grad_ys.get(i).is_some_and(Option::is_some),
        dtype => dtype.is_float() || dtype.is_complex(),
    };
    let wrong = ys.iter().enumerate().find(|(i, y)| !differentiable(*i, y));
    if let Some((_, y)) = wrong {
        let found = y.dtype();
        graph.report(&y.name(), "gradients", Reason::NotDifferentiable { found });
        return vec![Some(graph.invalid()); xs.len()];
    }
    graph.at_caller(|| backward(graph, ys, xs, grad_ys, stop))
}

fn backward<'g>(
    graph: &'g Graph,
    ys: &[Output<'g>],
    xs: &[Output<'g>],
    grad_ys: &[Option<Output<'g>>],
    stop: &[Output<'g>],
) -> Vec<Option<Output<'g>>> {
    graph.name_scope("gradients", || {
        let mut pass = Backward::new(graph, xs, stop);
        for (i, &y) in ys.iter().enumerate() {
            let given = grad_ys.get(i).copied().flatten();
            let seed = match given {
                Some(g) if g.shape().merge(&y.shape()).is_none() => {
                    let reason = Reason::GradientShape {
                        expected: y.shape(),
                        found: g.shape(),
                    };
                    graph.fail(&y.name(), "gradients", reason)
                }
                Some(g) => g,
                None => graph.op("OnesLike").input(y).output(),
            };
            pass.add(y.id(), seed);
        }
        pass.run(ys);
        xs.iter().map(|x| pass.total(x.id())).collect()
    })
}

struct Backward<'g> {
    graph: &'g Graph,
    data: Arc<GraphData>,
    /// By node: `true` if some `x` is upstream of it.
    leads_to_x: Vec<bool>,
    stop: Vec<OutputId>,
    grads: HashMap<OutputId, SmallVec<[Output<'g>; 2]>>,
}

impl<'g> Backward<'g> {
    fn new(graph: &'g Graph, xs: &[Output<'g>], stop: &[Output<'g>]) -> Backward<'g> {
        let data = graph.snapshot();
        // Numbers ascend along edges, so one forward pass finds the nodes that depend on the xs.
        let mut leads_to_x = vec![false; data.len()];
        let mut is_x = vec![false; data.len()];
        for x in xs {
            is_x[x.id().node.index()] = true;
        }
        for (id, node) in data.nodes() {
            leads_to_x[id.index()] =
                is_x[id.index()] || node.inputs.iter().any(|i| leads_to_x[i.node.index()]);
        }
        Backward {
            graph,
            data,
            leads_to_x,
            stop: stop.iter().map(|o| o.id()).collect(),
            grads: HashMap::new(),
        }
    }

    fn add(&mut self, of: OutputId, grad: Output<'g>) {
        self.grads.entry(of).or_default().push(grad);
    }

    /// The sum of the gradients collected for `of`.
    fn total(&mut self, of: OutputId) -> Option<Output<'g>> {
        let parts = self.grads.get_mut(&of)?;
        if parts.len() > 1 {
            let sum = self.graph.op("AddN").inputs(parts.iter().copied()).output();
            *parts = SmallVec::from_elem(sum, 1);
        }
        parts.first().copied()
    }

    /// Walks back over the nodes between the ys and the xs in reverse topological order.
    fn run(&mut self, ys: &[Output<'g>]) {
        let data = self.data.clone();
        let between = data.needed(ys.iter().map(|y| y.id().node), |_| false);
        for id in data.ids().rev() {
            let node = data.node(id);
            let upstream = node.inputs.iter().any(|i| self.leads_to_x[i.node.index()]);
            if !between[id.index()] || !upstream {
                continue;
            }
            // A gradient is computed on the device of the value, where the inputs are; the gradient
            // of a variable, on the device of the caller: then one sum goes to the variable, not
            // its terms.
            if node.device.is_empty() || node.op.effect == Effect::Read {
                self.step(id, node);
            } else {
                let graph = self.graph;
                graph.device(&node.device, || self.step(id, node));
            }
        }
    }

    fn step(&mut self, id: NodeId, node: &Node) {
        let dys: SmallVec<[Option<Output<'g>>; 2]> = (0..node.outputs.len() as u32)
            .map(|index| {
                let output = OutputId { node: id, index };
                if self.stop.contains(&output) {
                    return None;
                }
                self.total(output)
            })
            .collect();
        if dys.iter().all(Option::is_none) {
            return;
        }
        let rule = match node.op.gradient {
            Gradient::Rule(rule) => rule,
            Gradient::None => return,
            Gradient::Missing => {
                self.graph
                    .report(&node.name, node.op.name, Reason::NoGradient);
                return;
            }
        };
        let cx = GradCx {
            graph: self.graph,
            id,
            node,
            dys: &dys,
        };
        let scope = format!("{}_grad", node.name);
        let input_grads = self.graph.name_scope(&scope, || rule(&cx));
        let takes = |d: DType| {
            d.is_float() || d.is_complex() || matches!(d, DType::Resource | DType::Variant)
        };
        for (&input, grad) in node.inputs.iter().zip(input_grads) {
            let dtype = self.data.fact(input).map(|f| f.dtype);
            if let Some(grad) = grad
                && self.leads_to_x[input.node.index()]
                && dtype.is_some_and(takes)
            {
                self.add(input, grad);
            }
        }
    }
}

impl<'g> Operation<'g> {
    /// `true` if running this node changes a variable.
    pub fn is_update(self) -> bool {
        self.graph()
            .snapshot()
            .get(self.id())
            .is_some_and(|n| n.op.effect == Effect::Write)
    }
}
