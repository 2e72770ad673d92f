//! Simplification before a run: one walk that makes another graph, pruned to the fetches, cut at
//! the feeds, with shapes inferred anew from the feeds, constants folded and equal nodes shared.
//!
//! ```
//! # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
//! use thalweg_graph::Fact;
//! use thalweg_graph::simplify::{DEFAULT_FOLD_TIME, SimplifyOptions, simplify};
//! use thalweg_tensor::{DType, Shape};
//!
//! let g = ops::graph();
//! let x = ops::placeholder(&g, "x", [-1]);
//! let y = (x + 1.0).named("y");
//! let _unused = y + y;
//!
//! let options = SimplifyOptions { evaluate: None, share: true, devices: None, ops: None, fold_time: DEFAULT_FOLD_TIME };
//! // `x` is fed with three elements, and `y` is fetched.
//! let fed = (x.id(), Fact::new(DType::F32, Shape::known(&[3])));
//! let simple = simplify(&g.snapshot(), &[fed], &[y.id()], &[], &options).unwrap();
//!
//! // The feed, the constant and the sum are left.
//! assert_eq!(simple.graph.len(), 3);
//! assert_eq!(simple.graph.fact(simple.fetches[0]).unwrap().shape, Shape::known(&[3]));
//! ```

use std::cell::Cell;
use std::ops::Range;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

mod finish;
mod last_reads;
mod references;
mod sharing;
mod stand_ins;

use crate::attr::Attr;
use crate::check::{infer, same_as};
use crate::data::GraphData;
use crate::error::{GraphError, Reason};
use crate::flow::{Contexts, collapse};
use crate::liveness::{LivePorts, Liveness};
use crate::node::{Attrs, Fact, Node, NodeId, OutputId};
use crate::op::{Effect, FindOp, Gradient, LIVE_OUTPUTS, OpDef, arg, int_attr, type_attr};
pub use crate::simplified::{Simplified, known};
use thalweg_tensor::dtype::DType;
use thalweg_tensor::{Shape, Tensor};

/// The op that stands for a fed output in a simplified graph.
pub static FEED: OpDef = OpDef {
    name: "_Feed",
    summary: "A value that the caller of the step feeds.",
    outputs: &[arg("value", "T")],
    attrs: &[type_attr("T", &DType::ALL), int_attr("index", 0)],
    gradient: Gradient::None,
    effect: Effect::Feed,
    ..OpDef::EMPTY
};

/// Computes a pure node from its inputs' values; `None` if that is not possible now.
pub type Evaluate<'a> = &'a dyn Fn(&Node, &[&Tensor]) -> Option<Vec<Tensor>>;

/// The options of [`simplify`].
pub struct SimplifyOptions<'a> {
    /// Folds constants with this; `None` leaves them.
    pub evaluate: Option<Evaluate<'a>>,
    /// `true` to share equal nodes, and to remove nodes that equal their input.
    pub share: bool,
    /// By node of the old graph: the number of its device. `None` puts all on device 0. Nodes are
    /// shared only within a device.
    pub devices: Option<&'a [u32]>,
    /// Finds the ops on handles that replace ops on references, and the op that reads a variable.
    pub ops: Option<FindOp<'a>>,
    /// The time limit of folding; nodes left after that are computed in the step.
    pub fold_time: Duration,
}

/// The largest output of a folded node, in bytes: a larger one is cheaper to compute than to keep.
const MAX_FOLDED_BYTES: usize = 1 << 20;

/// The default time limit of folding.
pub const DEFAULT_FOLD_TIME: Duration = Duration::from_secs(1);

