//! Builds the model's towers, the loss and the training op.

use std::cell::RefCell;

use thalweg::layers::losses;
use thalweg::models::Options;
use thalweg::parallel::{
    AllReduce, DataParallel, Decay, LossScale, ParallelError, ParameterDevice, Process,
    ServerPlacement, Tower, Training, server_variables,
};
use thalweg::prelude::*;

use crate::flags::{Algorithm, Consistency, Device, PlacementKind};
use crate::learning_rate::rate;
use crate::settings::{Mode, Settings};

/// Default loss scale in f16.
const LOSS_SCALE: f32 = 128.0;
/// Weight of the auxiliary head in the loss.
const AUXILIARY: f64 = 0.4;

/// The model on all towers of this process.
pub struct Network<'g> {
    /// Images and classes of each tower.
    pub inputs: Vec<[Output<'g>; 2]>,
    pub training: Training<'g>,
    /// The loss that is printed.
    pub loss: Output<'g>,
    /// Top-1 and top-5 accuracy.
    pub top: [Output<'g>; 2],
}

/// Builds it.
///
/// # Errors
/// Flags that do not go together.
pub fn build<'g>(
    settings: &Settings,
    process: &Process,
    g: &'g Graph,
) -> Result<Network<'g>, ParallelError> {
    let parallel = parallel(settings)?.on(process);
    let placement = server_placement(settings, process, &parallel)?;
    build_on(settings, &parallel.server_placement(placement), g)
}

/// Placement of variables on the parameter servers.
fn server_placement(
    settings: &Settings,
    process: &Process,
    parallel: &DataParallel,
) -> Result<ServerPlacement, ParallelError> {
    let task = process.task();
    match (settings.flags.extensions.server_placement, task) {
        (PlacementKind::RoundRobin, _) => Ok(ServerPlacement::RoundRobin),
        (PlacementKind::LargestFirst, Some(task)) => {
            // The sizes of the variables are known once the network is built.
            let other = Graph::new();
            build_on(settings, parallel, &other)?;
            let variables = server_variables(&other);
            Ok(ServerPlacement::by_cost(variables, task.servers))
        }
        (PlacementKind::Greedy | PlacementKind::LargestFirst, _) => Ok(ServerPlacement::Greedy),
    }
}

fn build_on<'g>(
    settings: &Settings,
    parallel: &DataParallel,
    g: &'g Graph,
) -> Result<Network<'g>, ParallelError> {
    g.set_seed(settings.flags.run.tf_random_seed as i64);
    let towers: RefCell<Vec<TowerOutputs<'g>>> = RefCell::default();
    let training = parallel.build(
        g,
        |step| optimizer(settings, step),
        |tower| {
            let build_tower = build_tower(settings, tower);
            let loss = build_tower.loss;
            towers.borrow_mut().push(build_tower);
            loss
        },
    )?;
    let towers = towers.into_inner();
    let top = |which: usize| {
        let all: Vec<Output<'g>> = towers.iter().map(|t| t.top[which]).collect();
        g.add_n(&all) * (1.0 / all.len() as f64)
    };
    let loss = match settings.flags.run.loss_type_to_report {
        crate::flags::LossType::TotalLoss => training.total_loss,
        crate::flags::LossType::BaseLoss => training.loss,
    };
    Ok(Network {
        inputs: towers.iter().map(|t| t.inputs).collect(),
        loss,
        top: [top(0), top(1)],
        training,
    })
}

/// A tower.
struct TowerOutputs<'g> {
    inputs: [Output<'g>; 2],
    loss: Output<'g>,
    top: [Output<'g>; 2],
}

fn build_tower<'g>(settings: &Settings, tower: &Tower<'g>) -> TowerOutputs<'g> {
    let (g, model) = (tower.graph(), settings.model);
    let (n, size) = (settings.batch as i64, model.size as i64);
    let channels = model.data.channels() as i64;
    let images = g.placeholder("images", DType::F32, [n, size, size, channels]);
    let labels = g.placeholder("labels", DType::I32, [n]);
    let options = Options::new()
        .data_format(settings.format)
        .compute(settings.compute)
        .weights(settings.weights);
    let options = match settings.mode {
        Mode::Train => options,
        Mode::ForwardOnly | Mode::Evaluate => options.inference(),
    };
    let options = match settings.flags.extensions.auxiliary_head {
        true => options.auxiliary(),
        false => options,
    };
    let network = model.build(g, images, model.data.classes(), &options);
    let cost = |logits: Output<'g>| losses::sparse_softmax_cross_entropy(labels, logits).value();
    let loss = match network.auxiliary {
        Some(auxiliary) => cost(network.logits) + cost(auxiliary) * AUXILIARY,
        None => cost(network.logits),
    };
    let top = |k: i32| {
        let hits = g
            .op("InTopKV2")
            .inputs([network.logits, labels, g.constant(k)]);
        hits.output().cast(DType::F32).mean()
    };
    TowerOutputs {
        inputs: [images, labels],
        loss,
        top: [top(1), top(5)],
    }
}

