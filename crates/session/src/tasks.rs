//! Steps over several tasks: what each of them runs, and how values go from one to another.
//!
//! The whole step is simplified, placed and ordered in one place, the master's; every task then runs
//! its part in that order. A task does not order anew: it knows only its own part, and an order that it
//! finds by itself may wait in a circle with another's.

use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_device::{KernelError, Op, Ticket, Variable, cpu_tensors};
use thalweg_graph::function::calls;
use thalweg_graph::op::Effect;
use thalweg_graph::partition::{Ends, TASK_RECV, TASK_SEND, partition};
use thalweg_graph::{DType, DeviceSpec, Dims, Fact, GraphData, Node, NodeId, OutputId, Tensor};

use crate::cache::Ready;
use crate::engine::Engine;
use crate::error::SessionError;
use crate::fetch::{Fetch, Fetched};
use crate::options::{RunOptions, SessionOptions};
use crate::place::Places;
use crate::plan::{Program, Request, Workshop, compile_part, compile_partial, ordered, simplified};
use crate::runner::{Runner, checked};
use crate::store::Counters;
use crate::trace::Trace;

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

/// What one task runs of a step.
#[derive(Clone, Debug)]
pub struct TaskPart {
    /// The number of the task.
    pub task: u32,
    /// Its nodes, in the order of the step.
    pub graph: GraphData,
    /// By node: the number of its device among all of the cluster.
    pub devices: Vec<u32>,
    /// The feeds that it uses: their numbers in the step, and their nodes here.
    pub feeds: Vec<(usize, NodeId)>,
    /// What is fetched of it: the numbers in the step, and the outputs here.
    pub fetches: Vec<(usize, OutputId)>,
}

/// An edge between two tasks; its number is the `channel` of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskChannel {
    /// The task that sends.
    pub from: u32,
    /// The task that receives.
    pub to: u32,
}

/// A step in parts.
#[derive(Clone, Debug)]
pub struct TaskCut {
    /// By task that takes part.
    pub parts: Vec<TaskPart>,
    /// By number.
    pub channels: Vec<TaskChannel>,
}

/// Cuts steps of one graph, which only grows, over the devices of several tasks.
pub struct Cutter {
    engine: Engine,
    options: SessionOptions,
    places: Places,
    counters: Counters,
    /// By device: its task.
    tasks: Vec<u32>,
}

impl Cutter {
    /// For the devices of a cluster, each with the number of its task. Constants are folded on
    /// `engine`.
    pub fn new(engine: Engine, options: SessionOptions, devices: Vec<(DeviceSpec, u32)>) -> Cutter {
        let (names, tasks) = devices.into_iter().unzip();
        Cutter {
            engine,
            options,
            places: Places::new(names),
            counters: Counters::default(),
            tasks,
        }
    }

    /// The same with more devices, after those that there are; what was placed stays where it is.
    pub fn with(&self, more: Vec<(DeviceSpec, u32)>) -> Cutter {
        let (names, tasks): (Vec<_>, Vec<_>) = more.into_iter().unzip();
        Cutter {
            engine: self.engine.clone(),
            options: self.options.clone(),
            places: self.places.with(names),
            counters: Counters::default(),
            tasks: self.tasks.iter().copied().chain(tasks).collect(),
        }
    }

    /// The names of the devices, by number.
    pub fn devices(&self) -> &[DeviceSpec] {
        self.places.names()
    }

    /// Looks whether the nodes of the graph have places.
    ///
    /// # Errors
    /// [`SessionError::Place`], [`SessionError::Gpu`].
    pub fn placed(&self, data: &GraphData) -> Result<(), SessionError> {
        let kernels = &self.engine.machine().kernels;
        self.places.of(data, kernels, &self.options).map(|_| ())
    }

