//! Runners: plan and run steps of a graph that the caller holds.

use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;
use thalweg_device::KernelError;
use thalweg_device::gpu::{GpuError, Turn};
use thalweg_graph::{GraphData, OutputId, Placement};
use thalweg_tensor::{Dims, Tensor};

use crate::compiled_step::{CallKey, CompiledStep, Key};
use crate::engine::Engine;
use crate::exec::{KeptObjects, Step, StepControls};
use crate::fetch::Fetched;
use crate::options::SessionOptions;
use crate::run_options::{Cancel, RunOptions};
use crate::task_channels::TaskChannels;
use crate::trace::{Recorder, Trace};
use thalweg_plan::Fetch;
use thalweg_plan::Placements;
use thalweg_plan::PlanCache;
use thalweg_plan::PlanOptions;
use thalweg_plan::SessionError;
use thalweg_plan::{FetchPlan, Home, Plan, PlanContext, Program, Request, compile};
use thalweg_plan::{SessionState, check_request};

/// Plans and runs steps of one graph, which only grows: every graph that a method is given is a
/// snapshot of it. [`crate::Session`] is one of these with its graph.
pub struct Runner {
    engine: Engine,
    options: PlanOptions,
    places: Placements,
    state: SessionState,
    plans: Arc<PlanCache<Key, CompiledStep>>,
    calls: PlanCache<CallKey, CompiledStep>,
}

impl Runner {
    /// A runner for a graph on these devices.
    pub fn new(engine: Engine, options: SessionOptions) -> Runner {
        let names = engine.devices().iter().map(|d| d.name().clone()).collect();
        let plans = Arc::new(PlanCache::new(options.max_plans()));
        engine.register(&plans);
        Runner {
            places: Placements::new(names),
            state: SessionState::default(),
            plans,
            // A graph has many functions for each combination of fetches and feeds.
            calls: PlanCache::new(options.max_plans().saturating_mul(16)),
            engine,
            options: options.plan_options(),
        }
    }

    /// Returns the devices, with the state that lives on them.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    #[cfg(test)]
    pub(crate) fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Returns the placement of the nodes of the graph.
    ///
    /// # Errors
    /// [`SessionError::Place`], [`SessionError::Gpu`].
    pub fn placed(&self, data: &GraphData) -> Result<Arc<Placement>, SessionError> {
        self.places
            .of(data, &self.engine.machine().kernels, &self.options)
    }