/// Data parallelism according to `--variable_update` and its options.
fn parallel(settings: &Settings) -> Result<DataParallel, ParallelError> {
    let flags = &settings.flags;
    let exchange = &flags.exchange;
    let mut parallel = DataParallel::new(settings.update)
        .towers(settings.towers)
        .device_type(flags.devices.device.name())
        .reduction(settings.reduction)
        .in_step(settings.in_step())
        .repacking(exchange.gradient_repacking)
        .loss_scale(loss_scale(settings));
    // The update of an automatic scale is a branch, whose variables are on one device.
    let spread = flags.training.fp16_enable_auto_loss_scale && settings.towers > 1;
    if flags.devices.local_parameter_device == Device::Gpu && !spread {
        parallel = parallel.parameter_device(ParameterDevice::Towers);
    }
    if exchange.staged_vars {
        parallel = parallel.staged();
    }
    if exchange.variable_consistency == Consistency::Relaxed {
        parallel = parallel.relaxed();
    }
    if let Some(spec) = &exchange.all_reduce_spec {
        parallel = parallel.all_reduce(spec.parse::<AllReduce>()?);
    }
    if exchange.hierarchical_copy {
        parallel = parallel.hierarchical_copy(exchange.network_topology.parse()?);
    }
    if settings.compute == DType::F16 && exchange.compact_gradient_transfer {
        parallel = parallel.compact(DType::F16);
    }
    if let Some(most) = flags.training.gradient_clip {
        parallel = parallel.clip(most);
    }
    let rate = flags.training.weight_decay;
    let decays = !matches!(flags.training.optimizer, Algorithm::Lars | Algorithm::Lamb);
    if decays && rate > 0.0 {
        parallel = parallel.decay(Decay::new(rate).only(has_weight_decay));
    }
    Ok(parallel)
}

/// `true` for variables with weight decay: all but those of batch normalization.
fn has_weight_decay(name: &str) -> bool {
    !name.contains("batchnorm")
}

fn loss_scale(settings: &Settings) -> LossScale {
    let flags = &settings.flags.training;
    let scale = flags.fp16_loss_scale.unwrap_or(LOSS_SCALE);
    match (flags.use_fp16, flags.fp16_enable_auto_loss_scale) {
        (false, _) => LossScale::None,
        (true, false) => LossScale::Fixed(scale),
        (true, true) => LossScale::Automatic {
            initial: scale,
            double_after: flags.fp16_inc_loss_scale_every_n,
        },
    }
}

fn optimizer<'g>(settings: &Settings, step: Variable<'g>) -> Box<dyn Optimizer<'g> + 'g> {
    let flags = &settings.flags.training;
    let rate = rate(settings, step);
    let decay = flags.weight_decay as f32;
    let excluded = |name: &str| !has_weight_decay(name);
    match flags.optimizer {
        Algorithm::Sgd => Box::new(GradientDescent::new(rate)),
        Algorithm::Momentum => Box::new(Momentum::new(rate, flags.momentum).nesterov(true)),
        Algorithm::Rmsprop => Box::new(
            RmsProp::new(rate)
                .decay(flags.rmsprop_decay)
                .momentum(flags.rmsprop_momentum)
                .epsilon(flags.rmsprop_epsilon),
        ),
        Algorithm::Adam => Box::new(
            Adam::new(rate)
                .betas(flags.adam_beta1, flags.adam_beta2)
                .epsilon(flags.adam_epsilon),
        ),
        Algorithm::Lars => Box::new(
            Lars::new(rate)
                .momentum(flags.momentum)
                .weight_decay(decay)
                .exclude(excluded),
        ),
        Algorithm::Lamb => Box::new(
            Lamb::new(rate)
                .betas(flags.adam_beta1, flags.adam_beta2)
                .epsilon(flags.adam_epsilon)
                .weight_decay(decay)
                .exclude(excluded),
        ),
    }
}
