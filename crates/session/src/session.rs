//! Sessions: run what is asked for, from plans that are made once.

use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_device::Device;
use thalweg_graph::place::Report;
use thalweg_graph::{Graph, GraphData, OutputId};

use crate::callable::Callable;
use crate::engine::Engine;
use crate::exec::Watch;
use crate::fetch::{Feed, FetchList, Fetched, Fetches};
use crate::ready::Ready;
use crate::run_options::RunOptions;
use crate::runner::Runner;
use crate::trace::Trace;
use thalweg_plan::SessionError;
use thalweg_plan::SessionOptions;

/// Runs steps of a graph. It holds the variables, unless it shares them, and may be used by several
/// threads at once.
///
/// A session holds the values of variables, so initializers run once in each session.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, SourceOps, StateOps};
/// use thalweg_session::{Feeding, Session, SessionError};
/// use thalweg_tensor::DType;
///
/// # fn main() -> Result<(), SessionError> {
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, []);
/// let total = g.variable("total", 0.0f32);
/// let add = total.assign_add(x);
///
/// let session = Session::new(&g)?;
/// session.run(g.initializers(), [])?;
/// session.run(add, [x.feed(2.0f32)])?;
/// session.run(add, [x.feed(3.0f32)])?;
/// assert_eq!(session.run(total, [])?.scalar::<f32>(0)?, 5.0);
///
/// // An error ends a step, not the session.
/// let error = session.run(add, []).unwrap_err();
/// assert!(matches!(&error, SessionError::MissingFeed { node, .. } if node == "x"));
/// assert_eq!(session.run(total, [])?.scalar::<f32>(0)?, 5.0);
/// # Ok(())
/// # }
/// ```
pub struct Session<'g> {
    graph: &'g Graph,
    runner: Runner,
}

impl<'g> Session<'g> {
    /// A session for `graph` with the default options.
    ///
    /// # Errors
    /// The graph's first mistake.
    pub fn new(graph: &'g Graph) -> Result<Session<'g>, SessionError> {
        Session::with_options(graph, SessionOptions::default())
    }

    /// A session for `graph`.
    ///
    /// # Errors
    /// The graph's first mistake.
    pub fn with_options(
        graph: &'g Graph,
        options: SessionOptions,
    ) -> Result<Session<'g>, SessionError> {
        let errors = graph.errors();
        if !errors.is_empty() {
            return Err(errors.into());
        }
        Session::on(Engine::new(&options)?, graph, options)
    }

