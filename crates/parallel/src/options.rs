//! DataParallel: options of data parallelism.

use thalweg_hvd::Hvd;
use thalweg_tensor::DType;

use crate::error::ParallelError;
use crate::exchange::{AllReduce, Topology};
use crate::loss_scale::LossScale;
use crate::mode::{ParameterDevice, Reduction, ServerPlacement, Task, VariableUpdate};
use crate::process::Process;
use crate::recipe::Decay;

/// Options of data parallelism; [`DataParallel::build`] builds it. See the [crate](crate) for an example.
#[derive(Clone, Debug)]
pub struct DataParallel {
    pub(crate) update: VariableUpdate,
    pub(crate) towers: usize,
    pub(crate) device: String,
    pub(crate) task: Option<Task>,
    /// The job of ranks that this process is one of.
    pub(crate) ranks: Option<Hvd>,
    pub(crate) parameter_device: ParameterDevice,
    pub(crate) server_placement: ServerPlacement,
    pub(crate) reduction: Reduction,
    pub(crate) in_step: bool,
    pub(crate) staged: bool,
    pub(crate) relaxed: bool,
    pub(crate) repacking: usize,
    pub(crate) compact: Option<DType>,
    pub(crate) all_reduce: Option<AllReduce>,
    pub(crate) hierarchical: Option<Topology>,
    pub(crate) decay: Option<Decay>,
    pub(crate) clip: Option<f32>,
    pub(crate) loss_scale: LossScale,
}

impl DataParallel {
    /// Creates options with one tower on the first CPU device.
    pub fn new(update: VariableUpdate) -> DataParallel {
        DataParallel {
            update,
            towers: 1,
            device: "cpu".to_owned(),
            task: None,
            ranks: None,
            parameter_device: ParameterDevice::Cpu,
            server_placement: ServerPlacement::Greedy,
            reduction: Reduction::Mean,
            in_step: true,
            staged: false,
            relaxed: false,
            repacking: 0,
            compact: None,
            all_reduce: None,
            hierarchical: None,
            decay: None,
            clip: None,
            loss_scale: LossScale::None,
        }
    }

    /// Number of towers in this process, each on a device of its own: `/cpu:0`, `/cpu:1`, ...
    pub fn towers(mut self, towers: usize) -> DataParallel {
        self.towers = towers;
        self
    }

    /// Type of the towers' devices: `cpu` (the default) or `gpu`.
    pub fn device_type(mut self, device: &str) -> DataParallel {
        device.clone_into(&mut self.device);
        self
    }

    /// Runs in this process: alone, as a task of a cluster, or as a rank of a job.
    pub fn on(mut self, process: &Process) -> DataParallel {
        self.task = process.task();
        self.ranks = process.ranks().cloned();
        self
    }

    /// Runs as a task of a cluster.
    pub fn task(mut self, task: Task) -> DataParallel {
        self.task = Some(task);
        self
    }

    /// Devices of the variables that the towers of one process share.
    pub fn parameter_device(mut self, device: ParameterDevice) -> DataParallel {
        self.parameter_device = device;
        self
    }

    /// Placement of variables on the parameter servers of a cluster. All tasks must choose the same.
    pub fn server_placement(mut self, placement: ServerPlacement) -> DataParallel {
        self.server_placement = placement;
        self
    }

    /// Reduction of the gradients of all towers; the mean by default.
    pub fn reduction(mut self, reduction: Reduction) -> DataParallel {
        self.reduction = reduction;
        self
    }

    /// Synchronous training of the workers of a cluster (the default): an update has a gradient of each worker. With
    /// `false`, each worker updates the variables whenever it has a gradient.
    pub fn in_step(mut self, in_step: bool) -> DataParallel {
        self.in_step = in_step;
        self
    }

    /// Stages values: towers use values that were copied to their devices in the previous step, during its computation,
    /// and gradients are applied a step later. The update of step k then has the gradient at the values before
    /// step k - 2. For `ParameterServer` in one process only.
    pub fn staged(mut self) -> DataParallel {
        self.staged = true;
        self
    }

    /// Applies gradients one step after their reduction, so that the all-reduce of a step does not delay its update.
    /// The first step applies zeros. For `Replicated` and `Horovod`.
    pub fn relaxed(mut self) -> DataParallel {
        self.relaxed = true;
        self
    }

