//! What sessions of one process share.

use std::sync::Arc;

use thalweg_device::{Cpu, Device, ThreadPool};

use crate::error::SessionError;
use crate::exec::Tickets;
use crate::options::SessionOptions;
use crate::plan::Kernels;
use crate::store::Store;
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
