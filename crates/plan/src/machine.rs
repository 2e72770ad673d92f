//! What a process plans with: its devices, their kernels, and what lives on them between steps.

use std::sync::Arc;

use thalweg_device::{Collectives, Cpu, Device, Files};

use crate::error::SessionError;
use crate::kernels::Kernels;
use crate::options::SessionOptions;
use crate::request::PlanContext;
use crate::store::{Counters, Store};

/// The devices of a process, the kernels that it has for them, and their variables.
#[derive(Clone)]
pub struct Machine {
    /// The devices, by number.
    pub devices: Arc<[Device]>,
    /// How many threads the machine runs at once.
    pub cores: usize,
    /// The kernels, by op.
    pub kernels: Arc<Kernels>,
    /// What lives between steps.
    pub store: Arc<Store>,
    /// Which files steps may use.
    pub files: Files,
    /// What carries values between ranks.
    pub collectives: Option<Arc<dyn Collectives>>,
}

impl Machine {
    /// With the devices that these options ask for, and no variable yet.
    ///
    /// # Errors
    /// [`SessionError::Device`]: a device that cannot be opened. [`SessionError::Threads`]: one without its threads.
    pub fn new(options: &SessionOptions) -> Result<Machine, SessionError> {
        let kernels = thalweg_ops::kernels().into_iter().collect();
        Ok(Machine {
            devices: options.devices()?.into(),
            cores: Cpu::available_threads(),
            kernels: Arc::new(kernels),
            store: Arc::default(),
            files: options.files.clone(),
            collectives: options.collectives.clone(),
        })
    }

    /// The same devices with variables and queues of its own, none yet.
    pub fn isolated(&self) -> Machine {
        Machine {
            store: Arc::default(),
            ..self.clone()
        }
    }

    /// What plans are made with here.
    pub fn context<'a>(
        &'a self,
        counters: &'a Counters,
        options: &SessionOptions,
    ) -> PlanContext<'a> {
        PlanContext {
            kernels: &self.kernels,
            devices: &self.devices,
            store: &self.store,
            files: &self.files,
            collectives: self.collectives.as_ref(),
            counters,
            parallel: options.parallel,
            cores: self.cores,
            optimise: options.optimise,
            fuse: options.optimise,
            apart: false,
            path: "",
        }
    }
}