    /// Packs all gradients into so many equal parts for the exchange; 0 exchanges each gradient separately. For
    /// `Replicated` and `Horovod`.
    pub fn repacking(mut self, parts: usize) -> DataParallel {
        self.repacking = parts;
        self
    }

    /// Sends gradients between devices of a process in this dtype: f16 or bf16.
    pub fn compact(mut self, dtype: DType) -> DataParallel {
        self.compact = Some(dtype);
        self
    }

    /// All-reduce between the towers of `Replicated`. By default, each gradient is summed on one of their devices, in
    /// turn, and copied back.
    pub fn all_reduce(mut self, all_reduce: AllReduce) -> DataParallel {
        self.all_reduce = Some(all_reduce);
        self
    }

    /// Sums gradients in groups of devices first, and then between the groups. For more than one tower;
    /// [`DataParallel::all_reduce`] overrides it.
    pub fn hierarchical_copy(mut self, topology: Topology) -> DataParallel {
        self.hierarchical = Some(topology);
        self
    }

    /// Weight decay: the loss to minimize has the L2 norm of variables too.
    pub fn decay(mut self, decay: Decay) -> DataParallel {
        self.decay = Some(decay);
        self
    }

    /// Clips elements of reduced gradients to `-most..=most`.
    pub fn clip(mut self, most: f32) -> DataParallel {
        self.clip = Some(most);
        self
    }

    /// Multiplies the loss before gradients are computed, and divides them again, so that f16 holds small ones.
    pub fn loss_scale(mut self, scale: LossScale) -> DataParallel {
        self.loss_scale = scale;
        self
    }

    /// # Errors
    /// Checks for contradicting options.
    pub(crate) fn check(&self) -> Result<(), ParallelError> {
        use VariableUpdate::{
            DistributedReplicated, Horovod, Independent, ParameterServer, Replicated,
        };
        let mode = self.update;
        let refuse = |applies: bool, option, advice| match applies {
            true => Err(ParallelError::Option {
                option,
                mode,
                advice,
            }),
            false => Ok(()),
        };
        if self.towers == 0 {
            return Err(ParallelError::Range {
                what: "the number of towers",
                found: "0".to_owned(),
                range: "at least 1",
            });
        }
        let local = matches!(mode, Independent | Replicated | Horovod);
        let on_servers = self.task.is_some();
        refuse(
            local && on_servers,
            "a cluster",
            "take parameter_server or distributed_replicated, or run it in one process",
        )?;
        refuse(
            self.ranks.is_some() && mode != Horovod,
            "a job of ranks",
            "take horovod, or start the program without `thalweg launch hvd`",
        )?;
        refuse(
            mode == DistributedReplicated && !on_servers,
            "a single process",
            "take replicated, or give servers and workers",
        )?;
        refuse(
            self.staged && (mode != ParameterServer || on_servers),
            "staging",
            "take parameter_server in one process",
        )?;
        let copies = matches!(mode, Replicated | Horovod);
        let advice = "take replicated";
        refuse(self.relaxed && !copies, "relaxed consistency", advice)?;
        refuse(self.repacking > 0 && !copies, "repacking", advice)?;
        refuse(
            self.all_reduce.is_some() && !copies,
            "an all-reduce",
            advice,
        )?;
        refuse(
            self.hierarchical.is_some() && !copies,
            "hierarchical copying",
            advice,
        )?;
        let automatic = matches!(self.loss_scale, LossScale::Automatic { .. });
        refuse(
            automatic && (self.staged || on_servers),
            "an automatic loss scale",
            "give a fixed one, or train in one process without staging",
        )?;
        let spread = self.parameter_device == ParameterDevice::Towers && mode == ParameterServer;
        refuse(
            automatic && spread && self.towers > 1,
            "an automatic loss scale with variables on several devices",
            "leave them on the CPU: its update is a branch, which runs on one device",
        )?;
        match (&self.all_reduce, self.hierarchical) {
            (Some(all_reduce), _) => all_reduce.check(self.towers)?,
            (None, Some(topology)) => topology.check(self.towers)?,
            (None, None) => {}
        }
        if let Some(dtype) = self
            .compact
            .filter(|d| !matches!(d, DType::F16 | DType::BF16))
        {
            return Err(ParallelError::Range {
                what: "the dtype of compact gradients",
                found: dtype.to_string(),
                range: "f16 or bf16",
            });
        }
        Ok(())
    }
}
