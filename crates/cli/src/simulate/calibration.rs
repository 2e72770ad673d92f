//! Calibration of a cluster on the runs of a study.

use std::path::Path;

use thalweg_simulate::{
    AllReduceOptions, Cluster, Constant, MeasuredStep, calibrate, predict_all_reduce,
    predict_servers,
};
use thalweg_study::{Data, Point, PointSummary, RunFile, Scaling, Summary};

use super::modes::ModeChoice;
use super::training_step::TrainingStep;
use crate::failure::Failure;
use crate::table::table;

/// Calibrates a cluster on the points of a study with at most so many tasks.
///
/// # Errors
/// The study is not read, or has no such point with servers.
pub(super) fn calibrated(
    folder: &Path,
    step: &TrainingStep,
    cluster: &Cluster,
    tasks: u32,
) -> Result<(Cluster, String), Failure> {
    let (study, records) = RunFile::read(&folder.join("runs.jsonl"))?;
    let mut points: Vec<Point> = Vec::new();
    for record in &records {
        if record.point.data == Data::Synthetic && !points.contains(&record.point) {
            points.push(record.point.clone());
        }
    }
    let summary = Summary::new(&points, &records, Scaling::Weak);
    let mut measured = Vec::new();
    for point in summary.points.iter().filter(|p| p.point.tasks <= tasks) {
        measured.extend(measured_step(point, step)?);
    }
    if measured.is_empty() {
        return Err(format!(
            "{study}: no point with servers has {tasks} tasks or fewer: choose more with --calibrate-tasks"
        )
        .into());
    }
    let constants = match cluster.device.gpu {
        true => vec![Constant::Compute, Constant::Update, Constant::Network],
        false => vec![
            Constant::Compute,
            Constant::Update,
            Constant::TasksAtFullSpeed,
        ],
    };
    let cluster = calibrate(cluster, None, &measured, &constants);
    let mut rows = Vec::new();
    for point in &summary.points {
        rows.extend(row(point, step, &cluster, tasks)?);
    }
    let head = [
        "mode",
        "servers",
        "tasks",
        "batch",
        "measured",
        "predicted",
        "error",
        "calibrated on",
    ];
    Ok((cluster, table(&head, rows, &[1, 2, 3, 4, 5, 6])))
}

/// Mode of a point that can be simulated.
fn mode(point: &Point) -> Option<ModeChoice> {
    let modes = [
        (ModeChoice::ParameterServer, "parameter_server"),
        (ModeChoice::DistributedReplicated, "distributed_replicated"),
        (ModeChoice::AllReduce, "horovod"),
    ];
    let found = modes.iter().find(|(_, name)| *name == point.mode)?;
    Some(found.0)
}

fn measured_step(
    point: &PointSummary,
    step: &TrainingStep,
) -> Result<Option<MeasuredStep>, Failure> {
    let Point {
        batch,
        tasks,
        servers,
        ..
    } = point.point;
    match (mode(&point.point), point.speed) {
        (Some(mode), Some(speed)) if servers > 0 => Ok(Some(MeasuredStep {
            template: step.with_batch(batch).template(mode, servers, tasks)?,
            workers: tasks,
            batch,
            images_per_second: speed.mean,
        })),
        _ => Ok(None),
    }
}

fn row(
    point: &PointSummary,
    step: &TrainingStep,
    cluster: &Cluster,
    calibrated: u32,
) -> Result<Option<Vec<String>>, Failure> {
    let Point {
        batch,
        tasks,
        servers,
        ..
    } = point.point;
    let (Some(mode), Some(speed)) = (mode(&point.point), point.speed) else {
        return Ok(None);
    };
    let step = step.with_batch(batch);
    let predicted = match mode {
        ModeChoice::AllReduce => {
            let template = step.template(ModeChoice::ParameterServer, 1, tasks)?;
            predict_all_reduce(
                &template,
                cluster,
                tasks,
                batch,
                &AllReduceOptions::default(),
            )
        }
        _ => predict_servers(&step.template(mode, servers, tasks)?, cluster, tasks, batch),
    };
    let is_used = servers > 0 && tasks <= calibrated;
    Ok(Some(vec![
        point.point.mode.clone(),
        servers.to_string(),
        tasks.to_string(),
        batch.to_string(),
        format!("{:.1}", speed.mean),
        format!("{:.1}", predicted.images_per_second),
        format!(
            "{:+.1}%",
            100.0 * (predicted.images_per_second / speed.mean - 1.0)
        ),
        if is_used { "yes" } else { "" }.to_owned(),
    ]))
}
