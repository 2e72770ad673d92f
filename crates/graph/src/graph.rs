//! `Graph`: a static dataflow graph under construction, to which outputs and nodes point back.
//!
//! ```
//! # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
//! let g = ops::graph();
//! let x = ops::placeholder(&g, "x", []);
//! let slow = (x + 1.0).named("slow");
//!
//! // Names nest, and a node may wait for another one without using its value.
//! let y = g.name_scope("model", || {
//!     g.control_dependencies([slow.operation()], || (x * x).named("y"))
//! });
//! assert_eq!(y.name(), "model/y:0");
//! let data = g.snapshot();
//! assert!(data.node(y.id().node).controls.contains(&slow.id().node));
//!
//! // A finalized graph takes no more nodes.
//! g.finalize();
//! assert!((x + x).is_invalid());
//! ```

use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::ThreadId;

use smallvec::SmallVec;
use thalweg_tensor::sync::Unpoisoned;

use crate::body::{BodyContext, BodyList, Capture};
use crate::builder::NodeBuilder;
use crate::data::{GraphData, VariableInfo, VariableSlice};
use crate::device::DeviceScope;
use crate::error::{GraphError, Reason};
use crate::kept::{Collections, Extensions};
use crate::names::Names;
use crate::node::{Fact, GraphTag, NodeId, Origin, OutputId};
use crate::op::Registry;
use crate::output::{Operation, Output};
use crate::scopes::Pop;

/// The graph seed when only the op has a seed: TensorFlow's value.
const DEFAULT_GRAPH_SEED: i64 = 87_654_321;

/// A static dataflow graph under construction.
///
/// The graph keeps mistakes in building (shapes that do not fit, an unknown attribute) with the
/// line that made them, and creating a session returns them; nodes built on a mistake add no
/// further errors. Threads may share a graph; they build one after the other.
///
/// ```
/// # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
/// use thalweg_tensor::Shape;
///
/// // `Graph::new()`, in a program that uses the crate `thalweg`.
/// let g = ops::graph();
/// let x = ops::placeholder(&g, "x", [-1, 4]);
/// let y = (x * 2.0).named("y");
/// // An op without a method of its own is built by its name.
/// let sum = g.op("AddV2").input(x).input(y).name("sum").output();
///
/// assert_eq!(sum.shape(), Shape::from([-1, 4]));
/// assert_eq!(g.find("y").map(|node| node.id()), Some(y.id().node));
///
/// // A mistake does not stop the program here: the graph keeps it.
/// let wrong = x + ops::constant(&g, [1.0f32, 2.0, 3.0]);
/// assert!(wrong.is_invalid());
/// assert_eq!(g.errors().len(), 1);
/// ```
pub struct Graph {
    registry: Arc<Registry>,
    tag: GraphTag,
    pub(crate) version: AtomicU64,
    state: Mutex<GraphState>,
    /// The bodies of functions that were begun in it.
    pub(crate) bodies: BodyList,
    /// For a body: its name, and the graphs around it.
    pub(crate) body_context: BodyContext,
}

#[derive(Default)]
pub(crate) struct GraphState {
    pub(crate) data: Arc<GraphData>,
    pub(crate) names: Names,
    pub(crate) scopes: Vec<String>,
    pub(crate) controls: Vec<SmallVec<[NodeId; 2]>>,
    pub(crate) devices: Vec<DeviceScope>,
    /// The threads that are inside a device function.
    pub(crate) in_device_fn: Vec<ThreadId>,
    /// The nodes of the surrounding colocation scopes.
    pub(crate) colocated: Vec<NodeId>,
    pub(crate) collections: Collections,
    pub(crate) extensions: Extensions,
    seed: Option<i64>,
    pub(crate) finalized: bool,
    pub(crate) errors: Vec<GraphError>,
    /// The last node, if it was built under its op's name, and the name that it wanted.
    pub(crate) unnamed: Option<(NodeId, String)>,
    /// The line that new nodes and errors are attributed to, while a library function builds for
    /// it.
    pub(crate) line: Option<&'static Location<'static>>,
    /// For a body: the outer values that it captures.
    pub(crate) captures: Vec<Capture>,
    /// The threads that build inside of bodies, with the address of the body.
    pub(crate) open_bodies: Vec<(ThreadId, usize)>,
}

impl Graph {
    /// An empty graph whose ops are those of `registry`.
    pub fn with_registry(registry: Arc<Registry>) -> Graph {
        Graph {
            registry,
            tag: GraphTag::random(),
            version: AtomicU64::new(0),
            state: Mutex::new(GraphState {
                data: Arc::new(GraphData::indexed()),
                ..GraphState::default()
            }),
            bodies: BodyList::default(),
            body_context: BodyContext::default(),
        }
    }

