//! Fetch lists: the outputs and nodes that a step computes.

use smallvec::SmallVec;
use thalweg_graph::graph::nearest_name;
use thalweg_graph::{Graph, NodeId, Operation, Output, OutputId};
use thalweg_ops::Variable;
use thalweg_plan::{Fetch, SessionError};
use thalweg_tensor::Tensor;

/// The outputs and nodes of a graph that a step fetches, in order.
pub struct FetchList<'a> {
    /// "fetch", or "feed" where the list holds the outputs to feed.
    what: &'static str,
    graph: &'a Graph,
    pub(crate) items: SmallVec<[Fetch; 4]>,
    // Boxed: a list is moved in every step, and nearly none has one.
    wrong: Option<Box<SessionError>>,
}

impl<'a> FetchList<'a> {
    /// Resolves `fetches` in `graph`.
    ///
    /// # Errors
    /// [`SessionError::OtherGraph`], [`SessionError::NoSuchName`].
    pub fn of(fetches: &impl Fetches, graph: &'a Graph) -> Result<FetchList<'a>, SessionError> {
        FetchList::new("fetch", fetches, graph)
    }

    fn new(
        what: &'static str,
        items: &impl Fetches,
        graph: &'a Graph,
    ) -> Result<FetchList<'a>, SessionError> {
        let mut list = FetchList {
            what,
            graph,
            items: SmallVec::new(),
            wrong: None,
        };
        items.add_to(&mut list);
        match list.wrong.take() {
            Some(wrong) => Err(*wrong),
            None => Ok(list),
        }
    }

    /// The fetches, in order.
    pub fn items(&self) -> &[Fetch] {
        &self.items
    }

    /// The graph of the fetches.
    pub(crate) fn graph(&self) -> &'a Graph {
        self.graph
    }

    fn add(&mut self, item: Fetch) {
        self.items.push(item);
    }

    fn fail(&mut self, wrong: SessionError) {
        self.wrong.get_or_insert_with(|| Box::new(wrong));
    }

    /// Adds an output or node by its number, which must be of this graph.
    fn add_number(&mut self, item: Fetch, node: NodeId) {
        match check_number(self.graph, self.what, node) {
            Ok(()) => self.add(item),
            Err(wrong) => self.fail(wrong),
        }
    }

    /// Adds an output or node of a graph, which must be this one.
    fn add_of(&mut self, item: Fetch, graph: &Graph, name: impl FnOnce() -> String) {
        match std::ptr::eq(graph, self.graph) {
            true => self.add(item),
            false => self.fail(SessionError::OtherGraph {
                what: self.what,
                name: name(),
            }),
        }
    }
}

/// Checks that this graph gave out a number.
///
/// # Errors
/// [`SessionError::OtherGraph`]
pub(crate) fn check_number(
    graph: &Graph,
    what: &'static str,
    node: NodeId,
) -> Result<(), SessionError> {
    match graph.gave(node) {
        true => Ok(()),
        false => Err(SessionError::OtherGraph {
            what,
            name: format!("number {}", node.index()),
        }),
    }
}

/// Checks that this graph gave out the numbers of fetches and feeds.
///
/// # Errors
/// [`SessionError::OtherGraph`]
pub fn check_numbers(
    graph: &Graph,
    fetches: &[Fetch],
    feeds: &[(OutputId, Tensor)],
) -> Result<(), SessionError> {
    for fetch in fetches {
        let node = match *fetch {
            Fetch::Value(output) => output.node,
            Fetch::Run(node) => node,
        };
        check_number(graph, "fetch", node)?;
    }
    let mut fed = feeds.iter();
    fed.try_for_each(|(output, _)| check_number(graph, "feed", output.node))
}

/// The outputs that a callable is fed.
///
/// # Errors
/// As [`FetchList::of`]; [`SessionError::NoSuchOutput`], also for an operation.
pub(crate) fn fed_outputs(
    feeds: &impl Fetches,
    graph: &Graph,
) -> Result<SmallVec<[OutputId; 4]>, SessionError> {
    let list = FetchList::new("feed", feeds, graph)?;
    let output = |item: &Fetch| {
        let output = match *item {
            Fetch::Value(output) => Some(output).filter(|&o| graph.fact(o).is_some()),
            Fetch::Run(_) => None,
        };
        output.ok_or_else(|| SessionError::NoSuchOutput {
            what: "feed",
            name: item.name(&graph.snapshot()),
        })
    };
    list.items.iter().map(output).collect()
}

