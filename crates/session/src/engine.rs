//! Engines: the devices, variables, queues and threads that the sessions of a process share.

use std::sync::{Arc, Mutex, MutexGuard, Weak};

use thalweg_cpu::ThreadPool;
use thalweg_device::Device;
use thalweg_plan::{Machine, Plan, PlanContext, PlanOptions, SessionError, SessionState, Store};

use crate::compiled_step::{CompiledStep, Key, reserve_plan};
use crate::exec::Tickets;
use crate::options::SessionOptions;
use thalweg_plan::PlanCache;
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{Memory, Reservation};

/// The devices of a process, with the state that outlives steps: variables, queues, staging areas. Sessions that are
/// made with clones of one engine share all of it; each has a graph, plans and random numbers of its own.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, StateOps};
/// use thalweg_session::{Engine, Session, SessionOptions};
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let w = g.variable("w", 1.0f32);
///
/// let options = SessionOptions::default();
/// let engine = Engine::new(&options)?;
/// let first = Session::on(engine.clone(), &g, options.clone())?;
/// let second = Session::on(engine, &g, options)?;
/// first.run(g.initializers(), [])?;
/// // The two sessions share their variables.
/// assert_eq!(second.run::<f32>(w, [])?, 1.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Engine {
    machine: Machine,
    shared: Arc<EngineState>,
}

/// Threads, ticket numbers and plan caches: everything that runs steps, beside the devices.
struct EngineState {
    /// A thread to lead each device.
    leaders: ThreadPool,
    tickets: Tickets,
    /// The plan caches of the sessions on this engine.
    plans: Mutex<Vec<Weak<PlanCache<Key, CompiledStep>>>>,
    plan_memory: Option<Arc<Memory>>,
}

impl Engine {
    /// Opens the devices that these options ask for.
    ///
    /// # Errors
    /// [`SessionError::Device`]: one that cannot be opened. [`SessionError::Threads`]: one without its threads.
    pub fn new(options: &SessionOptions) -> Result<Engine, SessionError> {
        let mut machine = Machine::new(
            options.devices()?,
            options.op_set(),
            options.files.clone(),
            options.collectives.clone(),
        );
        machine.printer = options.printer();
        Ok(Engine {
            shared: Arc::new(EngineState {
                leaders: ThreadPool::new(machine.devices.len()),
                tickets: Tickets::default(),
                plans: Mutex::default(),
                plan_memory: options.plan_memory(),
            }),
            machine,
        })
    }

    /// The same devices with variables and queues of its own, none yet.
    pub fn isolated(&self) -> Engine {
        Engine {
            machine: self.machine.isolated(),
            shared: self.shared.clone(),
        }
    }

    /// The devices.
    pub fn devices(&self) -> &[Device] {
        &self.machine.devices
    }

    /// Returns the state that outlives steps: variables, queues, staging areas.
    pub fn store(&self) -> &Store {
        &self.machine.store
    }

    /// Returns the devices, kernels and variables that plans are compiled for.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The threads that lead devices.
    pub(crate) fn leaders(&self) -> &ThreadPool {
        &self.shared.leaders
    }

    pub(crate) fn tickets(&self) -> &Tickets {
        &self.shared.tickets
    }

    /// Registers a session's plan cache, so that [`Engine::release`] frees its memory too.
    pub(crate) fn register(&self, plans: &Arc<PlanCache<Key, CompiledStep>>) {
        let mut all = self.plans();
        all.retain(|p| p.strong_count() > 0);
        all.push(Arc::downgrade(plans));
    }

    /// The account of plans and traces, if they are counted.
    pub(crate) fn plan_memory(&self) -> Option<&Arc<Memory>> {
        self.shared.plan_memory.as_ref()
    }

    /// Reserves the memory of a plan. If there is none, the cached plans of all sessions are dropped.
    ///
    /// # Errors
    /// [`SessionError::PlanMemory`].
    pub(crate) fn reserve_plan(&self, plan: &Plan) -> Result<Reservation, SessionError> {
        reserve_plan(self.plan_memory(), plan, || {
            let all: Vec<_> = self.plans().iter().filter_map(Weak::upgrade).collect();
            all.iter().for_each(|plans| plans.clear());
        })
    }

    /// Frees the memory of idle frames, those of all sessions, and the spare buffers that variables keep for later
    /// updates.
    pub(crate) fn release(&self) {
        self.store().release_spares();
        let all: Vec<_> = self.plans().iter().filter_map(Weak::upgrade).collect();
        all.iter()
            .for_each(|plans| plans.for_each(|compiled| compiled.release()));
    }

    fn plans(&self) -> MutexGuard<'_, Vec<Weak<PlanCache<Key, CompiledStep>>>> {
        self.shared.plans.lock().unpoisoned()
    }

    pub(crate) fn context<'a>(
        &'a self,
        session: &'a SessionState,
        options: &PlanOptions,
    ) -> PlanContext<'a> {
        PlanContext {
            max_bytes: self.plan_memory().and_then(|memory| memory.limit()),
            ..self.machine.context(session, options)
        }
    }

    #[cfg(test)]
    pub(crate) fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.devices().iter().map(|d| d.name().to_string());
        f.debug_list().entries(names).finish()
    }
}
