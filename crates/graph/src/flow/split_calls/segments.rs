//! Segments of the functions of a call: the nodes of one device between two changes of device.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::function::{ARGUMENT, Function};
use crate::node::{Node, NodeId, OutputId};
use crate::op::Effect;
use crate::simplified::Simplified;

/// A function of a call. Its nodes have devices.
pub(super) struct Body {
    /// The body. Feeds are its arguments, fetches its results, and targets the nodes that run besides.
    pub(super) placed: Simplified,
    pub(super) function: Arc<Function>,
    /// The input of the call that is its first argument.
    pub(super) first_input: usize,
}

impl Body {
    /// The argument that a node stands for.
    pub(super) fn argument(&self, node: NodeId) -> Option<usize> {
        match self.placed.graph.node(node).op.name == ARGUMENT.name {
            true => self.placed.feeds.iter().position(|f| *f == Some(node)),
            false => None,
        }
    }

    /// `true` for a node that each segment has for itself: an argument, or a constant.
    pub(super) fn is_free(&self, node: NodeId) -> bool {
        let node = self.placed.graph.node(node);
        let constant =
            node.op.effect == Effect::Pure && node.inputs.is_empty() && node.controls.is_empty();
        constant || node.op.name == ARGUMENT.name
    }
}

/// The place of a segment in the order of calls: changes of device before it, and its device.
pub(super) type SegmentKey = (u32, u32);

/// A value that a segment takes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Taken {
    /// An input of the split call.
    Input(usize),
    /// An output of a node of a body, of another segment.
    Value(usize, OutputId),
}

/// The nodes of a segment, and the values between it and others.
#[derive(Default)]
pub(super) struct Segment {
    /// By body: its nodes, by number.
    pub(super) nodes: Vec<Vec<NodeId>>,
    /// The values that it takes.
    pub(super) takes: BTreeSet<Taken>,
    /// The values that later segments take from it: the body, and the output.
    pub(super) gives: BTreeSet<(usize, OutputId)>,
    /// The segments that it waits for.
    pub(super) waits: BTreeSet<SegmentKey>,
}

/// The segments of a call, in order. The last one gives the results of the call.
pub(super) struct Segments {
    pub(super) all: BTreeMap<SegmentKey, Segment>,
    /// By body and node: the node's segment.
    pub(super) of: FxHashMap<(usize, NodeId), SegmentKey>,
}

impl Segments {
    /// The segments of these bodies, for a call on device `home`; `None` if a handle would have to change its device, or a
    /// body has a loop of nodes.
    pub(super) fn find(bodies: &[Body], home: u32) -> Option<Segments> {
        let mut found = Segments {
            all: BTreeMap::new(),
            of: FxHashMap::default(),
        };
        let mut last = 0;
        for (number, body) in bodies.iter().enumerate() {
            for (node, key) in keys(body)? {
                last = last.max(key.0 + u32::from(key.1 != home));
                found.of.insert((number, node), key);
                let segment = found.all.entry(key).or_default();
                segment.nodes.resize(bodies.len(), Vec::new());
                segment.nodes[number].push(node);
            }
        }
        let results = (last, home);
        let segment = found.all.entry(results).or_default();
        segment.nodes.resize(bodies.len(), Vec::new());
        for (number, body) in bodies.iter().enumerate() {
            for id in body.placed.graph.ids() {
                if let Some(&key) = found.of.get(&(number, id)) {
                    found.connect(number, body, key, &body.placed.graph.node(id).inputs)?;
                    for source in &body.placed.graph.node(id).controls {
                        found.wait(number, key, *source);
                    }
                }
            }
            found.connect(number, body, results, &body.placed.fetches)?;
        }
        let before: Vec<SegmentKey> = found
            .all
            .keys()
            .copied()
            .filter(|k| *k != results)
            .collect();
        found.all.get_mut(&results)?.waits.extend(before);
        Some(found)
    }

    /// Notes that a segment takes these outputs of a body.
    fn connect(
        &mut self,
        number: usize,
        body: &Body,
        key: SegmentKey,
        outputs: &[OutputId],
    ) -> Option<()> {
        for &output in outputs {
            let is_handle = body.placed.graph.fact(output)?.dtype.is_handle();
            if is_handle && body.placed.devices[output.node.index()] != key.1 {
                return None;
            }
            let from = self.of.get(&(number, output.node)).copied();
            if let Some(argument) = body.argument(output.node) {
                let input = Taken::Input(body.first_input + argument);
                self.all.get_mut(&key)?.takes.insert(input);
            } else if let Some(from) = from.filter(|from| *from != key) {
                self.all.get_mut(&from)?.gives.insert((number, output));
                let segment = self.all.get_mut(&key)?;
                segment.takes.insert(Taken::Value(number, output));
            }
        }
        Some(())
    }

    /// Notes that a segment waits for that of a node.
    fn wait(&mut self, number: usize, key: SegmentKey, source: NodeId) {
        let from = self.of.get(&(number, source)).copied();
        if let (Some(from), Some(segment)) = (from.filter(|f| *f != key), self.all.get_mut(&key)) {
            segment.waits.insert(from);
        }
    }
}

/// The nodes that run, each with its segment; `None` if one takes a value of a later node.
fn keys(body: &Body) -> Option<Vec<(NodeId, SegmentKey)>> {
    let placed = &body.placed;
    let roots = placed.fetches.iter().map(|f| f.node);
    let roots = roots.chain(placed.targets.iter().copied());
    let needed = placed.graph.needed(roots, |_| false);
    let mut level: FxHashMap<NodeId, u32> = FxHashMap::default();
    let mut keys = Vec::new();
    let mut seen: FxHashSet<NodeId> = FxHashSet::default();
    for (id, node) in placed.graph.nodes() {
        seen.insert(id);
        if !needed[id.index()] || body.is_free(id) {
            continue;
        }
        let device = placed.devices[id.index()];
        let mut here = 0;
        for source in sources(node) {
            if !seen.contains(&source) {
                return None;
            }
            if let Some(&before) = level.get(&source) {
                let changes = placed.devices[source.index()] != device;
                here = here.max(before + u32::from(changes));
            }
        }
        level.insert(id, here);
        keys.push((id, (here, device)));
    }
    Some(keys)
}

/// The nodes that a node uses or waits for.
pub(super) fn sources(node: &Node) -> SmallVec<[NodeId; 8]> {
    let inputs = node.inputs.iter().map(|i| i.node);
    inputs.chain(node.controls.iter().copied()).collect()
}
