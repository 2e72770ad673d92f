//! Settings of a run, derived from the flags: model, batch sizes, number of steps.

mod ignored_flags;
mod validation;

use thalweg::collective::Join;
use thalweg::models::{self, Data, Model};
use thalweg::ops::DataFormat;
use thalweg::parallel::{Reduction, VariableUpdate};
use thalweg::tensor::DType;

use crate::flags::{Flags, Job, ParsedFlags};

/// Settings of a run.
pub struct Settings {
    pub flags: Flags,
    pub model: &'static Model,
    pub update: VariableUpdate,
    pub reduction: Reduction,
    pub format: DataFormat,
    /// Dtypes of the computation and of the weights.
    pub compute: DType,
    pub weights: DType,
    pub towers: usize,
    /// Images of a tower in a step.
    pub batch: usize,
    pub workers: usize,
    /// Measured steps.
    pub steps: u64,
    pub warmup: u64,
    pub mode: Mode,
}

/// Training, evaluation or inference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Train,
    ForwardOnly,
    Evaluate,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Train => "training",
            Mode::ForwardOnly => "forward only",
            Mode::Evaluate => "evaluation",
        }
    }
}

impl Settings {
    /// # Errors
    /// A message about flags that contradict each other.
    pub fn new(given: ParsedFlags) -> Result<(Settings, Vec<String>), String> {
        let notes = ignored_flags::notes(&given.names);
        let flags = given.flags;
        validation::check(&flags, &given.names)?;
        crate::learning_rate::check_schedule(&flags.training)?;
        let data = match data_name(&flags.input) {
            None | Some("imagenet") => Data::ImageNet,
            Some("cifar10") => Data::Cifar10,
            Some("mnist") => Data::Mnist,
            Some(other) => {
                return Err(format!(
                    "--data_name={other}: give imagenet, cifar10 or mnist"
                ));
            }
        };
        let model = find_model(&flags.run.model, data)?;
        let mode = match (flags.run.eval, flags.run.forward_only) {
            (true, _) => Mode::Evaluate,
            (_, true) => Mode::ForwardOnly,
            _ => Mode::Train,
        };
        let asked = match mode {
            Mode::Evaluate if flags.run.eval_batch_size > 0 => flags.run.eval_batch_size,
            _ => flags.run.batch_size,
        };
        let batch = if asked == 0 { model.batch } else { asked };
        let towers = usize::from(flags.devices.num_gpus);
        let hosts = |list: &str| list.split(',').filter(|h| !h.is_empty()).count();
        let update = match &*flags.exchange.variable_update {
            // Ranks reduce on all of their devices, without servers or a controller, in all three.
            "distributed_all_reduce" | "collective_all_reduce" => VariableUpdate::Horovod,
            name => name.parse().map_err(|e| format!("{e}"))?,
        };
        let workers = match update {
            VariableUpdate::Horovod => Join::from_env().map_err(|e| format!("{e}"))?.size(),
            _ => hosts(&flags.exchange.worker_hosts).max(1),
        };
        let all = batch
            .checked_mul(towers * workers)
            .ok_or("--batch_size is too large")?;
        let group = flags.run.batch_group_size;
        let warmup = flags.run.num_warmup_batches.unwrap_or(10);
        Ok((
            Settings {
                model,
                update,
                reduction: match &*flags.extensions.gradient_reduction {
                    "sum" => Reduction::Sum,
                    _ => Reduction::Mean,
                },
                format: match flags.devices.data_format.as_deref() {
                    Some("NCHW") => DataFormat::Nchw,
                    _ => DataFormat::Nhwc,
                },
                compute: match (flags.training.use_fp16, flags.extensions.use_bf16) {
                    (true, _) => DType::F16,
                    (_, true) => DType::BF16,
                    _ => DType::F32,
                },
                weights: match flags.training.fp16_vars {
                    true => DType::F16,
                    false => DType::F32,
                },
                towers,
                batch,
                workers,
                steps: steps(&flags, model, mode, all)?,
                warmup: warmup.div_ceil(group).saturating_mul(group),
                mode,
                flags,
            },
            notes,
        ))
    }

    /// Images of all towers of this worker in a step.
    pub fn worker_batch(&self) -> usize {
        self.batch * self.towers
    }

    /// Images of all workers in a step.
    pub fn global_batch(&self) -> usize {
        self.worker_batch() * self.workers
    }

    /// The job of this task; `None` outside of a cluster.
    pub fn job(&self) -> Option<Job> {
        self.flags.exchange.job_name
    }

    /// `true` where workers train synchronously.
    pub fn in_step(&self) -> bool {
        self.flags.exchange.cross_replica_sync
    }

    /// Epochs of the measured steps.
    pub fn epochs(&self) -> f64 {
        let images = match self.mode {
            Mode::Evaluate => self.model.data.validation_images(),
            _ => self.model.data.images(),
        };
        self.steps as f64 * self.global_batch() as f64 / images as f64
    }
}

/// The name of the data set: given, or that in the name of the folder.
fn data_name(flags: &crate::flags::InputFlags) -> Option<&str> {
    let guessed = || crate::input::guess(flags.data_dir.as_deref()?);
    flags.data_name.as_deref().or_else(guessed)
}

/// Finds a model by name.
fn find_model(name: &str, data: Data) -> Result<&'static Model, String> {
    models::find(name, data).ok_or_else(|| {
        let advice = match models::all().iter().find(|m| m.name == name) {
            Some(other) => format!("it is one for --data_name={}", other.data.name()),
            None => "--list_models prints all".to_owned(),
        };
        format!(
            "--model={name}: there is no such model for {}: {advice}",
            data.name()
        )
    })
}

/// Number of measured steps, with `images` in each.
fn steps(flags: &Flags, model: &Model, mode: Mode, images: usize) -> Result<u64, String> {
    let (batches, epochs, all) = match mode {
        Mode::Evaluate => (
            flags.run.num_eval_batches,
            flags.run.num_eval_epochs.or(Some(1.0)),
            model.data.validation_images(),
        ),
        _ => (
            flags.run.num_batches,
            flags.run.num_epochs,
            model.data.images(),
        ),
    };
    let of_epochs = |epochs: f64| (epochs * all as f64 / images as f64).ceil() as u64;
    let steps = match (batches, epochs) {
        (Some(batches), _) => batches,
        (None, Some(epochs)) => of_epochs(epochs),
        (None, None) => 100,
    };
    match steps {
        0 => Err("there are no steps to run: give --num_batches of at least 1".to_owned()),
        steps => Ok(steps),
    }
}
