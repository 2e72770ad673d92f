//! The graph that a user builds: a handle that any number of outputs point back to.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use crate::attr::Attr;
use crate::check::check_node;
use crate::data::{GraphData, VariableInfo};
use crate::device::DeviceSpec;
use crate::error::{GraphError, Reason};
use crate::names::{Names, is_valid};
use crate::node::{Attrs, Fact, Node, NodeId, Origin, OutputId};
use crate::op::Registry;
use crate::output::{Operation, Output};

/// The seed of a graph whose op has a seed of its own and that has none; TensorFlow's.
const DEFAULT_GRAPH_SEED: i64 = 87_654_321;

/// A static dataflow graph under construction.
///
/// Mistakes in building (a shape that cannot fit, an unknown attribute) are kept, with the line
/// that made them, and come out when a session is made; what is built on a mistake adds no more.
/// A graph may be shared by threads; they then build one after the other.
pub struct Graph {
    registry: Arc<Registry>,
    version: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    data: Arc<GraphData>,
    names: Names,
    scopes: Vec<String>,
    controls: Vec<SmallVec<[NodeId; 2]>>,
    collections: BTreeMap<String, Vec<OutputId>>,
    seed: Option<i64>,
    frozen: bool,
    errors: Vec<GraphError>,
    /// The line that all is said to be made at, while a function of a library builds for it.
    line: Option<&'static Location<'static>>,
}

impl Graph {
    /// An empty graph whose ops are those of `registry`.
    pub fn with_registry(registry: Arc<Registry>) -> Graph {
        Graph {
            registry,
            version: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code of a user runs while the lock is held, and every change is one push: what a
        // panicking thread leaves behind is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ops that this graph may use.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// A number that grows with every addition.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The nodes and edges as they are now. Later additions do not change what is returned.
    pub fn snapshot(&self) -> Arc<GraphData> {
        self.state().data.clone()
    }

    /// The mistakes that were made so far, in order.
    pub fn errors(&self) -> Vec<GraphError> {
        self.state().errors.clone()
    }

    /// Keeps a mistake, as if a node had been built with it; `name` and `op` say what was meant.
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

    /// Keeps a mistake and gives what stands for the output that it prevented.
    #[track_caller]
    pub fn fail(&self, name: &str, op: &str, reason: Reason) -> Output<'_> {
        self.report(name, op, reason);
        self.invalid()
    }

    /// What stands for an output that could not be made.
    pub fn invalid(&self) -> Output<'_> {
        Output::new(
            self,
            OutputId {
                node: NodeId::INVALID,
                index: 0,
            },
        )
    }

