//! A synchronous training whose batches depend on the step and the worker alone: its result does not depend on faults.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thalweg::dist::{ClusterOptions, Server, Session, Timeouts, sync};
use thalweg::prelude::*;
use thalweg::train::hooks::Every;
use thalweg::train::{SyncReplicas, Synchronized, TrainError};

use super::processes::{send_error, send_line};

/// Numbers of each weight.
const SIZE: usize = 64;

/// The learning rate.
const RATE: f32 = 0.5;

/// The model and its training.
pub struct SynchronousModel<'g> {
    pub loss: Output<'g>,
    pub training: Synchronized<'g>,
}

/// Phase shifts of a worker's batches.
fn phases(worker: u32) -> Vec<f32> {
    let of = |i: usize| i as f32 * 0.1 + worker as f32 * 1.3;
    (0..SIZE).map(of).collect()
}

/// Two weights, `w` and `b`, and a global step, over the parameter servers. The task is the one that the graph is for.
///
/// The gradients are sines and cosines that do not depend on the weights: a lost gradient, or one that counts twice,
/// shows in all later weights.
pub fn model<'g>(g: &'g Graph, server: &Server) -> SynchronousModel<'g> {
    let cluster = server.cluster();
    let [servers, workers] = ["ps", "worker"].map(|job| cluster.len(job) as u32);
    let setter = ReplicaDeviceSetter::new(servers).worker_device(server.device());
    g.device(setter, || {
        let step = create_global_step(g);
        let w = g.variable("w", vec![0.0f32; SIZE]);
        let b = g.variable("b", vec![0.0f32; SIZE]);
        let phases = g.constant(Tensor::vector(&phases(server.task().1)));
        let phase = step.value().cast(DType::F32) * 0.7 + phases;
        let loss = (phase.sin() * w.value() + phase.cos() * b.value()).sum();
        let all = SyncReplicas::new(GradientDescent::new(RATE), workers);
        SynchronousModel {
            loss,
            training: all.minimize(loss, step),
        }
    })
}

/// `w` and `b` after `steps` steps of `workers` workers without faults.
pub fn expected_weights(workers: u32, steps: i64) -> [Vec<f32>; 2] {
    let mut weights = [vec![0.0f32; SIZE], vec![0.0f32; SIZE]];
    let phases: Vec<Vec<f32>> = (0..workers).map(phases).collect();
    for step in 0..steps {
        for i in 0..SIZE {
            let phase = |of: &Vec<f32>| step as f32 * 0.7 + of[i];
            let sines: f32 = phases.iter().map(|p| phase(p).sin()).sum();
            let cosines: f32 = phases.iter().map(|p| phase(p).cos()).sum();
            weights[0][i] -= RATE * sines / workers as f32;
            weights[1][i] -= RATE * cosines / workers as f32;
        }
    }
    weights
}

fn options(timeouts: Timeouts) -> ClusterOptions {
    ClusterOptions::new()
        .device_filter("/job:ps")
        .timeouts(timeouts)
}

/// The work of the first parameter server, until the global step is `last`.
pub fn coordinate(server: &Server, timeouts: Timeouts, last: i64) {
    let g = Graph::new();
    let model = model(&g, server);
    let session = Session::on(server, &g, options(timeouts)).unwrap();
    match sync::coordinate(server, &session, &model.training, "worker", last) {
        Ok(()) => send_line("coordinated"),
        Err(e) => send_error(&e),
    }
}

/// The work of the first parameter server in a training that survives its loss, until the condition to end holds. It
/// saves in this folder.
///
/// # Errors
/// The training cannot go on.
pub fn coordinate_until(
    server: &Server,
    timeouts: Timeouts,
    folder: &Path,
    told: &AtomicBool,
) -> Result<(), TrainError> {
    let g = Graph::new();
    let model = model(&g, server);
    let mut coordinator = sync::Coordinator::new(server, &model.training, "worker")?;
    let mut session = MonitoredTrainingSession::new(&g)
        .checkpoint_dir(folder)
        .save_checkpoint(Every::Steps(50))
        .save_summaries(None)
        .log_step_count(None)
        .start(|| Session::on(server, &g, options(timeouts)))?;
    while !told.load(Ordering::Relaxed) {
        match session.run_step_fn(|s| coordinator.update(s))? {
            Some(step) => send_line(&format!("updated {step}")),
            None => break,
        }
    }
    // The other servers end once the workers know the end.
    session.close()?;
    coordinator.close();
    Ok(())
}

/// A worker, until the training is over; prints the global step at the start of each of its steps. The first worker
/// initializes the variables with `initialise`.
pub fn train(server: &Server, timeouts: Timeouts, initialise: bool) {
    let worker = server.task().1;
    let g = Graph::new();
    let model = model(&g, server);
    let session = Session::on(server, &g, options(timeouts)).unwrap();
    if worker == 0 && initialise {
        session.run(g.initializers(), []).unwrap();
    }
    loop {
        match sync::give::<f32>(&session, &model.training, worker, model.loss, []) {
            Ok(Some((_, step))) => send_line(&format!("step {step}")),
            Ok(None) => return send_line("done"),
            Err(e) => {
                send_error(&e);
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}
