//! Sessions: run what is asked for, from plans that are made once.

use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;
use thalweg_device::gpu::{GpuError, Turn};
use thalweg_device::{Cpu, Device, KernelError, ThreadPool};
use thalweg_graph::place::Report;
use thalweg_graph::shape::checked_elements;
use thalweg_graph::{DType, Dims, Fact, Graph, GraphData, OutputId, Placement, Tensor};

use crate::cache::{CallKey, Key, Plans, Ready};
use crate::callable::Callable;
use crate::error::SessionError;
use crate::exec::{Step, Tickets, Watch};
use crate::fetch::{Feed, Fetch, FetchList, Fetched, Fetches};
use crate::options::{Cancel, RunOptions, SessionOptions};
use crate::place::Places;
use crate::plan::{FetchPlan, Home, Kernels, Plan, Program, Request, Workshop, compile};
use crate::store::Store;
use crate::trace::{Recorder, Trace};

/// Runs steps of a graph. It holds the variables, and may be used by several threads at once.
pub struct Session<'g> {
    graph: &'g Graph,
    devices: Vec<Device>,
    leaders: ThreadPool,
    /// How many threads the machine runs at once.
    cores: usize,
    kernels: Kernels,
    places: Places,
    store: Store,
    options: SessionOptions,
    plans: Plans<Key>,
    calls: Plans<CallKey>,
    tickets: Tickets,
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
        let devices = options.devices()?;
        let names = devices.iter().map(|d| d.name().clone()).collect();
        let session = Session {
            graph,
            leaders: ThreadPool::new(devices.len()),
            cores: Cpu::available_threads(),
            devices,
            kernels: thalweg_ops::kernels().into_iter().collect(),
            places: Places::new(names),
            store: Store::default(),
            plans: Plans::new(options.plans),
            // A graph has many functions for each thing that is asked of it.
            tickets: Tickets::default(),
            calls: Plans::new(options.plans.saturating_mul(16)),
            options,
        };
        session.placed(&graph.snapshot())?;
        Ok(session)
    }

    /// Its devices.
    pub fn devices(&self) -> &[Device] {
        &self.devices
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
        let (ready, feeds) = self.ready(&fetches, feeds.as_ref())?;
        let mut results = SmallVec::new();
        self.step(
            &ready,
            feeds.iter().map(|f| &f.value),
            Watch::default(),
            &mut results,
        )?;
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
        let (ready, feeds) = self.ready(&fetches, feeds.as_ref())?;
        let recorder = options.trace.then(Recorder::new);
        let watch = Watch {
            timeout: options.timeout,
            cancel: options.cancel.as_ref(),
            check_finite: options.check_finite,
            recorder: recorder.as_ref(),
        };
        let mut results = SmallVec::new();
        self.step(&ready, feeds.iter().map(|f| &f.value), watch, &mut results)?;
        let trace = recorder.map_or_else(Trace::default, Recorder::finish);
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
        let mut list = FetchList::default();
        fetches.add_to(&mut list);
        self.check_fetches(&list)?;
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
        let (ready, _) = self.ready(&fetches, feeds.as_ref())?;
        Ok(ready.plan.to_text(&self.devices))
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
        let (ready, _) = self.ready(&fetches, feeds.as_ref())?;
        Ok(ready.plan.to_dot(&self.devices))
    }

    /// Where every node runs, and why.
    ///
    /// # Errors
    /// [`SessionError::Place`], where the graph has grown and cannot be placed.
    pub fn placement(&self) -> Result<Report, SessionError> {
        let data = self.graph.snapshot();
        Ok(self.placed(&data)?.report(&data))
    }

    fn ready<'f>(
        &self,
        fetches: &impl Fetches<'g>,
        feeds: &'f [Feed<'g>],
    ) -> Result<(Arc<Ready>, &'f [Feed<'g>]), SessionError> {
        let mut list = FetchList::default();
        fetches.add_to(&mut list);
        self.check_graphs(&list, feeds)?;
        let values = feeds.iter().map(|f| (f.output.id(), &f.value));
        Ok((self.plan(&list.items, values)?, feeds))
    }

    /// The plan for these fetches and feeds: a kept one, or a new one.
    pub(crate) fn plan<'t>(
        &self,
        fetches: &[Fetch],
        feeds: impl Iterator<Item = (OutputId, &'t Tensor)>,
    ) -> Result<Arc<Ready>, SessionError> {
        let key = Key {
            fetches: SmallVec::from_slice(fetches),
            feeds: feeds
                .map(|(o, t)| (o, t.dtype(), Dims::from_slice(t.dims())))
                .collect(),
        };
        if let Some(ready) = self.plans.get(&key) {
            return Ok(ready);
        }
        // Compiled without a lock, so that other steps go on; of two that compile the same the
        // later one is kept.
        let plan = match self.compile(&key) {
            Err(SessionError::Kernel {
                source: KernelError::Gpu(GpuError::OutOfMemory { .. }),
                ..
            }) => {
                // Idle steps of other plans may hold what a variable needs.
                self.plans.release();
                self.compile(&key)?
            }
            plan => plan?,
        };
        let ready = Arc::new(Ready::new(plan));
        self.plans.keep(key, ready.clone());
        Ok(ready)
    }

    fn compile(&self, key: &Key) -> Result<Plan, SessionError> {
        let errors = self.graph.errors();
        if !errors.is_empty() {
            return Err(errors.into());
        }
        let data = self.graph.snapshot();
        let mut facts = Vec::with_capacity(key.feeds.len());
        for (index, (output, dtype, dims)) in key.feeds.iter().enumerate() {
            self.check_output("feed", index, *output, None)?;
            let fact = data.fact(*output).ok_or(SessionError::NoSuchOutput {
                what: "feed",
                index,
            })?;
            if fact.dtype == DType::Resource {
                return Err(SessionError::Handle {
                    output: data.output_name(*output),
                });
            }
            if facts.iter().any(|(o, _): &(OutputId, Fact)| o == output) {
                return Err(SessionError::FedTwice {
                    output: data.output_name(*output),
                });
            }
            if fact.dtype != *dtype || !fact.shape.admits(dims) || checked_elements(dims).is_none()
            {
                return Err(SessionError::Feed {
                    output: data.output_name(*output),
                    origin: data.node(output.node).origin.clone(),
                    dtype: fact.dtype,
                    shape: fact.shape.clone(),
                    found_dtype: *dtype,
                    found: dims.as_slice().into(),
                });
            }
            facts.push((*output, Fact::new(*dtype, dims.as_slice().into())));
        }
        for (index, fetch) in key.fetches.iter().enumerate() {
            let output = match *fetch {
                Fetch::Value(output) => output,
                Fetch::Run(node) if data.get(node).is_some() => continue,
                Fetch::Run(node) => OutputId { node, index: 0 },
            };
            match data.fact(output) {
                Some(f) if f.dtype == DType::Resource => {
                    return Err(SessionError::Handle {
                        output: data.output_name(output),
                    });
                }
                Some(_) => {}
                None => {
                    return Err(SessionError::NoSuchOutput {
                        what: "fetch",
                        index,
                    });
                }
            }
        }
        let placement = self.placed(&data)?;
        let request = Request {
            feeds: &facts,
            fetches: &key.fetches,
            devices: placement.numbers(),
            variables: &[],
        };
        compile(&data, &request, self.workshop())
    }

    fn workshop(&self) -> Workshop<'_> {
        Workshop {
            kernels: &self.kernels,
            devices: &self.devices,
            store: &self.store,
            parallel: self.options.parallel,
            cores: self.cores,
            optimise: self.options.optimise,
            path: "",
        }
    }

    fn placed(&self, data: &GraphData) -> Result<Arc<Placement>, SessionError> {
        self.places.of(data, &self.kernels, &self.options)
    }

    fn check_fetches(&self, list: &FetchList<'g>) -> Result<(), SessionError> {
        for (index, graph) in list.graphs.iter().enumerate() {
            if graph.is_some_and(|g| !std::ptr::eq(g, self.graph)) {
                let what = "fetch";
                return Err(SessionError::OtherGraph { what, index });
            }
        }
        Ok(())
    }

    fn check_graphs(&self, list: &FetchList<'g>, feeds: &[Feed<'g>]) -> Result<(), SessionError> {
        self.check_fetches(list)?;
        match feeds
            .iter()
            .position(|f| !std::ptr::eq(f.output.graph(), self.graph))
        {
            Some(index) => Err(SessionError::OtherGraph {
                what: "feed",
                index,
            }),
            None => Ok(()),
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

    /// The turns of the GPUs that take part in a plan, in the order of their numbers, in which every
    /// step takes them.
    fn turns(
        &self,
        plan: &Plan,
        deadline: Option<Instant>,
        watch: &Watch<'_>,
    ) -> Result<SmallVec<[Turn<'_>; 1]>, SessionError> {
        let mut turns = SmallVec::new();
        let gpus = plan.programs.iter().filter(|p| p.gpu.is_some());
        let mut programs: SmallVec<[&Program; 4]> = gpus.collect();
        programs.sort_unstable_by_key(|p| p.device);
        for program in programs {
            let Some(gpu) = self.devices[program.device].gpu() else {
                continue;
            };
            let cancelled = || watch.cancel.is_some_and(Cancel::is_cancelled);
            if let Some(turn) = gpu.turns().take(deadline, &|| !cancelled()) {
                turns.push(turn);
                continue;
            }
            let next = match program.is_empty() {
                true => String::new(),
                false => program.node(0).name.clone(),
            };
            return Err(match watch.timeout {
                Some(limit) if !cancelled() => SessionError::Timeout { limit, next },
                _ => SessionError::Cancelled { next },
            });
        }
        Ok(turns)
    }

    /// Runs a step of a plan; its results are written into those of an earlier one where nobody
    /// else holds them.
    pub(crate) fn step<'t>(
        &self,
        ready: &Ready,
        feeds: impl Iterator<Item = &'t Tensor>,
        watch: Watch<'_>,
        results: &mut SmallVec<[Option<Tensor>; 4]>,
    ) -> Result<(), SessionError> {
        let plan = &ready.plan;
        // A limit beyond what the clock can tell is none.
        let deadline = watch.timeout.and_then(|t| Instant::now().checked_add(t));
        let _turns = self.turns(plan, deadline, &watch)?;
        let frame = match ready.take(&self.devices) {
            Err(SessionError::Memory { .. }) => {
                // Other plans may hold what this one needs.
                self.plans.release();
                ready.take(&self.devices)?
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
                // SAFETY: nobody else has the frame yet.
                unsafe { frame.parts[program as usize].hold(slot, Some(value.clone())) };
            }
        }
        let step = Step {
            plan,
            frame: &frame,
            devices: &self.devices,
            workshop: self.workshop(),
            calls: &self.calls,
            tickets: &self.tickets,
            depth: 0,
            leaders: &self.leaders,
            watch,
            deadline,
            replay: ready.has_run(),
        };
        let result = step.run().and_then(|()| step.collect(results));
        ready.give(frame, result.is_ok());
        if matches!(result, Err(SessionError::Memory { .. })) {
            // So that the next attempt has what there is.
            self.plans.release();
        }
        result
    }
}

#[cfg(test)]
mod tests;