    /// Starts a node of this op.
    #[track_caller]
    pub fn op(&self, op: &str) -> NodeBuilder<'_> {
        NodeBuilder {
            graph: self,
            op: op.to_owned(),
            name: None,
            inputs: SmallVec::new(),
            controls: SmallVec::new(),
            attrs: SmallVec::new(),
            other_graph: None,
            origin: {
                let caller = Location::caller();
                self.state().line.unwrap_or(caller)
            },
        }
    }

    /// Runs `build` so that what it makes, and its mistakes, are said to be made at the line that
    /// called the function that calls this: for functions that build in closures, which a caller's
    /// line does not reach by itself. The outermost line stands.
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

    /// An output of this graph by its number.
    pub fn output(&self, id: OutputId) -> Output<'_> {
        Output::new(self, id)
    }

    /// A node of this graph by its number.
    pub fn operation(&self, id: NodeId) -> Operation<'_> {
        Operation::new(self, id)
    }

    /// The node of this name.
    pub fn find(&self, name: &str) -> Option<Operation<'_>> {
        let id = self.state().data.find(name)?;
        Some(self.operation(id))
    }

    /// What is known of an output; `None` for one that could not be made.
    pub fn fact(&self, id: OutputId) -> Option<Fact> {
        self.state().data.fact(id).cloned()
    }

    /// Runs `build` in a name scope: what it makes is called `scope/...`.
    ///
    /// The scope's name is made unique (`a`, then `a_1`); one that ends in `/` is taken as it is,
    /// from the root, so that an earlier scope can be entered again. The empty name is the root.
    pub fn name_scope<R>(&self, scope: &str, build: impl FnOnce() -> R) -> R {
        let prefix = {
            let mut state = self.state();
            match scope.strip_suffix('/') {
                Some(absolute) => absolute.to_owned(),
                None if scope.is_empty() => String::new(),
                None => {
                    let full = state.scoped(scope);
                    state.names.unique(&full)
                }
            }
        };
        self.state().scopes.push(prefix);
        let _pop = Pop(self, |s| {
            s.scopes.pop();
        });
        build()
    }

    /// Runs `build` so that every node it makes waits for `nodes`.
    #[track_caller]
    pub fn control_dependencies<'g, R>(
        &'g self,
        nodes: impl IntoIterator<Item = impl Into<Operation<'g>>>,
        build: impl FnOnce() -> R,
    ) -> R {
        let mut own = SmallVec::new();
        for (input, node) in nodes.into_iter().map(Into::into).enumerate() {
            if !std::ptr::eq(node.graph(), self) {
                let reason = Reason::OtherGraph { input };
                self.report(&node.name(), "control_dependencies", reason);
            } else if !node.is_invalid() {
                own.push(node.id());
            }
        }
        self.state().controls.push(own);
        let _pop = Pop(self, |s| {
            s.controls.pop();
        });
        build()
    }

    /// Runs `build` without the control dependencies that stand around it.
    pub fn without_control_dependencies<R>(&self, build: impl FnOnce() -> R) -> R {
        let set_aside = std::mem::take(&mut self.state().controls);
        struct Restore<'g>(&'g Graph, Vec<SmallVec<[NodeId; 2]>>);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.state().controls = std::mem::take(&mut self.1);
            }
        }
        let _restore = Restore(self, set_aside);
        build()
    }

    /// Adds an output to the collection `key`.
    pub fn add_to_collection(&self, key: &str, item: Output<'_>) {
        self.state()
            .collections
            .entry(key.to_owned())
            .or_default()
            .push(item.id());
    }

    /// The outputs in the collection `key`, in the order of adding.
    pub fn collection(&self, key: &str) -> Vec<Output<'_>> {
        let state = self.state();
        let items = state.collections.get(key).map_or(&[][..], |v| v);
        items.iter().map(|&id| self.output(id)).collect()
    }

    /// Declares a variable, so that [`Graph::variables`] knows it.
    pub fn declare_variable(&self, info: VariableInfo) {
        Arc::make_mut(&mut self.state().data).variables.push(info);
    }

    /// The variables, in the order of building.
    pub fn variables(&self) -> Vec<VariableInfo> {
        self.state().data.variables.clone()
    }

    /// Sets the graph's seed: random ops that are built later give the same numbers in every
    /// session.
    pub fn set_seed(&self, seed: i64) {
        self.state().seed = Some(seed);
    }

    /// The pair of seeds for a random op, by TensorFlow's rule: with a graph seed alone the op's
    /// is the last node's number; with neither both are 0, which means a different one each time.
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

    /// Forbids additions from now on: each is a kept error.
    pub fn freeze(&self) {
        self.state().frozen = true;
    }

    /// Whether [`Graph::freeze`] was called.
    pub fn is_frozen(&self) -> bool {
        self.state().frozen
    }

    /// Runs `build` with additions allowed, on purpose, although the graph is frozen.
    pub fn extend<R>(&self, build: impl FnOnce() -> R) -> R {
        let was = std::mem::replace(&mut self.state().frozen, false);
        struct Refreeze<'g>(&'g Graph, bool);
        impl Drop for Refreeze<'_> {
            fn drop(&mut self) {
                self.0.state().frozen = self.1;
            }
        }
        let _refreeze = Refreeze(self, was);
        build()
    }
}

/// Undoes an entry into a scope when the scope is left, by a panic too.
struct Pop<'g>(&'g Graph, fn(&mut State));

impl Drop for Pop<'_> {
    fn drop(&mut self) {
        (self.1)(&mut self.0.state());
    }
}

impl State {
    fn scoped(&self, name: &str) -> String {
        match self.scopes.last() {
            Some(scope) if !scope.is_empty() => format!("{scope}/{name}"),
            _ => name.to_owned(),
        }
    }
}

