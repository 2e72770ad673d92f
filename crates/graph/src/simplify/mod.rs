//! What is run instead of what was built: pruned to what is fetched, cut where it is fed, shapes
//! inferred anew from the feeds', constants folded, equal nodes shared. One walk does it, and
//! makes another graph.
//!
//! ```
//! # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
//! use thalweg_graph::Fact;
//! use thalweg_graph::simplify::{MOST_FOLD_TIME, Simplify, simplify};
//! use thalweg_tensor::{DType, Shape};
//!
//! let g = ops::graph();
//! let x = ops::placeholder(&g, "x", [-1]);
//! let y = (x + 1.0).named("y");
//! let _unused = y + y;
//!
//! let options = Simplify { evaluate: None, share: true, devices: None, ops: None, fold_time: MOST_FOLD_TIME };
//! // `x` is fed with three elements, and `y` is fetched.
//! let fed = (x.id(), Fact::new(DType::F32, Shape::known(&[3])));
//! let simple = simplify(&g.snapshot(), &[fed], &[y.id()], &[], &options).unwrap();
//!
//! // The feed, the constant and the sum are left.
//! assert_eq!(simple.graph.len(), 3);
//! assert_eq!(simple.graph.fact(simple.fetches[0]).unwrap().shape, Shape::known(&[3]));
//! ```

use std::cell::Cell;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

mod finish;
mod references;

use crate::attr::Attr;
use crate::check::{infer, same_as};
use crate::data::GraphData;
use crate::error::{GraphError, Reason};
use crate::flow::{Contexts, collapse};
use crate::node::{Attrs, Fact, Node, NodeId, OutputId};
use crate::op::{Effect, Gradient, OpDef, arg, int_attr, type_attr};
use thalweg_tensor::Tensor;
use thalweg_tensor::dtype::DType;

/// The op that stands for a fed output in a simplified graph.
pub static FEED: OpDef = OpDef {
    name: "_Feed",
    summary: "A value that the caller of the step hands in.",
    outputs: &[arg("value", "T")],
    attrs: &[type_attr("T", &DType::ALL), int_attr("index", 0)],
    gradient: Gradient::None,
    effect: Effect::Feed,
    ..OpDef::EMPTY
};

/// Computes a pure node from its inputs' values; `None` where that cannot be done now.
pub type Evaluate<'a> = &'a dyn Fn(&Node, &[&Tensor]) -> Option<Vec<Tensor>>;

/// How far [`simplify`] goes.
pub struct Simplify<'a> {
    /// Folds constants with this; `None` leaves them.
    pub evaluate: Option<Evaluate<'a>>,
    /// Whether equal nodes are shared, and nodes that equal their input left out.
    pub share: bool,
    /// By node of the graph that is simplified: the number of its device. Without it all are on
    /// device 0. Nodes are shared only within a device.
    pub devices: Option<&'a [u32]>,
    /// Finds the ops that stand for those on references, and the one that reads a variable.
    pub ops: Option<FindOp<'a>>,
    /// How long folding may take in all; what is left then is computed in the step.
    pub fold_time: Duration,
}

/// Finds an op by its name.
pub type FindOp<'a> = &'a dyn Fn(&str) -> Option<&'static OpDef>;

/// The outputs of a folded node may have this many bytes: what is larger is cheaper to compute than
/// to keep.
const MOST_FOLDED_BYTES: usize = 1 << 20;

/// How long folding may take in all, where nothing else is said.
pub const MOST_FOLD_TIME: Duration = Duration::from_secs(1);

/// A graph to run, and where the things asked for are in it.
#[derive(Debug)]
pub struct Simplified {
    /// The graph. Its nodes' numbers ascend along edges.
    pub graph: GraphData,
    /// For each feed, its node; `None` where nothing that is fetched needs it.
    pub feeds: Vec<Option<NodeId>>,
    /// For each fetch, where its value comes from.
    pub fetches: Vec<OutputId>,
    /// For each target, its node.
    pub targets: Vec<NodeId>,
    /// By node: the number of its device.
    pub devices: Vec<u32>,
}

