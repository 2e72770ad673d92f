//! Parts of a step over several tasks: a task's share of the plan, run with channels to the other tasks.
//!
//! The whole step is simplified, placed and ordered in one place, the master's; every task then runs
//! its part in that order. A task does not order anew: it knows only its own part, and an order that it
//! finds by itself may wait in a circle with another's.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use thalweg_device::Variable;
use thalweg_graph::op::Effect;
use thalweg_graph::{GraphData, Node, OutputId};
use thalweg_plan::{
    Fetch, Plan, PlanContext, Program, Request, SessionError, TaskPart, check_request,
    compile_part, compile_partial, partial_feed_facts, simplified,
};
use thalweg_tensor::{DType, Reservation, Tensor};

use crate::compiled_step::CompiledStep;
use crate::fetch::Fetched;
use crate::run_options::RunOptions;
use crate::runner::Runner;
use crate::task_channels::TaskChannels;
use crate::trace::Trace;

/// The compiled part of a step that one task runs.
pub struct PartPlan {
    compiled: Arc<CompiledStep>,
    /// The variables that its instructions use, each once.
    variables: Vec<Arc<Variable>>,
    /// `true` if handles of variables come to it as values: the variables are known in a step only.
    finds_variables: bool,
}

/// A step that never waits for a variable: no update holds a variable that it uses, and none will before this is
/// dropped.
pub struct EnteredPart(Arc<PartPlan>);

impl Drop for EnteredPart {
    fn drop(&mut self) {
        self.0.variables.iter().for_each(|v| v.gate().leave());
    }
}

impl PartPlan {
    fn new(plan: Plan, held: Reservation) -> PartPlan {
        let mut variables: Vec<Arc<Variable>> = Vec::new();
        let mut known = FxHashSet::default();
        let mut finds_variables = false;
        for program in &plan.programs {
            for instruction in &program.instructions {
                for variable in instruction.variables.iter().flatten() {
                    if known.insert(Arc::as_ptr(variable)) {
                        variables.push(variable.clone());
                    }
                }
                let inputs = program.graph.node(instruction.node).inputs.iter();
                finds_variables |= inputs.enumerate().any(|(i, input)| {
                    let known = instruction.variables.get(i).is_some_and(Option::is_some);
                    let fact = program.graph.fact(*input);
                    !known && fact.is_some_and(|f| f.dtype == DType::Resource)
                });
            }
        }
        PartPlan {
            compiled: Arc::new(CompiledStep::new(plan, held)),
            variables,
            finds_variables,
        }
    }

    /// Begins a step that must not wait for a variable; `None` where an update holds one. No update begins until the
    /// returned value is dropped: it is for a short step, which [`Runner::run_entered_part`] runs.
    pub fn try_enter(self: &Arc<Self>) -> Option<EnteredPart> {
        for (i, variable) in self.variables.iter().enumerate() {
            if !variable.gate().try_enter() {
                self.variables[..i].iter().for_each(|v| v.gate().leave());
                return None;
            }
        }
        Some(EnteredPart(self.clone()))
    }

    /// `true` if a step may take any time: it waits for another task, a queue or a GPU's turn, has side effects outside
    /// the session, calls functions or has loops.
    pub fn may_take_long(&self) -> bool {
        let plan = &self.compiled.plan;
        let known = |p: &Program| p.graph.nodes().all(|(_, n)| takes_known_time(n));
        plan.waits
            || plan.parallel
            || self.finds_variables
            || plan.programs.iter().any(|p| p.gpu.is_some() || !known(p))
    }

    /// `true` if a step may have to wait for another step or task.
    pub fn waits(&self) -> bool {
        self.compiled.plan.waits
    }
}

/// `true` if a node takes as long in one step as in another of the same shapes.
fn takes_known_time(node: &Node) -> bool {
    let outside = matches!(
        node.op.effect,
        Effect::Stateful | Effect::Blocking | Effect::Collective | Effect::Flow
    );
    !outside && node.functions().is_empty()
}

impl Runner {
    /// Compiles a part. `devices` gives, by node, the numbers of this engine's devices.
    ///
    /// # Errors
    /// As those of a session's first step.
    pub fn prepare(&self, part: &TaskPart, devices: Vec<u32>) -> Result<PartPlan, SessionError> {
        let context = PlanContext {
            separate_memory: part.separate_memory,
            ..self.context()
        };
        let plan = compile_part(part, devices, context)?;
        let held = self.engine().reserve_plan(&plan)?;
        Ok(PartPlan::new(plan, held))
    }

    /// Compiles a step whose feeds come one after the other while it runs, and whose fetches go as soon as they are
    /// there: through the channels of an [`TaskChannels`] that [`thalweg_plan::client_channel`] numbers, first those of the
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
        let facts = partial_feed_facts(data, feeds)?;
        check_request(data, fetches, std::iter::empty())?;
        let placement = self.placed(data)?;
        let request = Request {
            feeds: &facts,
            fetches,
            devices: placement.numbers(),
            variables: &[],
        };
        let context = PlanContext {
            separate_memory: true,
            ..self.context()
        };
        let whole = simplified(data, &request, context)?;
        let plan = compile_partial(whole, context)?;
        let held = self.engine().reserve_plan(&plan)?;
        Ok(PartPlan::new(plan, held))
    }

    /// Runs a part, with the values of its feeds in its order; returns its fetches in its order.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn run_part(
        &self,
        plan: &PartPlan,
        feeds: &[Tensor],
        channels: &dyn TaskChannels,
        options: &RunOptions,
    ) -> Result<(Fetched, Trace), SessionError> {
        let mut results = SmallVec::new();
        let trace = self.step_with_options(
            &plan.compiled,
            feeds.iter(),
            options,
            Some(channels),
            &mut results,
        )?;
        Ok((Fetched { values: results }, trace))
    }

    /// As [`Runner::run_part`], of a step that has entered its gates, on a thread that must not wait.
    ///
    /// # Errors
    /// As [`Runner::run_part`].
    pub fn run_entered_part(
        &self,
        entered: &EnteredPart,
        feeds: &[Tensor],
        channels: &dyn TaskChannels,
        options: &RunOptions,
    ) -> Result<(Fetched, Trace), SessionError> {
        let mut options = options.clone();
        options.entered_gates = true;
        self.run_part(&entered.0, feeds, channels, &options)
    }
}