    /// Runs a step: returns a value for each fetched output, in order, and nothing for a node that is only run; and the
    /// step's trace, which is empty unless it was asked for.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn run(
        &self,
        data: &Arc<GraphData>,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
        options: &RunOptions,
    ) -> Result<(Fetched, Trace), SessionError> {
        self.run_with_graph(&|| Ok(data.clone()), fetches, feeds, options)
    }

    /// As [`Runner::run`], with a graph that is fetched only where there is no plan yet.
    pub(crate) fn run_with_graph(
        &self,
        graph: &dyn Fn() -> Result<Arc<GraphData>, SessionError>,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
        options: &RunOptions,
    ) -> Result<(Fetched, Trace), SessionError> {
        let given = feeds.iter().map(|(o, t)| (*o, t));
        let fuse = !options.check_finite;
        let compiled = self.plan(graph, fetches, given, fuse)?;
        let mut results = SmallVec::new();
        let values = feeds.iter().map(|(_, t)| t);
        let trace = self.step_with_options(&compiled, values, options, None, &mut results)?;
        Ok((Fetched { values: results }, trace))
    }

    /// Runs a step of a plan with options.
    pub(crate) fn step_with_options<'t>(
        &self,
        compiled: &CompiledStep,
        feeds: impl Iterator<Item = &'t Tensor>,
        options: &RunOptions,
        channels: Option<&dyn TaskChannels>,
        results: &mut SmallVec<[Option<Tensor>; 4]>,
    ) -> Result<Trace, SessionError> {
        let memory = self.engine.plan_memory();
        let recorder = options.is_traced().then(|| Recorder::new(memory));
        let controls = StepControls {
            timeout: options.time_limit(),
            cancel: options.cancel(),
            check_finite: options.check_finite,
            recorder: recorder.as_ref(),
            channels,
            entered_gates: options.entered_gates,
        };
        self.step(compiled, feeds, controls, results)?;
        Ok(recorder.map_or_else(Trace::default, |r| r.finish(&compiled.plan)))
    }

    /// Returns the plan for these fetches and feeds, with fused nodes or without: a cached one, or a new one.
    ///
    /// # Errors
    /// A fetch or feed that does not exist or does not fit, a node that cannot be placed or has no kernel, and
    /// the errors of `graph`.
    pub(crate) fn plan<'t>(
        &self,
        graph: &dyn Fn() -> Result<Arc<GraphData>, SessionError>,
        fetches: &[Fetch],
        feeds: impl Iterator<Item = (OutputId, &'t Tensor)>,
        fuse: bool,
    ) -> Result<Arc<CompiledStep>, SessionError> {
        let key = Key {
            fuse,
            fetches: SmallVec::from_slice(fetches),
            feeds: feeds
                .map(|(o, t)| (o, t.dtype(), Dims::from_slice(t.dims())))
                .collect(),
        };
        let store = self.engine.store();
        if let Some(compiled) = self.plans.get(&key) {
            if compiled.check_variables(store).is_ok() {
                return Ok(compiled);
            }
            // The new plan finds the variables of these names.
            self.plans.clear();
        }
        // Compiled without a lock, so that other steps go on.
        let data = graph()?;
        let plan = match self.compile(&data, &key) {
            Err(SessionError::Kernel {
                source: KernelError::Gpu(GpuError::OutOfMemory { .. }),
                ..
            }) => {
                // Idle frames of other plans may hold the memory that a variable needs.
                self.engine.release();
                self.compile(&data, &key)?
            }
            plan => plan?,
        };
        let held = self.engine.reserve_plan(&plan)?;
        Ok(self
            .plans
            .keep(key, Arc::new(CompiledStep::new(plan, held))))
    }

    fn compile(&self, data: &GraphData, key: &Key) -> Result<Plan, SessionError> {
        let feeds = key.feeds.iter();
        let feeds = feeds.map(|(output, dtype, dims)| (*output, *dtype, &dims[..]));
        let facts = check_request(data, &key.fetches, feeds)?;
        let placement = self.placed(data)?;
        let request = Request {
            feeds: &facts,
            fetches: &key.fetches,
            devices: placement.numbers(),
            variables: &[],
        };
        let context = self.context();
        let fuse = context.fuse && key.fuse;
        compile(data, &request, PlanContext { fuse, ..context })
    }

    /// Returns the state that ends with the session.
    pub(crate) fn state(&self) -> &SessionState {
        &self.state
    }

    pub(crate) fn context(&self) -> PlanContext<'_> {
        self.engine.context(&self.state, &self.options)
    }

    /// Takes the turns of the GPUs that take part in a plan, in the order of their numbers, as every step does.
    fn turns(
        &self,
        plan: &Plan,
        deadline: Option<Instant>,
        controls: &StepControls<'_>,
    ) -> Result<SmallVec<[Turn<'_>; 1]>, SessionError> {
        let mut turns = SmallVec::new();
        let gpus = plan.programs.iter().filter(|p| p.gpu.is_some());
        let mut programs: SmallVec<[&Program; 4]> = gpus.collect();
        programs.sort_unstable_by_key(|p| p.device);
        for program in programs {
            let Some(gpu) = self.engine.devices()[program.device].gpu() else {
                continue;
            };
            let cancelled = || controls.cancel.is_some_and(Cancel::is_cancelled);
            if let Some(turn) = gpu.turns().take(deadline, &|| !cancelled()) {
                turns.push(turn);
                continue;
            }
            let next = match program.is_empty() {
                true => String::new(),
                false => program.node(0).name.clone(),
            };
            return Err(match controls.timeout {
                Some(limit) if !cancelled() => SessionError::Timeout { limit, next },
                _ => SessionError::Cancelled { next },
            });
        }
        Ok(turns)
    }

    /// Before the first step of a plan: checks that all ranks run the same collectives.
    fn agree_on_collectives(
        &self,
        compiled: &CompiledStep,
        deadline: Option<Instant>,
        controls: &StepControls<'_>,
    ) -> Result<(), SessionError> {
        let planned = &compiled.plan.collectives;
        let collectives = self.engine.machine().collectives.as_ref();
        // Without ranks the collective's kernel returns the error.
        let (Some(first), Some(collectives)) = (planned.first(), collectives) else {
            return Ok(());
        };
        let cancelled = || controls.cancel.is_some_and(Cancel::is_cancelled);
        let ended = || cancelled() || deadline.is_some_and(|d| Instant::now() >= d);
        let result = compiled.agree(&ended, || collectives.agree(planned, &ended));
        let next = first.name.clone();
        result.map_err(|source| match (source, controls.timeout) {
            (KernelError::Stopped, Some(limit)) if !cancelled() => {
                SessionError::Timeout { limit, next }
            }
            (KernelError::Stopped, _) => SessionError::Cancelled { next },
            (source, _) => SessionError::Collectives {
                first: next,
                source,
            },
        })
    }

    /// Runs a step of a plan; its results are written into those of an earlier one where nothing else holds them.
    pub(crate) fn step<'t>(
        &self,
        compiled: &CompiledStep,
        feeds: impl Iterator<Item = &'t Tensor>,
        controls: StepControls<'_>,
        results: &mut SmallVec<[Option<Tensor>; 4]>,
    ) -> Result<(), SessionError> {
        let plan = &compiled.plan;
        // A limit beyond the clock's range is none.
        let deadline = controls.timeout.and_then(|t| Instant::now().checked_add(t));
        compiled.check_variables(self.engine.store())?;
        self.agree_on_collectives(compiled, deadline, &controls)?;
        let _turns = self.turns(plan, deadline, &controls)?;
        let ranks = self.engine.machine().collectives.as_ref();
        let frame = match compiled.take_frame(self.engine.devices(), ranks) {
            Err(SessionError::Memory { .. }) => {
                // Frames of other plans may hold the memory that this one needs.
                self.engine.release();
                compiled.take_frame(self.engine.devices(), ranks)?
            }
            frame => frame?,
        };
        // A variable's value that an earlier result shares would have to be copied by an update.
        for (fetch, result) in plan.fetches.iter().zip(results.iter_mut()) {
            let own = |f: &FetchPlan| {
                let home = &plan.slot(f.program, f.slot).home;
                matches!(home, Home::Arena(_) | Home::Staged(_))
            };
            if !fetch.as_ref().is_some_and(own) {
                *result = None;
            }
        }
        for (slots, value) in plan.feeds.iter().zip(feeds) {
            for &(program, slot) in slots {
                // SAFETY: nothing else has the frame yet.
                unsafe { frame.parts[program as usize].hold(slot, Some(value.clone())) };
            }
        }
        let mut context = self.context();
        context.fuse &= !controls.check_finite;
        let step = Step {
            plan,
            frame: &frame,
            devices: self.engine.devices(),
            context,
            calls: &self.calls,
            plan_memory: self.engine.plan_memory(),
            tickets: self.engine.tickets(),
            kept: &KeptObjects::default(),
            depth: 0,
            leaders: self.engine.leaders(),
            controls,
            deadline,
            replay: compiled.has_run(),
        };
        let result = step.run().and_then(|()| step.collect(results));
        compiled.return_frame(frame, result.is_ok());
        if matches!(result, Err(SessionError::Memory { .. })) {
            // So that the next attempt finds all free memory.
            self.engine.release();
        }
        result
    }
}
