//! Rejects flags that contradict each other, and flags of features that Thalweg does not have.

use crate::flags::{Consistency, Device, Flags, Job};

/// Flags of features that Thalweg does not have, with advice.
const UNSUPPORTED: &[(&str, &str)] = &[
    (
        "freeze_when_forward_only",
        "leave it out: --forward_only runs the same network with its variables",
    ),
    ("ml_perf", "leave it out"),
    (
        "benchmark_log_dir",
        "leave it out: --json prints each result",
    ),
    (
        "eval_during_training_every_n_steps",
        "train with --train_dir, and evaluate with --eval beside it",
    ),
    (
        "eval_during_training_every_n_epochs",
        "train with --train_dir, and evaluate with --eval beside it",
    ),
    (
        "eval_during_training_at_specified_steps",
        "train with --train_dir, and evaluate with --eval beside it",
    ),
    (
        "eval_during_training_at_specified_epochs",
        "train with --train_dir, and evaluate with --eval beside it",
    ),
    (
        "stop_at_top_1_accuracy",
        "evaluate with --eval beside the training",
    ),
    (
        "summary_verbosity",
        "leave it out: --json prints the losses",
    ),
    (
        "save_summaries_steps",
        "leave it out: --json prints the losses",
    ),
    ("eval_dir", "leave it out: results are printed"),
    (
        "partitioned_graph_file_prefix",
        "--graph_file writes the graph",
    ),
    ("tfprof_file", "--trace_file writes a trace for Perfetto"),
    ("controller_host", "take parameter servers and workers"),
    ("horovod_device", "ranks reduce on CPUs: leave it out"),
];

/// # Errors
/// A message about the first flags that contradict each other.
pub fn check(flags: &Flags, given: &[String]) -> Result<(), String> {
    let missing = |name: &String| UNSUPPORTED.iter().find(|(flag, _)| flag == name);
    if let Some((flag, advice)) = given.iter().find_map(missing) {
        return Err(format!("--{flag} is not there yet: {advice}"));
    }
    let all = exchange(flags)
        .into_iter()
        .chain(lengths(flags, given))
        .chain(numbers(flags));
    for (refused, why) in all {
        if refused {
            return Err(why.to_owned());
        }
    }
    Ok(())
}

