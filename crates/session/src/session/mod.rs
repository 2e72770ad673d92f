//! Sessions: run steps of a graph, from plans that are made once.

use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_device::Device;
use thalweg_graph::place::Report;
use thalweg_graph::{Graph, OutputId};

use crate::compiled_step::CompiledStep;
use crate::engine::Engine;
use crate::exec::StepControls;
use crate::fetch::{Feed, FetchList, Fetched, Fetches, FetchesAs, Values, check_numbers};
use crate::graph_ref::GraphRef;
use crate::options::SessionOptions;
use crate::run_options::RunOptions;
use crate::runner::Runner;
use crate::trace::Trace;
use thalweg_plan::{Fetch, GpuWork, SessionError};
use thalweg_tensor::Tensor;

/// Runs steps of a graph. It holds the variables, unless it shares them, and may be used by several
/// threads at once.
///
/// A session holds the values of variables, so initializers run once in each session. Clones are the
/// same session.
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
/// let sum: f32 = session.run(total, [])?;
/// assert_eq!(sum, 5.0);
///
/// // An error ends a step, not the session.
/// let error = session.run(add, []).unwrap_err();
/// assert!(matches!(&error, SessionError::MissingFeed { node, .. } if node == "x"));
/// assert_eq!(session.run::<f32>(total, [])?, 5.0);
/// # Ok(())
/// # }
/// ```
///
/// A session that holds its graph has no lifetime, so a program can keep it in a struct, beside the
/// numbers of what it fetches and feeds:
///
/// ```
/// use std::sync::Arc;
/// use thalweg_graph::{Graph, OutputId};
/// use thalweg_ops::{NewGraph, SourceOps, StateOps};
/// use thalweg_session::{Feeding, Session, SessionError};
/// use thalweg_tensor::DType;
///
/// struct Model {
///     session: Session<'static>,
///     x: OutputId,
///     y: OutputId,
/// }
///
/// impl Model {
///     fn new(slope: f32) -> Result<Model, SessionError> {
///         let g = Arc::new(Graph::new());
///         let x = g.placeholder("x", DType::F32, []);
///         let y = x * g.variable("slope", slope).value();
///         let session = Session::new(g.clone())?;
///         session.run(g.initializers(), [])?;
///         Ok(Model { session, x: x.id(), y: y.id() })
///     }
///
///     fn at(&self, x: f32) -> Result<f32, SessionError> {
///         self.session.run(self.y, [self.x.feed(x)])
///     }
/// }
///
/// # fn main() -> Result<(), SessionError> {
/// let model = Model::new(2.0)?;
/// // It moves to another thread.
/// let y = std::thread::spawn(move || model.at(3.0)).join().unwrap()?;
/// assert_eq!(y, 6.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Session<'g> {
    graph: GraphRef<'g>,
    runner: Arc<Runner>,
}

impl<'g> Session<'g> {
    /// A session for a graph with the default options: for `&Graph`, or one that holds its graph, for
    /// `Graph` and `Arc<Graph>`.
    ///
    /// # Errors
    /// The graph's first mistake.
    pub fn new(graph: impl Into<GraphRef<'g>>) -> Result<Session<'g>, SessionError> {
        Session::with_options(graph, SessionOptions::default())
    }

    /// A session for a graph; see [`Session::new`].
    ///
    /// # Errors
    /// The graph's first mistake.
    pub fn with_options(
        graph: impl Into<GraphRef<'g>>,
        options: SessionOptions,
    ) -> Result<Session<'g>, SessionError> {
        let graph = graph.into();
        graph.checked()?;
        Session::on(Engine::new(&options)?, graph, options)
    }

