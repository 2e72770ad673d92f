//! The header that is printed before the first step.

use thalweg::parallel::VariableUpdate;

use crate::flags::{Compat, PlacementKind};
use crate::settings::Settings;

/// The lines of tf_cnn_benchmarks' header, after a first line with Thalweg's version.
pub fn lines(settings: &Settings) -> Vec<String> {
    let flags = &settings.flags;
    let report = flags.extensions.compat == Compat::Report;
    let mut lines = Vec::new();
    let mut row = |label: &str, value: String| lines.push(format!("{label:<13}{value}"));
    let truth = |x: bool| if x { "True" } else { "False" }.to_owned();
    row("Thalweg:", env!("CARGO_PKG_VERSION").to_owned());
    row("Model:", settings.model.name.to_owned());
    if !report {
        row(
            "Dataset:",
            match &flags.input.data_dir {
                Some(_) => settings.model.data.name().to_owned(),
                None => format!("{} (synthetic)", settings.model.data.name()),
            },
        );
    }
    row("Mode:", settings.mode.name().to_owned());
    if !report {
        row("SingleSess:", truth(false));
    }
    row("Batch size:", format!("{} global", settings.global_batch()));
    row(
        "",
        match report {
            true => format!("{:?} per device", settings.batch as f64),
            false => format!("{} per device", settings.batch),
        },
    );
    if flags.run.batch_group_size > 1 && !report {
        row(
            "",
            format!(
                "{} batches per prepocessing group",
                flags.run.batch_group_size
            ),
        );
    }
    if !report {
        row("Num batches:", settings.steps.to_string());
        row("Num epochs:", format!("{:.2}", settings.epochs()));
    }
    row("Devices:", format!("[{}]", devices(settings).join(", ")));
    if !report {
        row("NUMA bind:", truth(false));
    }
    row("Data format:", settings.format.name().to_owned());
    row("Optimizer:", flags.training.optimizer.name().to_owned());
    row("Variables:", flags.exchange.variable_update.clone());
    if settings.update == VariableUpdate::Replicated && !report {
        let spec = flags.exchange.all_reduce_spec.as_deref();
        row("AllReduce:", spec.unwrap_or("None").to_owned());
    }
    if report {
        row("Use NCCL:", truth(false));
    }
    if settings.job().is_some() {
        row("Sync:", truth(settings.in_step()));
        let placement = flags.extensions.server_placement;
        if placement != PlacementKind::Greedy {
            row("Placement:", placement.name().to_owned());
        }
    }
    if flags.exchange.staged_vars {
        row("Staged vars:", truth(true));
    }
    row(
        "Gradients:",
        format!("{} over all devices", settings.reduction.name()),
    );
    lines.push("==========".to_owned());
    lines
}

/// The towers' devices, as a list in Python's syntax.
fn devices(settings: &Settings) -> Vec<String> {
    let kind = settings.flags.devices.device.name();
    let task = settings.flags.exchange.task_index;
    let job = match settings.job() {
        Some(_) => format!("/job:worker/replica:0/task:{task}"),
        None => String::new(),
    };
    (0..settings.towers)
        .map(|n| format!("'{job}/{kind}:{n}'"))
        .collect()
}
