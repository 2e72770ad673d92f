//! Partitioning: cuts a graph by device into one graph for each device, with a send and a receive
//! in the place of each edge between devices.
//!
//! As in TensorFlow's partitioner, there is one receive for each (output, destination device). The
//! cut follows a given order of the whole graph: each part's nodes are numbered along it, and every
//! send comes before its receive in it, so parts that run in that order cannot deadlock.
//!
//! ```
//! # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
//! use thalweg_graph::partition;
//!
//! let g = ops::graph();
//! let x = ops::placeholder(&g, "x", []);
//! let sum = x + x;
//! let product = sum * sum;
//!
//! let data = g.snapshot();
//! let order: Vec<_> = data.ids().collect();
//! // The last node is on device 1, the others are on device 0.
//! let devices: Vec<u32> = order.iter().map(|&id| u32::from(id == product.id().node)).collect();
//! let partitioner = partition((*data).clone(), &order, &devices, false, &|_| None);
//!
//! assert_eq!(partitioner.parts.len(), 2);
//! // The sum is used twice there, and crossings once.
//! assert_eq!(partitioner.channels.len(), 1);
//! assert_eq!(partitioner.node(product.id().node).map(|(part, _)| part), Some(1));
//! ```

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::attr::Attr;
use crate::data::GraphData;
use crate::node::{Attrs, Fact, Node, NodeId, OutputId};
use crate::op::{Effect, Gradient, OpDef, arg, bool_attr, int_attr, type_attr};
use crate::simplify::{FEED, known};
use thalweg_tensor::dtype::DType;
use thalweg_tensor::shape::Shape;

/// The attribute of [`SEND`] and [`RECV`] that places the other end: `false` for another device of
/// the same plan, `true` for outside of it: another task, or the client of a partial run.
pub const REMOTE: &str = "remote";

/// The op that sends a value to another device, or, if it is remote, to another task. Without an
/// input it only signals that the nodes that it waits for have run.
pub static SEND: OpDef = OpDef {
    name: "_Send",
    summary: "Sends a value to another device or task.",
    inputs: &[arg("tensor", "T").list("N")],
    attrs: &[
        type_attr("T", &DType::ALL),
        int_attr("N", 1),
        int_attr("channel", 0),
        bool_attr(REMOTE, false),
    ],
    gradient: Gradient::None,
    effect: Effect::Send,
    ..OpDef::EMPTY
};

/// The op that receives a value from another device, or, if it is remote, from another task.
pub static RECV: OpDef = OpDef {
    name: "_Recv",
    summary: "Receives a value from another device or task.",
    outputs: &[arg("tensor", "T")],
    attrs: &[
        type_attr("T", &DType::ALL),
        int_attr("channel", 0),
        bool_attr(REMOTE, false),
    ],
    gradient: Gradient::None,
    effect: Effect::Recv,
    ..OpDef::EMPTY
};

/// `true` for a send or a receive whose other end is outside of the plan.
pub fn is_remote(node: &Node) -> bool {
    matches!(node.op.effect, Effect::Send | Effect::Recv) && node.attrs.bool(REMOTE)
}

/// An edge that is about to be cut.
#[derive(Clone, Copy, Debug)]
pub struct Crossing<'a> {
    /// The node whose value crosses.
    pub node: &'a Node,
    /// The index of its output.
    pub output: u32,
    /// The number of the source device.
    pub from: u32,
    /// The number of the destination device.
    pub to: u32,
}

/// Chooses a narrower dtype for a value that crosses, and the op that converts it: `Cast`.
pub type Narrow<'a> = &'a dyn Fn(Crossing<'_>) -> Option<(DType, &'static OpDef)>;

/// The nodes of one device.
#[derive(Debug)]
pub struct DeviceGraph {
    /// The number of the device.
    pub device: u32,
    /// Its nodes, numbered in the order in which one thread runs them.
    pub graph: GraphData,
}

/// A cut edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The sending part.
    pub from: u32,
    /// The send node there.
    pub send: NodeId,
    /// The receiving part.
    pub to: u32,
    /// The receive node there.
    pub recv: NodeId,
}

