//! What sessions of one process share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use thalweg_cpu::ThreadPool;
use thalweg_device::{Cpu, Device};

use crate::cache::{Key, Plans, Ready};
use crate::error::SessionError;
use crate::exec::Tickets;
use crate::options::SessionOptions;
use crate::plan::{Kernels, Workshop};
use crate::store::{Counters, Store};
use crate::tasks;

/// The devices of a process, and what lives on them between steps: variables, queues, staging areas.
/// Sessions that are made with clones of one engine share all of it; each has a graph, plans and
/// random numbers of its own.
#[derive(Clone)]
pub struct Engine {
    machine: Arc<Machine>,
    store: Arc<Store>,
}

pub(crate) struct Machine {
    pub(crate) devices: Vec<Device>,
    /// A thread to lead each device.
    pub(crate) leaders: ThreadPool,
    /// How many threads the machine runs at once.
    pub(crate) cores: usize,
    pub(crate) kernels: Kernels,
    pub(crate) tickets: Tickets,
    /// The plans of those that run steps here.
    plans: Mutex<Vec<Weak<Plans<Key, Ready>>>>,
}

impl Engine {
    /// With the devices that these options ask for.
    ///
    /// # Errors
    /// [`SessionError::Device`]: one that cannot be opened.
    pub fn new(options: &SessionOptions) -> Result<Engine, SessionError> {
        let devices = options.devices()?;
        let between = [&tasks::SEND, &tasks::RECV].map(|op| (op.def.name, op));
        Ok(Engine {
            machine: Arc::new(Machine {
                leaders: ThreadPool::new(devices.len()),
                cores: Cpu::available_threads(),
                devices,
                kernels: thalweg_ops::kernels().into_iter().chain(between).collect(),
                tickets: Tickets::default(),
                plans: Mutex::default(),
            }),
            store: Arc::default(),
        })
    }

    /// The same devices with variables and queues of its own, none yet.
    pub fn isolated(&self) -> Engine {
        Engine {
            machine: self.machine.clone(),
            store: Arc::default(),
        }
    }

    /// The devices.
    pub fn devices(&self) -> &[Device] {
        &self.machine.devices
    }

    /// What lives between steps.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Lets the plans of one more session be asked for their memory.
    pub(crate) fn register(&self, plans: &Arc<Plans<Key, Ready>>) {
        let mut all = self.plans();
        all.retain(|p| p.strong_count() > 0);
        all.push(Arc::downgrade(plans));
    }

    /// Gives up the memory of steps that do not run, those of all sessions.
    pub(crate) fn release(&self) {
        let all: Vec<_> = self.plans().iter().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|plans| plans.release());
    }

    fn plans(&self) -> MutexGuard<'_, Vec<Weak<Plans<Key, Ready>>>> {
        let plans = self.machine.plans.lock();
        plans.unwrap_or_else(PoisonError::into_inner)
    }

    /// What plans are made with here.
    pub(crate) fn workshop<'a>(
        &'a self,
        counters: &'a Counters,
        options: &SessionOptions,
    ) -> Workshop<'a> {
        Workshop {
            kernels: &self.machine.kernels,
            devices: &self.machine.devices,
            store: &self.store,
            counters,
            parallel: options.parallel,
            cores: self.machine.cores,
            optimise: options.optimise,
            fuse: options.optimise,
            apart: false,
            path: "",
        }
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    #[cfg(test)]
    pub(crate) fn machine_mut(&mut self) -> &mut Machine {
        Arc::get_mut(&mut self.machine).expect("nobody else has it")
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.devices().iter().map(|d| d.name().to_string());
        f.debug_list().entries(names).finish()
    }
}