/// Makes the graph that computes `fetches` and runs `targets` when `feeds` are given with these
/// facts.
///
/// # Errors
/// The error of an op's shape rule for the fed shapes; see [`collapse`] too.
pub fn simplify(
    data: &GraphData,
    feeds: &[(OutputId, Fact)],
    fetches: &[OutputId],
    targets: &[NodeId],
    options: &SimplifyOptions<'_>,
) -> Result<Simplified, GraphError> {
    let fed: FxHashMap<OutputId, usize> = feeds.iter().enumerate().map(|(i, f)| (f.0, i)).collect();
    let Liveness { needed, calls } =
        data.liveness(fetches.iter().copied(), targets.iter().copied(), &|o| {
            fed.contains_key(&o)
        });
    let mut pass = Simplifier {
        data,
        options,
        out: data.empty(),
        devices: Vec::new(),
        ordered: Vec::new(),
        unskippable: Vec::new(),
        flowing: Vec::new(),
        feeds: vec![None; feeds.len()],
        values: FxHashMap::default(),
        nodes: FxHashMap::default(),
        equal: FxHashMap::default(),
        reads: FxHashMap::default(),
        after: FxHashMap::default(),
        aliases: FxHashSet::default(),
        open: Vec::new(),
        contexts: Contexts::default(),
        calls,
        unused: FxHashMap::default(),
        folding: Cell::new(Duration::ZERO),
    };
    let used: Vec<bool> = used_feeds(data, &needed, &fed, fetches, feeds.len());
    for (i, (output, fact)) in feeds.iter().enumerate() {
        if used[i] {
            pass.feed(i, *output, fact);
        }
    }
    let order = data.topological_order(&needed);
    pass.contexts = Contexts::new(data, &order);
    for id in order {
        pass.node(id)?;
    }
    let fetched = fetches.iter().map(|f| pass.fetched(*f));
    let fetched: Vec<OutputId> = fetched.collect::<Result<_, _>>()?;
    let mut targets: Vec<NodeId> = targets
        .iter()
        .filter_map(|t| pass.nodes.get(t).copied())
        .collect();
    // The nodes that fetched references come out of are targets until their reads wait for them.
    let own_targets = targets.len();
    let references = fetches.iter().zip(&fetched).map(|(old, here)| {
        let after = pass.comes_out_of(*old, *here)?;
        let first = targets.len();
        targets.extend(after);
        Some(first..targets.len())
    });
    let references: Vec<Option<Range<usize>>> = references.collect();
    pass.close_loops();
    let mut simplified = collapse(pass.finish(fetched, targets), options.ops)?;
    let references: Vec<Option<SmallVec<[NodeId; 2]>>> = references
        .into_iter()
        .map(|range| Some(simplified.targets[range?].into()))
        .collect();
    simplified.targets.truncate(own_targets);
    let read = options.ops.and_then(|find| find("ReadVariableOp"));
    last_reads::read_last(&mut simplified, &references, read)?;
    Ok(simplified)
}

fn used_feeds(
    data: &GraphData,
    needed: &[bool],
    fed: &FxHashMap<OutputId, usize>,
    fetches: &[OutputId],
    count: usize,
) -> Vec<bool> {
    let mut used = vec![false; count];
    let inputs = data
        .nodes()
        .filter(|(id, _)| needed[id.index()])
        .flat_map(|(_, n)| n.inputs.iter());
    for output in inputs.chain(fetches) {
        if let Some(&i) = fed.get(output) {
            used[i] = true;
        }
    }
    // A placeholder that is only waited for.
    for (output, &i) in fed {
        let waited_for = needed.get(output.node.index()).copied().unwrap_or(false);
        used[i] |= waited_for && data.node(output.node).op.effect == Effect::Feed;
    }
    used
}

struct Simplifier<'a> {
    data: &'a GraphData,
    options: &'a SimplifyOptions<'a>,
    out: GraphData,
    /// By node of the new graph.
    devices: Vec<u32>,
    /// By node of the new graph: `true` if it, or a node that its value comes from, waits for
    /// control inputs.
    ordered: Vec<bool>,
    /// By node of the new graph: `true` if it, or a node that its value comes from, runs though its
    /// value is unused.
    unskippable: Vec<bool>,
    /// By node of the new graph: `true` if it may run never or many times, or is a control-flow
    /// node.
    flowing: Vec<bool>,
    feeds: Vec<Option<NodeId>>,
    /// The output of the new graph for an output of the old one.
    values: FxHashMap<OutputId, OutputId>,
    /// The node of the new graph that has run when a node of the old one has.
    nodes: FxHashMap<NodeId, NodeId>,
    /// Nodes of the new graph by the hash of their computation.
    equal: FxHashMap<u64, SmallVec<[NodeId; 1]>>,
    /// Reads of variables behind references; see [`Simplifier::value_of`].
    reads: FxHashMap<(OutputId, SmallVec<[NodeId; 2]>), OutputId>,
    /// By reference of the old graph: the nodes of the new one that its users wait for, as it comes
    /// out of them.
    after: FxHashMap<OutputId, SmallVec<[NodeId; 2]>>,
    /// Outputs of the old graph that stand for a reference; see [`Simplifier::alias`].
    aliases: FxHashSet<OutputId>,
    /// Inputs of the new graph that come from a later node, by node and index, with the output of
    /// the old graph.
    open: Vec<(NodeId, usize, OutputId)>,
    /// The control-flow contexts of the old graph's nodes.
    contexts: Contexts,
    /// The needed inputs and outputs of branches and loops of the old graph.
    calls: FxHashMap<NodeId, LivePorts>,
    /// Placeholders for unneeded inputs, by device, dtype and shape.
    unused: FxHashMap<(u32, DType, Shape), OutputId>,
    /// The time that folding has taken.
    folding: Cell<Duration>,
}