/// Values and operations that can be fetched, nested as one likes. An operation is run and gives no value.
///
/// | fetch | what it stands for |
/// | --- | --- |
/// | [`Output`], [`Variable`], [`OutputId`] | a value |
/// | [`Operation`], [`NodeId`], [`Run`] | a node that is to run |
/// | `&str` | the value of this name: `loss:0`, or `loss` |
/// | arrays, slices, vectors and tuples of these | all of them, in order |
///
/// Numbers ([`OutputId`], [`NodeId`]) and names have no lifetime: a program can keep them beside the
/// session. Numbers must be of the session's graph.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be fetched",
    note = "fetch an output, an operation, a variable, their numbers or names, or a tuple, array, slice or vector of these"
)]
pub trait Fetches {
    /// Adds itself to the list.
    fn add_to(&self, list: &mut FetchList<'_>);
}

/// Runs the node of this name.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, StateOps};
/// use thalweg_session::{Run, Session};
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let count = g.variable("count", 3i32);
/// g.group("init", g.initializers());
///
/// let session = Session::new(g)?;
/// session.run(Run("init"), [])?;
/// let found: i32 = session.run("count/Read/ReadVariableOp", [])?;
/// assert_eq!(found, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'n>(pub &'n str);

impl Fetches for Output<'_> {
    fn add_to(&self, list: &mut FetchList<'_>) {
        list.add_of(Fetch::Value(self.id()), self.graph(), || self.name());
    }
}

impl Fetches for Operation<'_> {
    fn add_to(&self, list: &mut FetchList<'_>) {
        list.add_of(Fetch::Run(self.id()), self.graph(), || self.name());
    }
}

impl Fetches for Variable<'_> {
    fn add_to(&self, list: &mut FetchList<'_>) {
        self.value().add_to(list);
    }
}

impl Fetches for OutputId {
    fn add_to(&self, list: &mut FetchList<'_>) {
        list.add_number(Fetch::Value(*self), self.node);
    }
}

impl Fetches for NodeId {
    fn add_to(&self, list: &mut FetchList<'_>) {
        list.add_number(Fetch::Run(*self), *self);
    }
}

impl Fetches for str {
    fn add_to(&self, list: &mut FetchList<'_>) {
        match output_called(list.graph, list.what, self) {
            Ok(output) => list.add(Fetch::Value(output)),
            Err(wrong) => list.fail(wrong),
        }
    }
}

impl Fetches for String {
    fn add_to(&self, list: &mut FetchList<'_>) {
        self[..].add_to(list);
    }
}

impl Fetches for Run<'_> {
    fn add_to(&self, list: &mut FetchList<'_>) {
        match list.graph.find(self.0) {
            Some(node) => list.add(Fetch::Run(node.id())),
            None => list.fail(no_such_name(list.graph, list.what, self.0)),
        }
    }
}

impl<F: Fetches + ?Sized> Fetches for &F {
    fn add_to(&self, list: &mut FetchList<'_>) {
        (**self).add_to(list);
    }
}

impl<F: Fetches> Fetches for [F] {
    fn add_to(&self, list: &mut FetchList<'_>) {
        self.iter().for_each(|f| f.add_to(list));
    }
}

impl<F: Fetches, const N: usize> Fetches for [F; N] {
    fn add_to(&self, list: &mut FetchList<'_>) {
        self[..].add_to(list);
    }
}

impl<F: Fetches> Fetches for Vec<F> {
    fn add_to(&self, list: &mut FetchList<'_>) {
        self[..].add_to(list);
    }
}

/// The output of this name: `node:1`, or `node` for its first.
///
/// # Errors
/// [`SessionError::NoSuchName`].
pub(super) fn output_called(
    graph: &Graph,
    what: &'static str,
    name: &str,
) -> Result<OutputId, SessionError> {
    let (node, index) = match name.rsplit_once(':') {
        Some((node, index)) => (node, index.parse().ok()),
        None => (name, Some(0)),
    };
    let found = graph.find(node).zip(index);
    let found = found.map(|(node, index)| node.output(index).id());
    found
        .filter(|&output| graph.fact(output).is_some())
        .ok_or_else(|| no_such_name(graph, what, name))
}

fn no_such_name(graph: &Graph, what: &'static str, name: &str) -> SessionError {
    let data = graph.snapshot();
    let node = name.split(':').next().unwrap_or(name);
    let help = match data.find(node).map(|id| data.node(id).outputs.len()) {
        Some(0) => {
            format!("'{node}' is an operation without outputs: run it, with Run(\"{node}\")")
        }
        Some(count) => format!(
            "the outputs of '{node}' are numbered from 0 to {}",
            count - 1
        ),
        None => match nearest_name(node, data.nodes().map(|(_, n)| &n.name[..])) {
            Some(near) => format!("did you mean '{near}'?"),
            None => "look at Graph::snapshot, or `thalweg graph`, for what there is".to_owned(),
        },
    };
    SessionError::NoSuchName {
        what,
        name: name.to_owned(),
        help,
    }
}