    /// The parts of the step that computes `fetches` when `feeds` have these dtypes and dimensions.
    ///
    /// # Errors
    /// As those of a session's first step.
    pub fn cut(
        &self,
        data: &GraphData,
        fetches: &[Fetch],
        feeds: &[(OutputId, DType, Dims)],
    ) -> Result<TaskCut, SessionError> {
        let given = feeds
            .iter()
            .map(|(output, dtype, dims)| (*output, *dtype, &dims[..]));
        let feeds = &checked(data, fetches, given)?[..];
        let kernels = &self.engine.machine().kernels;
        let placement = self.places.of(data, kernels, &self.options)?;
        let workshop = self.engine.workshop(&self.counters, &self.options);
        let request = Request {
            feeds,
            fetches,
            devices: placement.numbers(),
            variables: &[],
        };
        let whole = simplified(data, &request, workshop)?;
        // The variables are elsewhere: here they have names alone.
        let named = |(_, _, name): (u32, &str, &str), dtype, shape: &_| {
            Ok(Arc::new(Variable::new(name, dtype, Clone::clone(shape))))
        };
        let order = ordered(&whole, &named, workshop)?;
        let task = |device: u32| self.tasks.get(device as usize).copied().unwrap_or(0);
        let tasks: Vec<u32> = whole.devices.iter().map(|&d| task(d)).collect();
        let old: Vec<NodeId> = whole.graph.ids().collect();
        let mut cut = partition(whole.graph, &order, &tasks, TASK_ENDS);
        let parts = std::mem::take(&mut cut.parts);
        let mut parts: Vec<TaskPart> = parts
            .into_iter()
            .map(|part| {
                // What was added stands where the task's first device is.
                let first = self.tasks.iter().position(|&t| t == part.device);
                TaskPart {
                    task: part.device,
                    devices: vec![first.unwrap_or(0) as u32; part.graph.len()],
                    graph: part.graph,
                    feeds: Vec::new(),
                    fetches: Vec::new(),
                }
            })
            .collect();
        for node in old {
            if let Some((part, here)) = cut.node(node) {
                parts[part as usize].devices[here.index()] = whole.devices[node.index()];
            }
        }
        for (number, feed) in whole.feeds.iter().enumerate() {
            for &(part, here) in feed.map_or(&[][..], |f| cut.feed(f)) {
                parts[part as usize].feeds.push((number, here));
            }
        }
        let mut values = whole.fetches.iter();
        for (number, fetch) in fetches.iter().enumerate() {
            if let Fetch::Value(_) = fetch
                && let Some(output) = values.next()
                && let Some((part, node)) = cut.node(output.node)
            {
                let here = OutputId { node, ..*output };
                parts[part as usize].fetches.push((number, here));
            }
        }
        let numbers: Vec<u32> = parts.iter().map(|p| p.task).collect();
        let channel = |c: &thalweg_graph::partition::Channel| TaskChannel {
            from: numbers[c.from as usize],
            to: numbers[c.to as usize],
        };
        Ok(TaskCut {
            channels: cut.channels.iter().map(channel).collect(),
            parts,
        })
    }
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
        let plan = compile_part(part, devices, self.workshop())?;
        Ok(PartPlan(Arc::new(Ready::new(plan))))
    }

    /// Makes a step ready whose feeds come one after the other while it runs, and whose fetches go as
    /// soon as they are there: through the channels of an [`Exchange`], by number, first those of the
    /// feeds, then those of the fetched outputs.
    ///
    /// # Errors
    /// As those of a session's first step.
    pub fn prepare_partial(
        &self,
        data: &GraphData,
        fetches: &[Fetch],
        feeds: &[OutputId],
    ) -> Result<PartPlan, SessionError> {
        let mut facts = Vec::with_capacity(feeds.len());
        for (index, &output) in feeds.iter().enumerate() {
            let missing = SessionError::NoSuchOutput {
                what: "feed",
                index,
            };
            let fact = data.fact(output).ok_or(missing)?;
            facts.push((output, Fact::new(fact.dtype, fact.shape.clone())));
        }
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
        let plan = compile_partial(whole, (TASK_ENDS.send, TASK_ENDS.recv), workshop)?;
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