impl Simplifier<'_> {
    fn feed(&mut self, i: usize, output: OutputId, fact: &Fact) {
        let mut attrs = Attrs::default();
        attrs.set("T", Attr::Type(fact.dtype));
        attrs.set("index", Attr::Int(i as i64));
        let source = self.data.node(output.node);
        let name = match output.index {
            0 => source.name.clone(),
            n => format!("{}_{n}", source.name),
        };
        let id = self.push(
            output.node,
            Node {
                name,
                op: &FEED,
                inputs: SmallVec::new(),
                controls: SmallVec::new(),
                attrs,
                device: source.device.clone(),
                colocation: SmallVec::new(),
                outputs: SmallVec::from_elem(fact.clone(), 1),
                origin: source.origin.clone(),
            },
        );
        self.feeds[i] = Some(id);
        self.values.insert(output, OutputId { node: id, index: 0 });
    }

    fn node(&mut self, old: NodeId) -> Result<(), GraphError> {
        let node = self.data.node(old);
        if node.op.effect == Effect::Feed
            && let Some(fed) = self.values.get(&OutputId {
                node: old,
                index: 0,
            })
        {
            self.nodes.insert(old, fed.node);
            return Ok(());
        }
        let mut controls = self.controls(node);
        if self.is_alias(node) && !self.contexts.in_control_flow(node, old) {
            return self.alias(old, controls);
        }
        if self.carries_alias(node) {
            return self.carry(old, controls);
        }
        let (inputs, mut facts) = self.inputs(old, &mut controls)?;
        if let Some(name) = node.op.on_handles {
            let op = self.op(node, name)?;
            return self.on_handles(old, op, inputs, &facts, controls);
        }
        // A node that may run never or many times is left as it is: its inferred facts may not come
        // about.
        let flows = self.contexts.in_control_flow(node, old);
        if flows {
            for fact in &mut facts {
                *fact = fact.clone().without_value();
            }
        }
        let mut attrs = match node.attrs.iter().any(|(name, _)| name.starts_with('_')) {
            true => node.attrs.own(),
            false => node.attrs.clone(),
        };
        let live = self.calls.get(&old).and_then(LivePorts::live_outputs);
        if let Some(live) = &live {
            attrs.set(LIVE_OUTPUTS, Attr::Ints(live.clone()));
        }
        let mut outputs = match infer(node.op, &facts, &attrs) {
            Ok(outputs) => outputs,
            Err(reason) if flows => return self.misfit(old, inputs, &facts, controls, reason),
            Err(reason) => return Err(GraphError::of(node, reason)),
        };
        for (i, (new, old)) in outputs.iter_mut().zip(&node.outputs).enumerate() {
            // The facts from the time of building still hold, but for an output that is not computed.
            let is_live = live.as_ref().is_none_or(|l| l.contains(&(i as i64)));
            if is_live && let Some(shape) = new.shape.merge(&old.shape) {
                new.shape = shape;
            }
            if flows && !node.inputs.is_empty() {
                *new = new.clone().without_value();
            }
        }
        let pure = node.op.effect == Effect::Pure;
        if self.options.share
            && pure
            && !flows
            && controls.is_empty()
            && let Some(i) = same_as(node.op, &facts, &attrs)
            && self.may_leave_out(&inputs, (node.outputs.len() == 1).then_some(i))
        {
            for (index, &input) in (0..node.outputs.len() as u32).zip(&inputs[i..]) {
                let output = OutputId { node: old, index };
                self.values.entry(output).or_insert(input);
            }
            if node.outputs.len() == 1 {
                self.nodes.insert(old, inputs[i].node);
                return Ok(());
            }
            // It stays where another node waits for it, and so for all of its inputs.
        }
        let ordered = inputs.iter().map(|i| i.node);
        let ordered = ordered.filter(|n| self.is_ordered(*n));
        let ordered: SmallVec<[NodeId; 2]> = ordered.collect();
        if !outputs.is_empty() && outputs.iter().all(|f| f.value.is_some()) {
            // Its inputs are no longer needed; the nodes that they wait for have to run all the
            // same.
            controls.extend(ordered);
            controls.sort();
            controls.dedup();
        } else if pure && !flows && controls.is_empty() && ordered.is_empty() {
            self.fold(node, &facts, &mut outputs);
        }
        let new = Node {
            name: node.name.clone(),
            op: node.op,
            inputs,
            controls,
            attrs,
            device: node.device.clone(),
            colocation: node.colocation.clone(),
            outputs,
            origin: node.origin.clone(),
        };
        let id = self.place(old, new, pure);
        self.nodes.insert(old, id);
        for index in 0..node.outputs.len() as u32 {
            self.values
                .entry(OutputId { node: old, index })
                .or_insert(OutputId { node: id, index });
        }
        Ok(())
    }

    /// The op of this name, for a node that takes or makes references.
    fn op(&self, node: &Node, name: &str) -> Result<&'static OpDef, GraphError> {
        let found = self.options.ops.and_then(|find| find(name));
        found.ok_or_else(|| GraphError::of(node, Reason::UnknownOp { nearest: None }))
    }

    fn is_ordered(&self, node: NodeId) -> bool {
        self.ordered.get(node.index()).copied().unwrap_or(false)
    }

    fn is_unskippable(&self, node: NodeId) -> bool {
        self.unskippable.get(node.index()).copied().unwrap_or(true)
    }

    /// `true` if a value may be left out when it is unused: nothing runs, and nothing is waited for, because of it.
    fn is_skippable(&self, node: NodeId) -> bool {
        !self.is_unskippable(node) && !self.is_ordered(node)
    }

    /// `true` if all of these inputs may be left out, but for the one that users take in place of the node.
    fn may_leave_out(&self, inputs: &[OutputId], but: Option<usize>) -> bool {
        let mut others = (0..inputs.len()).filter(|&i| Some(i) != but);
        others.all(|i| self.is_skippable(inputs[i].node))
    }

    fn device(&self, old: NodeId) -> u32 {
        let devices = self.options.devices;
        devices.map_or(0, |d| d.get(old.index()).copied().unwrap_or(0))
    }

    /// Adds a node for one of the old graph, on the same device.
    fn push(&mut self, old: NodeId, node: Node) -> NodeId {
        self.push_on(self.device(old), old, node)
    }

    /// Adds a node for one of the old graph, on this device.
    fn push_on(&mut self, device: u32, old: NodeId, node: Node) -> NodeId {
        self.devices.push(device);
        let mut inputs = node.inputs.iter();
        let ordered = inputs.any(|i| self.is_ordered(i.node));
        self.ordered.push(ordered || !node.controls.is_empty());
        let flows = self.contexts.in_control_flow(self.data.node(old), old);
        self.flowing.push(flows);
        let after = node.inputs.iter().any(|i| self.is_unskippable(i.node));
        let is_source = matches!(node.op.effect, Effect::Feed | Effect::Handle);
        let id = self.out.push(node);
        let runs = !is_source && !self.is_removable(id);
        self.unskippable.push(runs || after);
        id
    }

    fn controls(&self, node: &Node) -> SmallVec<[NodeId; 2]> {
        let mut controls: SmallVec<[NodeId; 2]> = node
            .controls
            .iter()
            .map(|c| self.nodes[c])
            // A node without effects and control inputs of its own orders nothing.
            .filter(|&c| {
                let n = self.out.node(c);
                n.op.effect != Effect::Pure || !n.controls.is_empty() || !n.inputs.is_empty()
            })
            .collect();
        controls.sort();
        controls.dedup();
        controls
    }

    fn fact(&self, output: OutputId) -> Fact {
        self.out.node(output.node).outputs[output.index as usize].clone()
    }

    /// Computes the outputs if all inputs are known.
    fn fold(&self, node: &Node, inputs: &[Fact], outputs: &mut SmallVec<[Fact; 1]>) {
        let Some(evaluate) = self.options.evaluate else {
            return;
        };
        // A list stays on the device that makes it: as a constant it could not go to another task.
        let small = |f: &Fact| {
            let elements = f.shape.elements().filter(|_| f.dtype != DType::Variant);
            elements.is_some_and(|n| n.saturating_mul(f.dtype.size()) <= MAX_FOLDED_BYTES)
        };
        if outputs.iter().all(|f| f.value.is_some()) || !outputs.iter().all(small) {
            return;
        }
        let values: Option<SmallVec<[_; 4]>> = inputs.iter().map(|f| f.value.as_ref()).collect();
        let Some(values) = values.filter(|_| self.folding.get() < self.options.fold_time) else {
            return;
        };
        let started = Instant::now();
        let results = evaluate(node, &values);
        self.folding.set(self.folding.get() + started.elapsed());
        // The length of strings is known only now.
        let small =
            |results: &Vec<Tensor>| results.iter().all(|t| t.byte_size() <= MAX_FOLDED_BYTES);
        if let Some(results) = results.filter(small) {
            for (fact, value) in outputs.iter_mut().zip(results) {
                fact.shape = value.shape();
                fact.value = Some(value);
            }
        }
    }
}