    /// A session for `graph` on devices that others may use too, whose variables and queues it shares
    /// with them. What the options say of devices was said to the engine.
    ///
    /// # Errors
    /// The graph's first mistake.
    pub fn on(
        engine: Engine,
        graph: &'g Graph,
        options: SessionOptions,
    ) -> Result<Session<'g>, SessionError> {
        let errors = graph.errors();
        if !errors.is_empty() {
            return Err(errors.into());
        }
        let runner = Runner::new(engine, options);
        runner.placed(&graph.snapshot())?;
        Ok(Session { graph, runner })
    }

    /// Its devices.
    pub fn devices(&self) -> &[Device] {
        self.runner.engine().devices()
    }

    /// The graph.
    pub fn graph(&self) -> &'g Graph {
        self.graph
    }

    /// Runs a step: computes what is fetched, from what is fed.
    ///
    /// # Errors
    /// See [`SessionError`]. The session is usable after any of them; an update that had run by
    /// then stays.
    pub fn run(
        &self,
        fetches: impl Fetches<'g>,
        feeds: impl AsRef<[Feed<'g>]>,
    ) -> Result<Fetched, SessionError> {
        let (ready, feeds) = self.ready(&fetches, feeds.as_ref(), true)?;
        let mut results = SmallVec::new();
        let values = feeds.iter().map(|f| &f.value);
        self.runner
            .step(&ready, values, Watch::default(), &mut results)?;
        Ok(Fetched { values: results })
    }

    /// Runs a step with options; gives its trace too, which is empty unless it was asked for.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_with(
        &self,
        fetches: impl Fetches<'g>,
        feeds: impl AsRef<[Feed<'g>]>,
        options: &RunOptions,
    ) -> Result<(Fetched, Trace), SessionError> {
        let (ready, feeds) = self.ready(&fetches, feeds.as_ref(), !options.check_finite)?;
        let mut results = SmallVec::new();
        let values = feeds.iter().map(|f| &f.value);
        let trace = self
            .runner
            .watched(&ready, values, options, None, &mut results)?;
        Ok((Fetched { values: results }, trace))
    }

    /// A step in the hand: its plan is looked up once, and its results are written into the same
    /// tensors again as long as nobody else holds them.
    ///
    /// # Errors
    /// A fetch or feed that does not exist or belongs to another graph.
    pub fn callable<'s>(
        &'s self,
        fetches: impl Fetches<'g>,
        feeds: &[thalweg_graph::Output<'g>],
    ) -> Result<Callable<'s, 'g>, SessionError> {
        let list = FetchList::of(&fetches, self.graph)?;
        for (index, feed) in feeds.iter().enumerate() {
            self.check_output("feed", index, feed.id(), Some(feed.graph()))?;
        }
        Ok(Callable::new(self, list.items, feeds))
    }

    /// What a step of these fetches and feeds runs, as text: its simplified graph and its plan.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn explain(
        &self,
        fetches: impl Fetches<'g>,
        feeds: impl AsRef<[Feed<'g>]>,
    ) -> Result<String, SessionError> {
        let (ready, _) = self.ready(&fetches, feeds.as_ref(), true)?;
        Ok(ready.plan.to_text(self.devices()))
    }

    /// What a step of these fetches and feeds runs, in Graphviz's language: a box for each device.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn explain_dot(
        &self,
        fetches: impl Fetches<'g>,
        feeds: impl AsRef<[Feed<'g>]>,
    ) -> Result<String, SessionError> {
        let (ready, _) = self.ready(&fetches, feeds.as_ref(), true)?;
        Ok(ready.plan.to_dot(self.devices()))
    }

    /// Where every node runs, and why.
    ///
    /// # Errors
    /// [`SessionError::Place`], where the graph has grown and cannot be placed.
    pub fn placement(&self) -> Result<Report, SessionError> {
        let data = self.graph.snapshot();
        Ok(self.runner.placed(&data)?.report(&data))
    }

    fn ready<'f>(
        &self,
        fetches: &impl Fetches<'g>,
        feeds: &'f [Feed<'g>],
        fuse: bool,
    ) -> Result<(Arc<Ready>, &'f [Feed<'g>]), SessionError> {
        let list = FetchList::of(fetches, self.graph)?;
        let values = Feed::all_of(feeds, self.graph)?;
        let ready = (self.runner).plan(&|| self.snapshot(), &list.items, values, fuse)?;
        Ok((ready, feeds))
    }

    pub(crate) fn runner(&self) -> &Runner {
        &self.runner
    }

    /// The graph as it is now.
    ///
    /// # Errors
    /// Its first mistake.
    pub(crate) fn snapshot(&self) -> Result<Arc<GraphData>, SessionError> {
        let errors = self.graph.errors();
        match errors.is_empty() {
            true => Ok(self.graph.snapshot()),
            false => Err(errors.into()),
        }
    }

    fn check_output(
        &self,
        what: &'static str,
        index: usize,
        output: OutputId,
        graph: Option<&Graph>,
    ) -> Result<(), SessionError> {
        if graph.is_some_and(|g| !std::ptr::eq(g, self.graph)) {
            return Err(SessionError::OtherGraph { what, index });
        }
        match self.graph.snapshot().fact(output) {
            Some(_) => Ok(()),
            None => Err(SessionError::NoSuchOutput { what, index }),
        }
    }
}

#[cfg(test)]
mod tests;
