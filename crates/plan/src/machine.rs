//! Machines: the devices, kernels and state that a process plans with.

use std::sync::Arc;

use thalweg_device::{Collectives, Cpu, Device, Files, Printer};
use thalweg_ops::OpSet;

use crate::kernels::Kernels;
use crate::options::PlanOptions;
use crate::request::PlanContext;
use crate::store::{SessionState, Store};

/// The devices of a process, the kernels that it has for them, and their variables.
#[derive(Clone)]
pub struct Machine {
    /// The devices, by number.
    pub devices: Arc<[Device]>,
    /// Number of threads that the machine runs at once.
    pub cores: usize,
    /// The kernels, by op.
    pub kernels: Arc<Kernels>,
    /// State that outlives steps.
    pub store: Arc<Store>,
    /// Files that steps may use.
    pub files: Files,
    /// Transport of values between ranks.
    pub collectives: Option<Arc<dyn Collectives>>,
    /// The printer of Print ops, in place of standard error.
    pub printer: Option<Printer>,
}

impl Machine {
    /// A machine with these devices, the kernels of these ops, and no variable yet.
    pub fn new(
        devices: Vec<Device>,
        ops: &OpSet,
        files: Files,
        collectives: Option<Arc<dyn Collectives>>,
    ) -> Machine {
        let kernels = ops.kernels().into_iter().collect();
        Machine {
            devices: devices.into(),
            cores: Cpu::available_threads(),
            kernels: Arc::new(kernels),
            store: Arc::default(),
            files,
            collectives,
            printer: None,
        }
    }

    /// The same devices with variables and queues of its own, none yet.
    pub fn isolated(&self) -> Machine {
        Machine {
            store: Arc::default(),
            ..self.clone()
        }
    }

    /// Returns the context of compilation for a session with these options.
    pub fn context<'a>(
        &'a self,
        session: &'a SessionState,
        options: &PlanOptions,
    ) -> PlanContext<'a> {
        PlanContext {
            kernels: &self.kernels,
            devices: &self.devices,
            store: &self.store,
            files: &self.files,
            collectives: self.collectives.as_ref(),
            printer: self.printer.as_ref(),
            session,
            parallel: options.parallel,
            cores: self.cores,
            optimise: options.optimise,
            fuse: options.optimise,
            separate_memory: false,
            path: "",
            max_bytes: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::options::Parallel;
    use crate::testing::Planner;

    #[test]
    fn an_isolated_machine_has_variables_of_its_own_on_the_same_devices() {
        let machine = Planner::cpus(&[1, 1]).machine;
        let isolated = machine.isolated();
        assert!(Arc::ptr_eq(&machine.devices, &isolated.devices));
        assert!(!Arc::ptr_eq(&machine.store, &isolated.store));
    }

    #[test]
    fn optimisation_turns_folding_and_fusion_on_together() {
        let mut planner = Planner::cpus(&[1]);
        for optimise in [false, true] {
            planner.options.optimise = optimise;
            planner.options.parallel = Parallel::Always;
            let context = planner.machine.context(&planner.session, &planner.options);
            assert_eq!((context.optimise, context.fuse), (optimise, optimise));
            assert_eq!(context.parallel, Parallel::Always);
            assert!(!context.separate_memory && context.path.is_empty());
        }
    }
}