/// A partitioned graph.
#[derive(Debug, Default)]
pub struct Partitioned {
    /// The parts, by the number of their device.
    pub parts: Vec<DeviceGraph>,
    /// The cut edges; attribute `channel` of a send and a receive is an index into them.
    pub channels: Vec<Channel>,
    /// The order of the whole as runs of (part, end): the nodes of a part up to this number come
    /// next.
    pub segments: Vec<(u32, u32)>,
    /// By node of the whole graph: its part, and its number there; for a node that several parts
    /// have, one of them.
    nodes: Vec<Option<(u32, NodeId)>>,
    /// By feed node: every part that has it, and its number there.
    feeds: FxHashMap<NodeId, SmallVec<[(u32, NodeId); 2]>>,
}

impl Partitioned {
    /// The part of a node of the whole graph, and its number there.
    pub fn node(&self, node: NodeId) -> Option<(u32, NodeId)> {
        self.nodes.get(node.index()).copied().flatten()
    }

    /// The parts that use a feed, with the numbers of its nodes there.
    pub fn feed(&self, feed: NodeId) -> &[(u32, NodeId)] {
        self.feeds.get(&feed).map_or(&[], |f| f)
    }
}

/// Cuts `graph` into one part for each device that has a node. `sequence` is a topological order of
/// all nodes; `devices` has the device of each node.
///
/// Feeds and constants are not sent: every part that uses one has a copy. Values cross in their own
/// dtype, unless `narrow` chooses another. `remote` is `true` if the parts belong to different
/// tasks.
pub fn partition(
    graph: GraphData,
    sequence: &[NodeId],
    devices: &[u32],
    remote: bool,
    narrow: Narrow<'_>,
) -> Partitioned {
    let mut used: Vec<u32> = sequence.iter().map(|n| devices[n.index()]).collect();
    used.sort_unstable();
    used.dedup();
    let part_of: Vec<u32> = devices
        .iter()
        .map(|d| used.binary_search(d).unwrap_or(0) as u32)
        .collect();
    let part = |&device: &u32| DeviceGraph {
        device,
        graph: graph.empty(),
    };
    let replicated: Vec<bool> = graph.nodes().map(|(_, n)| is_replicated(n)).collect();
    let mut partitioner = Partitioner {
        crossing: crossings(&graph, sequence, &part_of, &replicated),
        out: Partitioned {
            parts: used.iter().map(part).collect(),
            nodes: vec![None; graph.len()],
            ..Partitioned::default()
        },
        nodes: graph.into_nodes().map(Some).collect(),
        replicated,
        remote,
        narrow,
        copies: FxHashMap::default(),
        received: FxHashMap::default(),
    };
    for &id in sequence {
        partitioner.node(id, part_of[id.index()]);
    }
    partitioner.out
}

/// The crossings of a node: an output, or `None` for the completion of the node alone, and the
/// destination part.
type Crossings = SmallVec<[(Option<u32>, u32); 2]>;

/// By node: its crossings to other parts.
fn crossings(
    graph: &GraphData,
    sequence: &[NodeId],
    part_of: &[u32],
    replicated: &[bool],
) -> FxHashMap<NodeId, Crossings> {
    let mut all: FxHashMap<NodeId, Crossings> = FxHashMap::default();
    let mut add = |source: NodeId, output: Option<u32>, to: u32| {
        if part_of[source.index()] == to || replicated[source.index()] {
            return;
        }
        let of = all.entry(source).or_default();
        // Any value of a node that arrives also signals that the node has run.
        let told = match output {
            Some(_) => of.contains(&(output, to)),
            None => of.iter().any(|(_, part)| *part == to),
        };
        if !told {
            of.push((output, to));
        }
    };
    for &id in sequence {
        let to = part_of[id.index()];
        for input in &graph.node(id).inputs {
            add(input.node, Some(input.index), to);
        }
    }
    for &id in sequence {
        for &control in &graph.node(id).controls {
            add(control, None, part_of[id.index()]);
        }
    }
    all
}