    /// A session for a graph on devices that others may use too, whose variables and queues it shares with them. The
    /// options' devices are ignored: the engine has its own.
    ///
    /// # Errors
    /// The graph's first mistake.
    pub fn on(
        engine: Engine,
        graph: impl Into<GraphRef<'g>>,
        options: SessionOptions,
    ) -> Result<Session<'g>, SessionError> {
        let graph = graph.into();
        let runner = Arc::new(Runner::new(engine, options));
        let data = graph.checked()?;
        runner.placed(&data)?;
        Ok(Session { graph, runner })
    }

    /// Returns its devices.
    pub fn devices(&self) -> &[Device] {
        self.runner.engine().devices()
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Runs a step: computes the fetches from the feeds, and returns their values as the types that the caller asks
    /// for; see [`FetchesAs`].
    ///
    /// # Errors
    /// See [`SessionError`]. The session is usable after any of them; an update that had run by then stays,
    /// also where a value then has another type than the one that it is read as.
    pub fn run<'f, R>(
        &self,
        fetches: impl FetchesAs<R>,
        feeds: impl AsRef<[Feed<'f>]>,
    ) -> Result<R, SessionError> {
        let list = FetchList::of(&fetches, &self.graph)?;
        let mut values = Values::new(&list, SmallVec::new());
        self.fetch(&list, feeds.as_ref(), values.all())?;
        fetches.take(&mut values)
    }

    /// As [`Session::run`], for fetches that are known only at run time: returns the values as tensors.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn step<'f>(
        &self,
        fetches: impl Fetches,
        feeds: impl AsRef<[Feed<'f>]>,
    ) -> Result<Fetched, SessionError> {
        let list = FetchList::of(&fetches, &self.graph)?;
        let mut values = SmallVec::new();
        self.fetch(&list, feeds.as_ref(), &mut values)?;
        Ok(Fetched { values })
    }

    /// As [`Session::step`], with options; returns its trace too, which is empty unless it was asked for.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn step_with<'f>(
        &self,
        fetches: impl Fetches,
        feeds: impl AsRef<[Feed<'f>]>,
        options: &RunOptions,
    ) -> Result<(Fetched, Trace), SessionError> {
        let (list, feeds) = (FetchList::of(&fetches, &self.graph)?, feeds.as_ref());
        let compiled = self.compiled(&list, feeds, !options.check_finite)?;
        let mut values = SmallVec::new();
        let fed = feeds.iter().map(|f| &f.value);
        let trace = self
            .runner
            .step_with_options(&compiled, fed, options, None, &mut values)?;
        Ok((Fetched { values }, trace))
    }

    /// As [`Session::step_with`], with fetches and feeds that are numbers of the graph, for those that are known only
    /// at run time.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_ids(
        &self,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
        options: &RunOptions,
    ) -> Result<(Fetched, Trace), SessionError> {
        check_numbers(&self.graph, fetches, feeds)?;
        let graph = || self.graph.checked();
        self.runner.run_with_graph(&graph, fetches, feeds, options)
    }

    /// Returns the state of random ops, by node: the number of numbers that each has drawn. Those of a GPU are not
    /// among them.
    ///
    /// ```
    /// use thalweg_graph::Graph;
    /// use thalweg_ops::{NewGraph, RandomOps};
    /// use thalweg_session::Session;
    /// use thalweg_tensor::DType;
    ///
    /// # fn main() -> Result<(), thalweg_session::SessionError> {
    /// let g = Graph::new();
    /// let noise = g.random_normal([3], 0.0, 1.0, DType::F32, Some(7));
    /// let session = Session::new(&g)?;
    /// session.run::<Vec<f32>>(noise, [])?;
    /// let state = session.random_state();
    /// let second: Vec<f32> = session.run(noise, [])?;
    ///
    /// // Another session goes on where this one was.
    /// let other = Session::new(&g)?;
    /// other.set_random_state(&state);
    /// assert_eq!(other.run::<Vec<f32>>(noise, [])?, second);
    /// # Ok(())
    /// # }
    /// ```
    pub fn random_state(&self) -> Vec<(String, u64)> {
        self.runner.state().counters.state()
    }

    /// Sets the state of random ops to one that [`Session::random_state`] returned. Names of other nodes do no harm.
    pub fn set_random_state(&self, state: &[(String, u64)]) {
        self.runner.state().counters.set(state);
    }

    /// Returns the plan of these fetches and feeds as text: the simplified graph and the programs.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn explain<'f>(
        &self,
        fetches: impl Fetches,
        feeds: impl AsRef<[Feed<'f>]>,
    ) -> Result<String, SessionError> {
        let list = FetchList::of(&fetches, &self.graph)?;
        let compiled = self.compiled(&list, feeds.as_ref(), true)?;
        Ok(compiled.plan.to_text(self.devices()))
    }

    /// Returns the plan of these fetches and feeds in Graphviz's language: a box for each device.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn explain_dot<'f>(
        &self,
        fetches: impl Fetches,
        feeds: impl AsRef<[Feed<'f>]>,
    ) -> Result<String, SessionError> {
        let list = FetchList::of(&fetches, &self.graph)?;
        let compiled = self.compiled(&list, feeds.as_ref(), true)?;
        Ok(compiled.plan.to_dot(self.devices()))
    }

    /// Returns the work of a step on each GPU: launches, library calls and bytes, by op. The step does not run.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use thalweg_device::gpu::PlanningDriver;
    /// use thalweg_graph::Graph;
    /// use thalweg_ops::{MathOps, NewGraph, SourceOps};
    /// use thalweg_session::{Feeding, GpuOptions, Session, SessionOptions};
    /// use thalweg_tensor::DType;
    ///
    /// # fn main() -> Result<(), thalweg_session::SessionError> {
    /// let g = Graph::new();
    /// let x = g.placeholder("x", DType::F32, [4]);
    /// let y = x.exp();
    /// // A card that need not be there.
    /// let card = GpuOptions::driven_by(Arc::new(PlanningDriver::new(16 << 30)));
    /// let session = Session::with_options(&g, SessionOptions::new().gpu(card))?;
    /// let work = session.gpu_work(y, [x.feed([0.0f32; 4])])?;
    ///
    /// // Four numbers of 4 bytes are read, and as many written.
    /// let exp = &work[0].ops["Exp"];
    /// assert_eq!((exp.launches, exp.calls, exp.bytes), (1, 0, 32));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn gpu_work<'f>(
        &self,
        fetches: impl Fetches,
        feeds: impl AsRef<[Feed<'f>]>,
    ) -> Result<Vec<GpuWork>, SessionError> {
        let list = FetchList::of(&fetches, &self.graph)?;
        let compiled = self.compiled(&list, feeds.as_ref(), true)?;
        Ok(compiled.plan.gpu_work(self.devices()))
    }

    /// Returns the device of every node, with the reason.
    ///
    /// # Errors
    /// [`SessionError::Place`], where the graph has grown and cannot be placed.
    pub fn placement(&self) -> Result<Report, SessionError> {
        let data = self.graph.snapshot();
        Ok(self.runner.placed(&data)?.report(&data))
    }

    /// Runs a step, and appends a value, or `None`, for each item of the list.
    fn fetch(
        &self,
        list: &FetchList<'_>,
        feeds: &[Feed<'_>],
        values: &mut SmallVec<[Option<Tensor>; 4]>,
    ) -> Result<(), SessionError> {
        let compiled = self.compiled(list, feeds, true)?;
        let fed = feeds.iter().map(|f| &f.value);
        self.runner
            .step(&compiled, fed, StepControls::default(), values)
    }

    fn compiled(
        &self,
        list: &FetchList<'_>,
        feeds: &[Feed<'_>],
        fuse: bool,
    ) -> Result<Arc<CompiledStep>, SessionError> {
        let values = Feed::all_of(feeds, &self.graph)?;
        (self.runner).plan(&|| self.graph.checked(), &list.items, values, fuse)
    }

    pub(crate) fn runner(&self) -> &Runner {
        &self.runner
    }

    pub(crate) fn graph_ref(&self) -> &GraphRef<'g> {
        &self.graph
    }
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