/// A node that is being described. [`NodeBuilder::build`] adds it.
pub struct NodeBuilder<'g> {
    graph: &'g Graph,
    op: String,
    name: Option<String>,
    inputs: SmallVec<[OutputId; 4]>,
    controls: SmallVec<[NodeId; 2]>,
    attrs: SmallVec<[(String, Attr); 4]>,
    other_graph: Option<usize>,
    origin: &'static Location<'static>,
}

impl<'g> NodeBuilder<'g> {
    /// Adds an input.
    pub fn input(mut self, input: impl Into<Output<'g>>) -> Self {
        let input = input.into();
        if !std::ptr::eq(input.graph(), self.graph) && self.other_graph.is_none() {
            self.other_graph = Some(self.inputs.len());
        }
        self.inputs.push(input.id());
        self
    }

    /// Adds several inputs.
    pub fn inputs(self, inputs: impl IntoIterator<Item = impl Into<Output<'g>>>) -> Self {
        inputs.into_iter().fold(self, NodeBuilder::input)
    }

    /// Sets an attribute.
    pub fn attr(mut self, name: &str, value: impl Into<Attr>) -> Self {
        self.attrs.push((name.to_owned(), value.into()));
        self
    }

    /// Names the node; without it the op's name is taken.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Makes the node wait for another one.
    pub fn control(mut self, node: impl Into<Operation<'g>>) -> Self {
        let node = node.into();
        if !std::ptr::eq(node.graph(), self.graph) && self.other_graph.is_none() {
            self.other_graph = Some(self.inputs.len() + self.controls.len());
        }
        self.controls.push(node.id());
        self
    }

    /// Adds the node and gives its first output.
    pub fn output(self) -> Output<'g> {
        let op = self.build();
        op.output(0)
    }

    /// Adds the node.
    pub fn build(self) -> Operation<'g> {
        let graph = self.graph;
        let invalid = Operation::new(graph, NodeId::INVALID);
        if self.inputs.iter().any(|i| i.node.is_invalid()) && self.other_graph.is_none() {
            return invalid;
        }
        let mut state = graph.state();
        let name = state.scoped(self.name.as_deref().unwrap_or(&self.op));
        let (op, origin) = (self.op.clone(), Origin::Line(self.origin));
        match self.check(&state, &name) {
            Ok(mut node) => {
                node.name = state.names.unique(&name);
                let id = Arc::make_mut(&mut state.data).push(node);
                graph.version.fetch_add(1, Ordering::Release);
                Operation::new(graph, id)
            }
            Err(reason) => {
                state.errors.push(GraphError {
                    node: name,
                    op,
                    origin,
                    reason,
                });
                invalid
            }
        }
    }

    fn check(self, state: &State, name: &str) -> Result<Node, Reason> {
        let op = self.graph.registry.get(&self.op).ok_or_else(|| {
            let names = self.graph.registry.iter().map(|op| op.name);
            Reason::UnknownOp {
                nearest: nearest(&self.op, names),
            }
        })?;
        if let Some(input) = self.other_graph {
            return Err(Reason::OtherGraph { input });
        }
        if state.frozen {
            return Err(Reason::Frozen);
        }
        if !is_valid(name) {
            return Err(Reason::Name);
        }
        let mut attrs = Attrs::default();
        for (attr, value) in self.attrs {
            let def = op
                .attr(&attr)
                .ok_or(Reason::UnknownAttr { attr: attr.clone() })?;
            attrs.set(def.name, value);
        }
        let facts: SmallVec<[Fact; 4]> = self
            .inputs
            .iter()
            .map(|&i| {
                state.data.fact(i).cloned().ok_or_else(|| {
                    Reason::Argument(format!("there is no output {}", state.data.output_name(i)))
                })
            })
            .collect::<Result<_, _>>()?;
        let (attrs, outputs) = check_node(op, &facts, attrs)?;
        let mut controls = self.controls;
        controls.extend(state.controls.iter().flatten().copied());
        controls.retain(|c| !c.is_invalid());
        controls.sort();
        controls.dedup();
        Ok(Node {
            name: String::new(),
            op,
            inputs: self.inputs,
            controls,
            attrs,
            device: DeviceSpec::default(),
            colocation: SmallVec::new(),
            outputs,
            origin: Origin::Line(self.origin),
        })
    }
}

/// The most similar of `names` to `name`, if any is similar: by edit distance, at most a third of
/// the name.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
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