    /// The graph-level seed of random ops.
    pub(crate) fn seed(&self) -> Option<i64> {
        self.state().seed
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, GraphState> {
        // No user code runs while the lock is held, and every change is one push: so the state that
        // a panicking thread leaves is consistent.
        self.state.lock().unpoisoned()
    }

    /// The ops that this graph may use.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// A number that grows with every addition.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The nodes and edges as they are now. Later additions do not change the snapshot.
    pub fn snapshot(&self) -> Arc<GraphData> {
        self.state().data.clone()
    }

    /// The errors so far, in order.
    pub fn errors(&self) -> Vec<GraphError> {
        self.state().errors.clone()
    }

    /// Keeps an error, as if a node had been built with it; `name` and `op` are those of the
    /// intended node.
    #[track_caller]
    pub fn report(&self, name: &str, op: &str, reason: Reason) {
        let caller = Location::caller();
        let mut state = self.state();
        let origin = Origin::Line(state.line.unwrap_or(caller));
        state.errors.push(GraphError {
            node: name.to_owned(),
            op: op.to_owned(),
            origin,
            reason,
        });
    }

    /// Keeps an error and returns an invalid output in the place of the intended one.
    #[track_caller]
    pub fn fail(&self, name: &str, op: &str, reason: Reason) -> Output<'_> {
        self.report(name, op, reason);
        self.invalid()
    }