/// Makes the graph that computes `fetches` and runs `targets` when `feeds` are given with these
/// facts.
///
/// # Errors
/// What an op's shape rule finds wrong with the shapes that are fed; see [`collapse`] too.
pub fn simplify(
    data: &GraphData,
    feeds: &[(OutputId, Fact)],
    fetches: &[OutputId],
    targets: &[NodeId],
    options: &Simplify<'_>,
) -> Result<Simplified, GraphError> {
    let fed: FxHashMap<OutputId, usize> = feeds.iter().enumerate().map(|(i, f)| (f.0, i)).collect();
    let roots = fetches
        .iter()
        .filter(|f| !fed.contains_key(f))
        .map(|f| f.node)
        .chain(targets.iter().copied());
    let needed = data.needed(roots, |o| fed.contains_key(&o));
    let mut pass = Pass {
        data,
        options,
        out: data.empty(),
        devices: Vec::new(),
        ordered: Vec::new(),
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
        folding: Cell::new(Duration::ZERO),
    };
    let used: Vec<bool> = used_feeds(data, &needed, &fed, fetches, feeds.len());
    for (i, (output, fact)) in feeds.iter().enumerate() {
        if used[i] {
            pass.feed(i, *output, fact);
        }
    }
    let order = data.order(&needed);
    pass.contexts = Contexts::new(data, &order);
    for id in order {
        pass.node(id)?;
    }
    let fetched = fetches.iter().map(|f| pass.fetched(*f));
    let fetches: Vec<OutputId> = fetched.collect::<Result<_, _>>()?;
    let targets: Vec<NodeId> = targets
        .iter()
        .filter_map(|t| pass.nodes.get(t).copied())
        .collect();
    pass.close_loops();
    collapse(pass.finish(fetches, targets))
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
    // A placeholder that something only waits for.
    for (output, &i) in fed {
        let waited_for = needed.get(output.node.index()).copied().unwrap_or(false);
        used[i] |= waited_for && data.node(output.node).op.effect == Effect::Feed;
    }
    used
}

struct Pass<'a> {
    data: &'a GraphData,
    options: &'a Simplify<'a>,
    out: GraphData,
    /// By node of the new graph.
    devices: Vec<u32>,
    /// By node of the new graph: whether it, or something that its value comes from, waits for
    /// control inputs.
    ordered: Vec<bool>,
    /// By node of the new graph: whether it runs never or often, or decides what does.
    flowing: Vec<bool>,
    feeds: Vec<Option<NodeId>>,
    /// Where an output of the old graph is in the new one.
    values: FxHashMap<OutputId, OutputId>,
    /// Which node of the new graph has run when a node of the old one has.
    nodes: FxHashMap<NodeId, NodeId>,
    /// Nodes of the new graph by what they compute.
    equal: FxHashMap<u64, SmallVec<[NodeId; 1]>>,
    /// Reads of variables behind references; see [`Pass::value_of`].
    reads: FxHashMap<(OutputId, SmallVec<[NodeId; 2]>), OutputId>,
    /// By reference of the old graph: the nodes of the new one that whoever uses it waits for, as it
    /// comes out of them.
    after: FxHashMap<OutputId, SmallVec<[NodeId; 2]>>,
    /// Outputs of the old graph that stand for a reference; see [`Pass::alias`].
    aliases: FxHashSet<OutputId>,
    /// Inputs of the new graph that come from a later node, by node and number, with the output of
    /// the old graph that they are.
    open: Vec<(NodeId, usize, OutputId)>,
    /// Which nodes of the old graph run never or often.
    contexts: Contexts,
    /// How long folding has taken.
    folding: Cell<Duration>,
}

