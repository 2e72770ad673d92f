//! Steps over several tasks: what each of them runs, and how values go from one to another.
//!
//! The whole step is simplified, placed and ordered in one place, the master's; every task then runs
//! its part in that order. A task does not order anew: it knows only its own part, and an order that it
//! finds by itself may wait in a circle with another's.

use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_graph::function::calls;
use thalweg_graph::op::Effect;
use thalweg_graph::{GraphData, Node, OutputId};
use thalweg_plan::{
    Fetch, PlanContext, Program, Request, SessionError, TaskPart, checked, compile_part,
    compile_partial, piece_facts, simplified,
};
use thalweg_tensor::Tensor;

use crate::exchange::Exchange;
use crate::fetch::Fetched;
use crate::ready::Ready;
use crate::run_options::RunOptions;
use crate::runner::Runner;
use crate::trace::Trace;

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

    /// Whether a step may have to wait for what another step or task does.
    pub fn waits(&self) -> bool {
        self.0.plan.waits
    }
}

/// Whether a node takes as long in one step as in another of the same shapes.
fn takes_known_time(node: &Node) -> bool {
    let outside = matches!(
        node.op.effect,
        Effect::Stateful | Effect::Waits | Effect::Flow
    );
    !outside && calls(node.attrs.iter().map(|(_, a)| a)).is_empty()
}

impl Runner {
    /// Makes a part ready. `devices` gives, by node, the numbers of this engine's devices.
    ///
    /// # Errors
    /// As those of a session's first step.
    pub fn prepare(&self, part: &TaskPart, devices: Vec<u32>) -> Result<PartPlan, SessionError> {
        let context = PlanContext {
            apart: part.apart,
            ..self.context()
        };
        let plan = compile_part(part, devices, context)?;
        Ok(PartPlan(Arc::new(Ready::new(plan))))
    }

    /// Makes a step ready whose feeds come one after the other while it runs, and whose fetches go as
    /// soon as they are there: through the channels of an [`Exchange`] that [`thalweg_plan::client_channel`] numbers,
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
        let context = PlanContext {
            apart: true,
            ..self.context()
        };
        let whole = simplified(data, &request, context)?;
        let plan = compile_partial(whole, context)?;
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
