//! Steps over several tasks: what each of them runs, and how values go from one to another.
//!
//! The whole step is simplified, placed and ordered in one place, the master's; every task then runs
//! its part in that order. A task does not order anew: it knows only its own part, and an order that it
//! finds by itself may wait in a circle with another's.

mod cut;
mod wire;

use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_device::cpu_tensors;
use thalweg_device::{KernelError, Op, Ticket};
use thalweg_graph::function::calls;
use thalweg_graph::op::Effect;
use thalweg_graph::partition::{Ends, TASK_RECV, TASK_SEND};
use thalweg_graph::{Fact, GraphData, Node, OutputId};
use thalweg_tensor::{DType, Tensor};

use crate::cache::Ready;
use crate::error::SessionError;
use crate::fetch::{Fetch, Fetched};
use crate::options::RunOptions;
use crate::plan::{Program, Request, Workshop, compile_part, compile_partial, simplified};
use crate::runner::{Runner, checked};
use crate::trace::Trace;

pub use cut::{Cutter, TaskChannel, TaskCut, TaskPart};
pub use wire::{Edge, Wire, WireType};

/// How the tasks of one step give values to each other.
pub trait Exchange: Send + Sync {
    /// Gives a value to the task that receives this channel.
    ///
    /// # Errors
    /// The step is over, or that task is not reached.
    fn send(&self, channel: i64, value: Tensor) -> Result<(), KernelError>;

    /// The value that was given through this channel; `None` until it is there, and `ticket` is woken
    /// then.
    ///
    /// # Errors
    /// The step is over, or the task that gives it is not reached.
    fn receive(&self, channel: i64, ticket: &Ticket) -> Result<Option<Tensor>, KernelError>;

    /// How the step waits where nothing of it can run; none where its thread is to sleep.
    fn rest(&self) -> Option<Arc<dyn Rest>> {
        None
    }
}

/// Another way to wait than on a thread that sleeps: a simulation's, whose time stands still while
/// something runs.
pub trait Rest: Send + Sync {
    /// Returns once it was woken. Called on the thread of the step.
    fn rest(&self);

    /// Something may go on. Called from any thread.
    fn wake(&self);
}

/// A part that is ready to run.
pub struct PartPlan(Arc<Ready>);

impl PartPlan {
    /// Whether a step may take any time: where it waits for another task, a queue or a GPU's turn, does
    /// something outside, calls functions or has loops.
    pub fn may_take_long(&self) -> bool {
        let plan = &self.0.plan;
        let known = |p: &Program| p.graph.nodes().all(|(_, n)| takes_known_time(n));
        plan.waits || plan.programs.iter().any(|p| p.gpu.is_some() || !known(p))
    }
}

/// Whether a node takes as long in one step as in another of the same shapes.
fn takes_known_time(node: &Node) -> bool {
    let outside = matches!(
        node.op.effect,
        Effect::Stateful | Effect::Waits | Effect::Flow
    );
    let sends = node.op.name == SEND.def.name;
    (sends || !outside) && calls(node.attrs.iter().map(|(_, a)| a)).is_empty()
}

impl Runner {
    /// Makes a part ready. `devices` gives, by node, the numbers of this engine's devices.
    ///
    /// # Errors
    /// As those of a session's first step.
    pub fn prepare(&self, part: &TaskPart, devices: Vec<u32>) -> Result<PartPlan, SessionError> {
        let workshop = Workshop {
            apart: part.apart,
            ..self.workshop()
        };
        let plan = compile_part(part, devices, workshop)?;
        Ok(PartPlan(Arc::new(Ready::new(plan))))
    }

    /// Makes a step ready whose feeds come one after the other while it runs, and whose fetches go as
    /// soon as they are there: through the channels of an [`Exchange`] that [`client_channel`] numbers,
    /// first those of the feeds, then those of the fetched outputs.
    ///
    /// # Errors
    /// As those of a session's first step.
    pub fn prepare_partial(
        &self,
        data: &GraphData,
        fetches: &[Fetch],
        feeds: &[OutputId],
    ) -> Result<PartPlan, SessionError> {
        let facts = piece_facts(data, feeds)?;
        checked(data, fetches, std::iter::empty())?;
        let placement = self.placed(data)?;
        let request = Request {
            feeds: &facts,
            fetches,
            devices: placement.numbers(),
            variables: &[],
        };
        let workshop = Workshop {
            apart: true,
            ..self.workshop()
        };
        let whole = simplified(data, &request, workshop)?;
        let plan = compile_partial(whole, TASK_ENDS, workshop)?;
        Ok(PartPlan(Arc::new(Ready::new(plan))))
    }

    /// Runs a part, with the values of its feeds in its order; gives its fetches in its order.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn run_part(
        &self,
        plan: &PartPlan,
        feeds: &[Tensor],
        exchange: &dyn Exchange,
        options: &RunOptions,
    ) -> Result<(Fetched, Trace), SessionError> {
        let mut results = SmallVec::new();
        let trace = self.watched(&plan.0, feeds.iter(), options, Some(exchange), &mut results)?;
        Ok((Fetched { values: results }, trace))
    }
}

/// The channel of a client that gives the feeds of a step, and takes its fetches, in pieces: below the
/// numbers of those between tasks.
pub fn client_channel(number: usize) -> i64 {
    -1 - number as i64
}

/// What is known of feeds that come while the step runs.
///
/// # Errors
/// There is no such output.
pub(crate) fn piece_facts(
    data: &GraphData,
    feeds: &[OutputId],
) -> Result<Vec<(OutputId, Fact)>, SessionError> {
    let fact = |(index, &output): (usize, &OutputId)| {
        let missing = SessionError::NoSuchOutput {
            what: "feed",
            index,
        };
        let fact = data.fact(output).ok_or(missing)?;
        Ok((output, Fact::new(fact.dtype, fact.shape.clone())))
    };
    feeds.iter().enumerate().map(fact).collect()
}

/// What stands where an edge between tasks is cut.
pub const TASK_ENDS: Ends = Ends {
    send: &SEND.def,
    recv: &RECV.def,
};

/// The end of an edge that sends.
pub(crate) static SEND: Op = Op {
    def: TASK_SEND,
    kernels: &[cpu_tensors(|cx| {
        let value = match cx.inputs() {
            // Only that it has run is told.
            0 => Tensor::zeros(DType::F32, &[0])?,
            _ => cx.tensor(0)?.clone(),
        };
        cx.environment().send(cx.attrs().int("channel"), value)?;
        Ok(Vec::new())
    })],
};

/// The end of an edge that receives.
pub(crate) static RECV: Op = Op {
    def: TASK_RECV,
    kernels: &[cpu_tensors(|cx| {
        Ok(vec![cx.environment().receive(cx.attrs().int("channel"))?])
    })],
};
