//! Scaffold: initialization of a session before its first step.

use thalweg_graph::{Graph, NodeId, Operation, Output, OutputId};
use thalweg_ops::{StateOps, SummaryOps, Variable};
use thalweg_session::Fetch;
use thalweg_tensor::Tensor;

use crate::checkpoints::Saver;
use crate::error::TrainError;
use crate::steps::Steps;

/// Collection of the global step, and the variable's name.
const GLOBAL_STEP: &str = "global_step";
/// Collection of the results of summary ops.
const SUMMARIES: &str = "summary_op";

/// Callback after the initializers.
type InitFn = Box<dyn FnMut(&dyn Steps) -> Result<(), TrainError>>;

/// Initialization of variables, and the saver: `tf.train.Scaffold`. Parts that are not set are taken from the graph
/// when the training begins.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, StateOps};
/// use thalweg_train::Scaffold;
///
/// let g = Graph::new();
/// let w = g.variable("w", 0.0f32);
/// let warm = w.assign(5.0f32);
/// // Where there is no checkpoint, `w` begins at 5.
/// let scaffold = Scaffold::new().init([w.initializer()]).init_fn(move |session| {
///     let run = [thalweg_session::Fetch::Run(session.graph().find("AssignVariableOp").unwrap().id())];
///     session.run_step(&run, &[], &Default::default()).map(|_| ())
/// });
/// # let _ = (warm, scaffold);
/// ```
#[derive(Default)]
pub struct Scaffold {
    init: Option<Vec<NodeId>>,
    init_feeds: Vec<(OutputId, Tensor)>,
    init_fn: Option<InitFn>,
    local_init: Vec<NodeId>,
    ready: Option<OutputId>,
    pub(super) summary: Option<OutputId>,
    pub(super) saver: Option<Saver>,
}

impl Scaffold {
    /// Takes all parts from the graph.
    pub fn new() -> Scaffold {
        Scaffold::default()
    }

    /// Initializes variables by these operations, in place of all initializers.
    pub fn init<'g>(self, nodes: impl IntoIterator<Item = Operation<'g>>) -> Scaffold {
        Scaffold {
            init: Some(nodes.into_iter().map(|n| n.id()).collect()),
            ..self
        }
    }

    /// Sets the feeds of the initializers.
    pub fn init_feeds(self, feeds: impl IntoIterator<Item = (OutputId, Tensor)>) -> Scaffold {
        Scaffold {
            init_feeds: feeds.into_iter().collect(),
            ..self
        }
    }

    /// Calls this after the initializers; not after a restore.
    pub fn init_fn(
        self,
        init: impl FnMut(&dyn Steps) -> Result<(), TrainError> + 'static,
    ) -> Scaffold {
        Scaffold {
            init_fn: Some(Box::new(init)),
            ..self
        }
    }

    /// Runs these in each session, also after a restore: initialization of state that no checkpoint has.
    pub fn local_init<'g>(self, nodes: impl IntoIterator<Item = Operation<'g>>) -> Scaffold {
        Scaffold {
            local_init: nodes.into_iter().map(|n| n.id()).collect(),
            ..self
        }
    }

    /// Sets the readiness check: a scalar bool that is `true` if the variables have values.
    pub fn ready(self, ready: Output<'_>) -> Scaffold {
        Scaffold {
            ready: Some(ready.id()),
            ..self
        }
    }

    /// Writes the summaries of this output, in place of that in the collection `summary_op`, or of all in the graph.
    pub fn summary(self, summary: Output<'_>) -> Scaffold {
        Scaffold {
            summary: Some(summary.id()),
            ..self
        }
    }

    /// Sets the saver, in place of one for all variables.
    pub fn saver(self, saver: Saver) -> Scaffold {
        Scaffold {
            saver: Some(saver),
            ..self
        }
    }

    /// Takes parts that were not set from the graph.
    pub(super) fn finalize(&mut self, graph: &Graph) -> ResolvedScaffold {
        let ready = *self
            .ready
            .get_or_insert_with(|| graph.all_initialized().id());
        let init = self.init.get_or_insert_with(|| {
            let all = graph.initializers();
            all.iter().map(|n| n.id()).collect()
        });
        let saver = self.saver.get_or_insert_with(|| Saver::new(graph));
        let summary = graph.collection(SUMMARIES).first().map(|o| o.id());
        let merged = || graph.merge_all_summaries().map(|o| o.id());
        self.summary = self.summary.or(summary).or_else(merged);
        let named = graph
            .variables()
            .into_iter()
            .find(|v| v.name == GLOBAL_STEP);
        let kept = graph.collection(GLOBAL_STEP).first().map(|o| o.id());
        ResolvedScaffold {
            init: init.iter().map(|&n| Fetch::Run(n)).collect(),
            local_init: self.local_init.iter().map(|&n| Fetch::Run(n)).collect(),
            ready,
            saver: saver.clone(),
            global_step: named.map(|v| v.value).or(kept),
        }
    }

    /// Initializes the variables.
    pub(super) fn initialize(
        &mut self,
        resolved: &ResolvedScaffold,
        session: &dyn Steps,
    ) -> Result<(), TrainError> {
        session.run_step(&resolved.init, &self.init_feeds, &Default::default())?;
        match &mut self.init_fn {
            Some(init) => init(session),
            None => Ok(()),
        }
    }
}

/// A scaffold with all parts set.
pub(super) struct ResolvedScaffold {
    init: Vec<Fetch>,
    local_init: Vec<Fetch>,
    ready: OutputId,
    pub(super) saver: Saver,
    pub(super) global_step: Option<OutputId>,
}

impl ResolvedScaffold {
    /// Runs the operations of each session.
    pub(super) fn local_init(&self, session: &dyn Steps) -> Result<(), TrainError> {
        match self.local_init.is_empty() {
            true => Ok(()),
            false => (session.run_step(&self.local_init, &[], &Default::default())).map(|_| ()),
        }
    }

    /// `true` if the variables have values.
    pub(super) fn is_ready(&self, session: &dyn Steps) -> Result<bool, TrainError> {
        let fetch = [Fetch::Value(self.ready)];
        let (values, _) = session.run_step(&fetch, &[], &Default::default())?;
        match values.first().and_then(Option::as_ref) {
            Some(ready) => Ok(ready.to_scalar::<bool>()?),
            None => Ok(false),
        }
    }

    /// Names of the variables without a value.
    pub(super) fn missing(&self, session: &dyn Steps) -> Vec<String> {
        let graph = session.graph();
        let has_none = |name: &String| {
            let Some(info) = graph.variables().into_iter().find(|v| v.name == *name) else {
                return false;
            };
            let fetch = [Fetch::Value(Variable::of(graph, &info).value().id())];
            session.run_step(&fetch, &[], &Default::default()).is_err()
        };
        let names = graph.variables().into_iter().map(|v| v.name);
        names.filter(has_none).collect()
    }
}