type Rules = Vec<(bool, &'static str)>;

/// Rules of variable updates and of devices.
fn exchange(flags: &Flags) -> Rules {
    let (exchange, devices) = (&flags.exchange, &flags.devices);
    let mode = &*exchange.variable_update;
    let task = exchange.job_name;
    let servers = mode == "parameter_server";
    let ranks = matches!(
        mode,
        "distributed_all_reduce" | "collective_all_reduce" | "horovod"
    );
    let copies = ranks || mode == "replicated";
    let automatic = flags.training.fp16_enable_auto_loss_scale;
    vec![
        (
            ranks && task.is_some(),
            "--variable_update=horovod, distributed_all_reduce and collective_all_reduce are of ranks: leave out \
             --job_name, and start them with `thalweg launch hvd`",
        ),
        (
            task == Some(Job::Controller),
            "--job_name=controller: no --variable_update here needs a controller: take ps and worker, or leave it out",
        ),
        (
            exchange.staged_vars && !servers,
            "--staged_vars is of --variable_update=parameter_server",
        ),
        (
            exchange.staged_vars && task.is_some(),
            "--staged_vars is of one process: leave out --job_name",
        ),
        (
            matches!(mode, "replicated" | "independent") && task.is_some(),
            "--variable_update=replicated and independent are of one process: leave out --job_name, or take \
             parameter_server or distributed_replicated",
        ),
        (
            mode == "distributed_replicated" && task.is_none(),
            "--variable_update=distributed_replicated is of a cluster: give --job_name, --ps_hosts and --worker_hosts",
        ),
        (
            task.is_some() && (exchange.ps_hosts.is_empty() || exchange.worker_hosts.is_empty()),
            "a task of a cluster needs --ps_hosts and --worker_hosts",
        ),
        (
            task.is_none() && !(exchange.ps_hosts.is_empty() && exchange.worker_hosts.is_empty()),
            "--ps_hosts and --worker_hosts are of a cluster: give --job_name too",
        ),
        (
            exchange.variable_consistency == Consistency::Relaxed && !copies,
            "--variable_consistency=relaxed is of --variable_update=replicated",
        ),
        (
            exchange.gradient_repacking > 0 && !copies,
            "--gradient_repacking is of --variable_update=replicated",
        ),
        (
            exchange.all_reduce_spec.is_some() && !copies,
            "--all_reduce_spec is of --variable_update=replicated",
        ),
        (
            exchange.hierarchical_copy && devices.num_gpus < 2,
            "--hierarchical_copy takes more than one device: give --num_gpus of at least 2",
        ),
        (
            exchange.hierarchical_copy && !copies,
            "--hierarchical_copy is of --variable_update=replicated",
        ),
        (
            automatic && exchange.staged_vars,
            "--fp16_enable_auto_loss_scale does not go with --staged_vars",
        ),
        (
            automatic && task.is_some(),
            "--fp16_enable_auto_loss_scale is of one process: give --fp16_loss_scale",
        ),
        (
            devices.device == Device::Gpu
                && devices.gpu_thread_mode == "global"
                && devices.per_gpu_thread_count > 0,
            "--per_gpu_thread_count does not go with --gpu_thread_mode=global",
        ),
    ]
}

/// Rules of modes and lengths.
fn lengths(flags: &Flags, given: &[String]) -> Rules {
    let (run, output) = (&flags.run, &flags.output);
    let has = |name: &str| given.iter().any(|g| g == name);
    let text = output.graph_file.as_ref().and_then(|p| p.extension());
    vec![
        (
            text.is_some_and(|e| e == "pbtxt" || e == "txt"),
            "--graph_file writes no text: give a name that ends in .pb",
        ),
        (
            run.num_batches.is_some() && run.num_epochs.is_some(),
            "--num_batches and --num_epochs exclude each other: leave out one of them",
        ),
        (
            run.num_eval_batches.is_some() && run.num_eval_epochs.is_some(),
            "--num_eval_batches and --num_eval_epochs exclude each other: leave out one of them",
        ),
        (
            run.eval && run.forward_only,
            "--eval and --forward_only exclude each other",
        ),
        (
            run.eval && output.train_dir.is_none(),
            "--eval needs --train_dir: the folder of the checkpoint",
        ),
        (
            run.eval && flags.exchange.job_name.is_some(),
            "--eval is of one process: leave out --job_name",
        ),
        (
            output.save_model_secs > 0 && output.save_model_steps.is_some(),
            "--save_model_secs and --save_model_steps exclude each other: leave out one of them",
        ),
        (
            output.trace_file.is_some() && run.num_warmup_batches.is_some_and(|n| n < 2),
            "--trace_file records a step of the warm-up: give --num_warmup_batches of at least 2",
        ),
        (
            has("eval_interval_secs") && !run.eval,
            "--eval_interval_secs is of --eval",
        ),
    ]
}

/// Rules of numeric bounds and learning rates.
fn numbers(flags: &Flags) -> Rules {
    let (run, training) = (&flags.run, &flags.training);
    let decays = training.num_epochs_per_decay > 0.0;
    let factor = training.learning_rate_decay_factor > 0.0;
    let piecewise = training.piecewise_learning_rate_schedule.is_some();
    let part = |x: Option<f64>| x.is_some_and(|x| !(0.0..=1.0).contains(&x));
    let negative = |x: f64| x.is_nan() || x < 0.0;
    vec![
        (
            part(run.display_perf_ewma),
            "--display_perf_ewma is a part: give 0 to 1",
        ),
        (
            run.num_epochs.is_some_and(|n| n.is_nan() || n <= 0.0),
            "--num_epochs is a number of passes: give more than 0",
        ),
        (
            run.num_eval_epochs.is_some_and(|n| n.is_nan() || n <= 0.0),
            "--num_eval_epochs is a number of passes: give more than 0",
        ),
        (
            negative(training.num_epochs_per_decay)
                || negative(training.learning_rate_decay_factor)
                || negative(training.minimum_learning_rate)
                || negative(training.num_learning_rate_warmup_epochs)
                || negative(training.weight_decay)
                || training.init_learning_rate.is_some_and(negative),
            "rates, passes and the decay of weights are no negative numbers",
        ),
        (
            decays != factor || (decays && training.init_learning_rate.is_none()),
            "a decaying rate takes all of --init_learning_rate, --num_epochs_per_decay and \
             --learning_rate_decay_factor",
        ),
        (
            training.minimum_learning_rate > 0.0 && !decays,
            "--minimum_learning_rate is of a rate that decays: give --num_epochs_per_decay too",
        ),
        (
            piecewise
                && (training.init_learning_rate.is_some()
                    || decays
                    || training.num_learning_rate_warmup_epochs > 0.0),
            "--piecewise_learning_rate_schedule excludes all other flags of the rate",
        ),
        (
            training.use_fp16 && flags.extensions.use_bf16,
            "--use_fp16 and --use_bf16 exclude each other",
        ),
        (
            training.fp16_vars && !training.use_fp16,
            "--fp16_vars is of --use_fp16",
        ),
        (
            training.fp16_vars && flags.exchange.gradient_repacking > 0,
            "--fp16_vars does not go with --gradient_repacking",
        ),
        (
            training.fp16_enable_auto_loss_scale && !training.use_fp16,
            "--fp16_enable_auto_loss_scale is of --use_fp16",
        ),
        (
            training
                .fp16_loss_scale
                .is_some_and(|s| s.is_nan() || s <= 0.0),
            "--fp16_loss_scale is more than 0",
        ),
    ]
}