struct Partitioner<'a> {
    /// By number: the nodes of the whole graph that are in no part yet, and feeds and constants.
    nodes: Vec<Option<Arc<Node>>>,
    /// By node of the whole graph; see [`is_replicated`].
    replicated: Vec<bool>,
    crossing: FxHashMap<NodeId, Crossings>,
    out: Partitioned,
    remote: bool,
    narrow: Narrow<'a>,
    /// Feeds and constants: by node of the whole graph and part, the node there.
    copies: FxHashMap<(NodeId, u32), NodeId>,
    /// By node of the whole graph and part: the arrivals there, and the nodes that receive them.
    received: FxHashMap<(NodeId, u32), Arrivals>,
}

/// The arrivals of a node: an output, or `None` for its completion alone; and the node that
/// receives it.
type Arrivals = SmallVec<[(Option<u32>, NodeId); 1]>;

impl Partitioner<'_> {
    fn push(&mut self, part: u32, node: impl Into<Arc<Node>>) -> NodeId {
        let graph = &mut self.out.parts[part as usize].graph;
        let id = graph.push(node);
        let end = graph.len() as u32;
        match self.out.segments.last_mut() {
            Some((p, e)) if *p == part => *e = end,
            _ => self.out.segments.push((part, end)),
        }
        id
    }

    fn node(&mut self, id: NodeId, part: u32) {
        if self.replicated[id.index()] {
            self.out.nodes[id.index()] = self.copy(id, part).map(|here| (part, here));
            return;
        }
        let Some(mut arc) = self.nodes[id.index()].take() else {
            return;
        };
        let node = Arc::make_mut(&mut arc);
        for input in &mut node.inputs {
            *input = self.input(*input, part);
        }
        let waits = node.controls.iter().filter_map(|&c| self.control(c, part));
        node.controls = waits.collect();
        node.controls.sort();
        node.controls.dedup();
        let here = self.push(part, arc);
        self.out.nodes[id.index()] = Some((part, here));
        for (output, to) in self.crossing.remove(&id).unwrap_or_default() {
            self.cross(id, here, output, part, to);
        }
    }

    /// The copy of a feed or constant in `part`.
    fn copy(&mut self, id: NodeId, part: u32) -> Option<NodeId> {
        if let Some(&here) = self.copies.get(&(id, part)) {
            return Some(here);
        }
        let mut node = self.nodes[id.index()].clone()?;
        if !node.inputs.is_empty() {
            // A known value is not computed.
            Arc::make_mut(&mut node).inputs.clear();
        }
        let is_feed = std::ptr::eq(node.op, &FEED);
        let here = self.push(part, node);
        self.copies.insert((id, part), here);
        if is_feed {
            self.out.feeds.entry(id).or_default().push((part, here));
        }
        Some(here)
    }

    /// The output that holds a value in `part`.
    fn input(&mut self, output: OutputId, part: u32) -> OutputId {
        let index = output.index;
        if self.replicated[output.node.index()] {
            let node = self.copy(output.node, part).unwrap_or(NodeId::INVALID);
            return OutputId { node, index };
        }
        match self.out.node(output.node) {
            Some((p, node)) if p == part => OutputId { node, index },
            _ => OutputId {
                node: self.arrived(output.node, Some(index), part),
                index: 0,
            },
        }
    }

    /// The node for which a node of `part` waits in place of `control`; `None` if that is there
    /// from the start.
    fn control(&self, control: NodeId, part: u32) -> Option<NodeId> {
        match self.out.node(control) {
            _ if self.replicated[control.index()] => None,
            Some((p, here)) if p == part => Some(here),
            _ => Some(self.arrived(control, None, part)),
        }
    }

    /// The node of `part` that receives this output, or, for `None`, any output of `source`.
    fn arrived(&self, source: NodeId, output: Option<u32>, part: u32) -> NodeId {
        let received = self.received.get(&(source, part));
        let mut received = received.into_iter().flatten();
        let found = received.find(|(o, _)| output.is_none() || *o == output);
        // `sequence` is a topological order, so the values of `source` have crossed by now.
        found.map_or(NodeId::INVALID, |(_, node)| *node)
    }

    /// Adds a send after the node that was just made, and its receive in the other part.
    fn cross(&mut self, source: NodeId, there: NodeId, output: Option<u32>, from: u32, to: u32) {
        let node = self.out.parts[from as usize].graph.node(there).clone();
        let mut fact = match output {
            Some(i) => node.outputs[i as usize].clone().without_value(),
            None => Fact::new(DType::F32, Shape::known(&[0])),
        };
        let value = output.map(|index| OutputId { node: there, index });
        let device = |part: u32| self.out.parts[part as usize].device;
        let narrow = output.and_then(|output| {
            (self.narrow)(Crossing {
                node: &node,
                output,
                from: device(from),
                to: device(to),
            })
        });
        let wide = fact.clone();
        // The value that is sent.
        let value = match (value, narrow) {
            (Some(value), Some((dtype, cast))) => {
                fact.dtype = dtype;
                let narrowed = self.cast(cast, &node, (value, &wide), &fact, from);
                Some(OutputId {
                    node: narrowed,
                    index: 0,
                })
            }
            (value, _) => value,
        };
        let channel = self.out.channels.len();
        let blank = |op: &'static OpDef, kind: &str| {
            let mut attrs = Attrs::default();
            attrs.set("T", Attr::Type(fact.dtype));
            attrs.set("channel", Attr::Int(channel as i64));
            attrs.set(REMOTE, Attr::Bool(self.remote));
            Node {
                name: match output {
                    Some(0) => format!("{}/{kind}_{channel}", node.name),
                    Some(i) => format!("{}:{i}/{kind}_{channel}", node.name),
                    None => format!("^{}/{kind}_{channel}", node.name),
                },
                op,
                inputs: SmallVec::new(),
                controls: SmallVec::new(),
                attrs,
                device: Default::default(),
                colocation: SmallVec::new(),
                outputs: SmallVec::new(),
                origin: node.origin.clone(),
            }
        };
        let mut send = blank(&SEND, "_send");
        send.attrs.set("N", Attr::Int(i64::from(output.is_some())));
        match value {
            Some(value) => send.inputs.push(value),
            None => send.controls.push(there),
        }
        let mut recv = blank(&RECV, "_recv");
        recv.outputs.push(fact.clone());
        let (send, recv) = (self.push(from, send), self.push(to, recv));
        let arrived = match narrow {
            Some((_, cast)) => {
                let value = OutputId {
                    node: recv,
                    index: 0,
                };
                self.cast(cast, &node, (value, &fact), &wide, to)
            }
            None => recv,
        };
        self.out.channels.push(Channel {
            from,
            send,
            to,
            recv,
        });
        let received = self.received.entry((source, to)).or_default();
        received.push((output, arrived));
    }

    /// Adds a node to a part that casts `value`, a value of `source`.
    fn cast(
        &mut self,
        cast: &'static OpDef,
        source: &Node,
        (value, from): (OutputId, &Fact),
        to: &Fact,
        part: u32,
    ) -> NodeId {
        let mut attrs = Attrs::default();
        attrs.set("SrcT", Attr::Type(from.dtype));
        attrs.set("DstT", Attr::Type(to.dtype));
        attrs.set("Truncate", Attr::Bool(false));
        let number = self.out.channels.len();
        self.push(
            part,
            Node {
                name: format!("{}/_cast_{number}_{}", source.name, to.dtype),
                op: cast,
                inputs: SmallVec::from_slice(&[value]),
                controls: SmallVec::new(),
                attrs,
                device: Default::default(),
                colocation: SmallVec::new(),
                outputs: SmallVec::from_elem(to.clone(), 1),
                origin: source.origin.clone(),
            },
        )
    }
}

/// `true` if a node is copied to each part rather than sent: a feed, or a constant without control
/// inputs.
fn is_replicated(node: &Node) -> bool {
    std::ptr::eq(node.op, &FEED) || (known(node) && node.controls.is_empty())
}