impl Pass<'_> {
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
        if self.is_alias(node) && !self.contexts.flows(node, old) {
            return self.alias(old, controls);
        }
        let (inputs, mut facts) = self.inputs(old, &mut controls)?;
        if let Some(name) = node.op.on_handles {
            let op = self.op(node, name)?;
            return self.on_handles(old, op, inputs, &facts, controls);
        }
        // What runs never or often is left as it is: what is known of it need not come about.
        let flows = self.contexts.flows(node, old);
        if flows {
            facts.iter_mut().for_each(|f| f.value = None);
        }
        let attrs = match node.attrs.iter().any(|(name, _)| name.starts_with('_')) {
            true => node.attrs.own(),
            false => node.attrs.clone(),
        };
        let mut outputs = infer(node.op, &facts, &attrs).map_err(|reason| error(node, reason))?;
        for (new, old) in outputs.iter_mut().zip(&node.outputs) {
            // What was said of an output when the graph was built stays true.
            if let Some(shape) = new.shape.merge(&old.shape) {
                new.shape = shape;
            }
            if flows && !node.inputs.is_empty() {
                new.value = None;
            }
        }
        let pure = node.op.effect == Effect::Pure;
        if self.options.share
            && pure
            && !flows
            && controls.is_empty()
            && let Some(i) = same_as(node.op, &facts, &attrs)
        {
            self.nodes.insert(old, inputs[i].node);
            let output = OutputId {
                node: old,
                index: 0,
            };
            self.values.entry(output).or_insert(inputs[i]);
            return Ok(());
        }
        let ordered = inputs.iter().map(|i| i.node);
        let ordered = ordered.filter(|n| self.is_ordered(*n));
        let ordered: SmallVec<[NodeId; 2]> = ordered.collect();
        if !outputs.is_empty() && outputs.iter().all(|f| f.value.is_some()) {
            // It needs its inputs no more; what they wait for has to run all the same.
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

    /// Adds a node that stands for one of the old graph, or finds one that computes the same.
    fn place(&mut self, old: NodeId, new: Node, pure: bool) -> NodeId {
        let shared = match self.options.share && pure {
            true => self.shared(old, &new),
            false => None,
        };
        shared.unwrap_or_else(|| {
            let open = new.inputs.iter().enumerate();
            let open: SmallVec<[usize; 2]> = open
                .filter(|(_, i)| i.node.is_invalid())
                .map(|(i, _)| i)
                .collect();
            let id = self.push(old, new);
            for i in open {
                self.open.push((id, i, self.data.node(old).inputs[i]));
            }
            let hash = self.hash(id);
            self.equal.entry(hash).or_default().push(id);
            id
        })
    }

    /// The op of this name, for a node that takes or makes references.
    fn op(&self, node: &Node, name: &str) -> Result<&'static OpDef, GraphError> {
        let found = self.options.ops.and_then(|find| find(name));
        found.ok_or_else(|| error(node, Reason::UnknownOp { nearest: None }))
    }

    fn is_ordered(&self, node: NodeId) -> bool {
        self.ordered.get(node.index()).copied().unwrap_or(false)
    }

    fn device(&self, old: NodeId) -> u32 {
        let devices = self.options.devices;
        devices.map_or(0, |d| d.get(old.index()).copied().unwrap_or(0))
    }

    /// Adds a node that stands for one of the old graph, where that stands.
    fn push(&mut self, old: NodeId, node: Node) -> NodeId {
        self.push_on(self.device(old), old, node)
    }

    /// Adds a node that stands for one of the old graph, on this device.
    fn push_on(&mut self, device: u32, old: NodeId, node: Node) -> NodeId {
        self.devices.push(device);
        let mut inputs = node.inputs.iter();
        let ordered = inputs.any(|i| self.is_ordered(i.node));
        self.ordered.push(ordered || !node.controls.is_empty());
        let flows = self.contexts.flows(self.data.node(old), old);
        self.flowing.push(flows);
        self.out.push(node)
    }

    fn controls(&self, node: &Node) -> SmallVec<[NodeId; 2]> {
        let mut controls: SmallVec<[NodeId; 2]> = node
            .controls
            .iter()
            .map(|c| self.nodes[c])
            // What has no effect and no control inputs of its own orders nothing.
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

    /// Computes the outputs whose inputs are all known.
    fn fold(&self, node: &Node, inputs: &[Fact], outputs: &mut SmallVec<[Fact; 1]>) {
        let Some(evaluate) = self.options.evaluate else {
            return;
        };
        // A list lives where it is made: one that is a constant could not go to another task.
        let small = |f: &Fact| {
            let elements = f.shape.elements().filter(|_| f.dtype != DType::Variant);
            elements.is_some_and(|n| n.saturating_mul(f.dtype.size()) <= MOST_FOLDED_BYTES)
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
        // Only now is it known how long strings are.
        let small =
            |results: &Vec<Tensor>| results.iter().all(|t| t.byte_size() <= MOST_FOLDED_BYTES);
        if let Some(results) = results.filter(small) {
            for (fact, value) in outputs.iter_mut().zip(results) {
                fact.shape = value.shape();
                fact.value = Some(value);
            }
        }
    }

    /// A node of the new graph that computes the same.
    fn shared(&self, old: NodeId, node: &Node) -> Option<NodeId> {
        let device = self.device(old);
        let hash = hash(node, &node.inputs, &node.controls);
        let same = |id: &&NodeId| {
            let other = self.out.node(**id);
            std::ptr::eq(other.op, node.op)
                && other.inputs == node.inputs
                && other.controls == node.controls
                && self.devices[id.index()] == device
                && other.attrs == node.attrs
                && other.outputs == node.outputs
        };
        self.equal.get(&hash)?.iter().find(same).copied()
    }

    fn hash(&self, id: NodeId) -> u64 {
        let node = self.out.node(id);
        hash(node, &node.inputs, &node.controls)
    }
}

/// Whether all that a node gives is known: it need not be computed, though others may have to wait
/// for what it waits for.
pub fn known(node: &Node) -> bool {
    node.op.effect == Effect::Pure
        && !node.outputs.is_empty()
        && node.outputs.iter().all(|f| f.value.is_some())
}

fn hash(node: &Node, inputs: &[OutputId], controls: &[NodeId]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    // Keyed by what may come from a file: a hash that nobody can aim at.
    let mut h = DefaultHasher::new();
    node.op.name.hash(&mut h);
    inputs.hash(&mut h);
    controls.hash(&mut h);
    for (name, value) in node.attrs.iter() {
        name.hash(&mut h);
        match value {
            Attr::Type(v) => v.hash(&mut h),
            Attr::Int(v) => v.hash(&mut h),
            Attr::Float(v) => v.to_bits().hash(&mut h),
            Attr::Bool(v) => v.hash(&mut h),
            Attr::Str(v) => v.hash(&mut h),
            Attr::Shape(v) => v.hash(&mut h),
            Attr::Tensor(v) => v.bytes().hash(&mut h),
            Attr::Ints(v) => v.hash(&mut h),
            Attr::Types(v) => v.hash(&mut h),
            // Nodes that differ in these only are compared whole.
            _ => value.kind().hash(&mut h),
        }
    }
    h.finish()
}

fn error(node: &Node, reason: Reason) -> GraphError {
    GraphError {
        node: node.name.clone(),
        op: node.op.name.to_owned(),
        origin: node.origin.clone(),
        reason,
    }
}