    /// An invalid output: the stand-in for an output that could not be built.
    pub fn invalid(&self) -> Output<'_> {
        Output::new(
            self,
            OutputId {
                node: NodeId::INVALID,
                index: 0,
            },
        )
    }

    /// Begins a node of this op.
    #[track_caller]
    pub fn op(&self, op: &str) -> NodeBuilder<'_> {
        let caller = Location::caller();
        let line = self.state().line;
        NodeBuilder::new(self.innermost(), op, line.unwrap_or(caller))
    }

    /// Runs `build` so that its nodes and errors are attributed to the line that called the
    /// function that calls this: for functions that build in closures, through which `track_caller`
    /// does not pass. The outermost line wins.
    #[track_caller]
    pub fn at_caller<R>(&self, build: impl FnOnce() -> R) -> R {
        let caller = Location::caller();
        let outermost = {
            let mut state = self.state();
            let outermost = state.line.is_none();
            state.line.get_or_insert(caller);
            outermost
        };
        let _pop = outermost.then(|| Pop(self, |s| s.line = None));
        build()
    }

    /// An output of this graph by its number. For a number of another graph it is invalid, and the graph keeps an error.
    #[track_caller]
    pub fn output(&self, id: OutputId) -> Output<'_> {
        let node = self.own(id.node);
        Output::new(self, OutputId { node, ..id })
    }

    /// A node of this graph by its number. For a number of another graph it is invalid, and the graph keeps an error.
    #[track_caller]
    pub fn operation(&self, id: NodeId) -> Operation<'_> {
        Operation::new(self, self.own(id))
    }

    /// `true` if a number was given out by this graph, or by a pass of the library.
    ///
    /// ```
    /// # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
    /// let (g, other) = (ops::graph(), ops::graph());
    /// let x = ops::placeholder(&g, "x", [4]).id();
    /// assert!(g.gave(x.node) && !other.gave(x.node));
    ///
    /// assert!(other.output(x).is_invalid());
    /// assert!(other.errors()[0].to_string().contains("belongs to another graph"));
    /// ```
    pub fn gave(&self, id: NodeId) -> bool {
        id.tag().is_none_or(|tag| tag == self.tag)
    }

    #[track_caller]
    fn own(&self, id: NodeId) -> NodeId {
        match self.gave(id) {
            true => id,
            false => {
                let name = format!("number {}", id.index());
                self.report(&name, "", Reason::NumberOfOtherGraph);
                NodeId::INVALID
            }
        }
    }

    /// A number of this graph.
    pub(crate) fn tagged(&self, id: NodeId) -> NodeId {
        id.of(self.tag)
    }

    /// The node of this name.
    pub fn find(&self, name: &str) -> Option<Operation<'_>> {
        let id = self.state().data.find(name)?;
        Some(self.operation(id))
    }

    /// The inferred fact of an output; `None` for an invalid one.
    pub fn fact(&self, id: OutputId) -> Option<Fact> {
        self.state().data.fact(id).cloned()
    }

    /// Declares a variable, so that [`Graph::variables`] knows it.
    pub fn declare_variable(&self, info: VariableInfo) {
        Arc::make_mut(&mut self.state().data).variables.push(info);
    }

    /// Marks the variable of this handle as a slice of a partitioned one.
    pub fn declare_slice(&self, handle: OutputId, slice: VariableSlice) {
        let mut state = self.state();
        let variables = &mut Arc::make_mut(&mut state.data).variables;
        if let Some(variable) = variables.iter_mut().find(|v| v.handle == handle) {
            variable.slice = Some(slice);
        }
    }

    /// The variables, in the order of building.
    pub fn variables(&self) -> Vec<VariableInfo> {
        self.state().data.variables.clone()
    }

    /// Sets the graph's seed: random ops that are built later return the same numbers in every
    /// session.
    pub fn set_seed(&self, seed: i64) {
        self.state().seed = Some(seed);
    }

    /// The pair of seeds for a random op, by TensorFlow's rule: with a graph seed alone, the op's
    /// seed is the last node's number; with neither, both are 0, which means a different seed each
    /// time.
    pub fn seeds(&self, op_seed: Option<i64>) -> (i64, i64) {
        let state = self.state();
        let pair = match (state.seed, op_seed) {
            (Some(graph), Some(op)) => (graph, op),
            (Some(graph), None) => (graph, state.data.len() as i64),
            (None, Some(op)) => (DEFAULT_GRAPH_SEED, op),
            (None, None) => return (0, 0),
        };
        // Both zero would mean no seed at all.
        if pair == (0, 0) {
            (0, i64::from(i32::MAX))
        } else {
            pair
        }
    }

    /// Runs `build` on a copy of this graph and, if it succeeds, adopts all of its additions; on an
    /// error, none. Outputs of this graph are available on the copy by their numbers
    /// ([`Graph::output`]), and those of the copy on this graph afterwards.
    ///
    /// The surrounding device scopes and colocation apply to the copy too. If another thread adds
    /// to the graph in the meantime, `build` runs again.
    ///
    /// # Errors
    /// Those of `build`.
    pub fn atomically<T, E>(&self, build: impl Fn(&Graph) -> Result<T, E>) -> Result<T, E> {
        loop {
            let (copy, from) = {
                let state = self.state();
                let copy = GraphState {
                    data: state.data.clone(),
                    names: state.names.clone(),
                    devices: state.devices.clone(),
                    in_device_fn: state.in_device_fn.clone(),
                    colocated: state.colocated.clone(),
                    seed: state.seed,
                    finalized: state.finalized,
                    line: state.line,
                    ..GraphState::default()
                };
                let copy = Graph {
                    registry: self.registry.clone(),
                    tag: self.tag,
                    version: AtomicU64::new(self.version()),
                    state: Mutex::new(copy),
                    bodies: BodyList::default(),
                    body_context: BodyContext::default(),
                };
                (copy, state.data.clone())
            };
            let built = build(&copy)?;
            let version = copy.version();
            let mut made = copy.state.into_inner().unpoisoned();
            let mut state = self.state();
            // While `from` is held, an addition to the graph goes to a new copy.
            if !Arc::ptr_eq(&state.data, &from) {
                continue;
            }
            for id in made.data.ids().skip(from.len()) {
                state.names.reserve(&made.data.node(id).name);
            }
            state.data = made.data;
            state.errors.append(&mut made.errors);
            state.collections.append(made.collections);
            self.version.fetch_max(version, Ordering::AcqRel);
            return Ok(built);
        }
    }

    /// Forbids additions from now on: each is a kept error. This is TensorFlow's
    /// `tf.Graph.finalize`; variables stay mutable.
    pub fn finalize(&self) {
        self.state().finalized = true;
    }

    /// `true` if [`Graph::finalize`] was called.
    pub fn is_finalized(&self) -> bool {
        self.state().finalized
    }

    /// Runs `build` with additions allowed although the graph is finalized.
    pub fn extend<R>(&self, build: impl FnOnce() -> R) -> R {
        let was = std::mem::replace(&mut self.state().finalized, false);
        struct Restore<'g>(&'g Graph, bool);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.state().finalized = self.1;
            }
        }
        let _restore = Restore(self, was);
        build()
    }
}

/// The most similar of `names` to `name`, if any is similar: by edit distance, at most a third of
/// the name.
pub fn nearest_name<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    names
        .map(|n| (distance(&lower, &n.to_lowercase()), n))
        .min()
        .filter(|(d, n)| *d <= n.len().max(name.len()).div_ceil(3))
        .map(|(_, n)| n)
}

/// Levenshtein's edit distance, in bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
