//! Synchronous training whose batches follow from the step and the worker alone: what it gives does not depend on what has
//! disturbed it.

use std::time::Duration;

use thalweg::dist::{ClusterOptions, Patience, Server, Session, sync};
use thalweg::prelude::*;
use thalweg::train::{SyncReplicas, Synchronized};

use super::processes::{say, say_error};

/// Numbers of each weight.
const SIZE: usize = 64;

/// What is trained.
pub struct InStep<'g> {
    pub loss: Output<'g>,
    pub training: Synchronized<'g>,
    pub weights: [Variable<'g>; 2],
}

/// Two weights, and a global step, over the parameter servers. The task is the one that the graph is for.
pub fn model<'g>(g: &'g Graph, server: &Server) -> InStep<'g> {
    let cluster = server.cluster();
    let [servers, workers] = ["ps", "worker"].map(|job| cluster.len(job) as u32);
    let worker = server.task().1 as f32;
    let setter = ReplicaDeviceSetter::new(servers).worker_device(server.device());
    g.device(setter, || {
        let step = create_global_step(g);
        let w = g.variable("w", vec![0.5f32; SIZE]);
        let b = g.variable("b", vec![0.0f32; SIZE]);
        let phases: Vec<f32> = (0..SIZE).map(|i| i as f32 * 0.1 + worker * 1.3).collect();
        let x = (step.value().cast(DType::F32) * 0.7 + g.constant(Tensor::vector(&phases))).sin();
        let loss = (x * w.value() + b.value() - (x * 2.0 - 1.0))
            .square()
            .mean();
        let all = SyncReplicas::new(GradientDescent::new(0.5), workers);
        InStep {
            loss,
            training: all.minimize(loss, step),
            weights: [w, b],
        }
    })
}

fn options(patience: Patience) -> ClusterOptions {
    ClusterOptions::new()
        .device_filter("/job:ps")
        .patience(patience)
}

/// The work of the first parameter server, until the global step is `last`.
pub fn coordinate(server: &Server, patience: Patience, last: i64) {
    let g = Graph::new();
    let model = model(&g, server);
    let session = Session::on(server, &g, options(patience)).unwrap();
    match sync::coordinate(server, &session, &model.training, "worker", last) {
        Ok(()) => say("coordinated"),
        Err(e) => say_error(&e),
    }
}

/// A worker, until the training is over; says of each of its steps the global step that it began from.
pub fn train(server: &Server, patience: Patience) {
    let worker = server.task().1;
    let g = Graph::new();
    let model = model(&g, server);
    let session = Session::on(server, &g, options(patience)).unwrap();
    if worker == 0 {
        session.run(g.initializers(), []).unwrap();
    }
    loop {
        match sync::give::<f32>(&session, &model.training, worker, model.loss, []) {
            Ok(Some((_, step))) => say(&format!("step {step}")),
            Ok(None) => return say("done"),
            Err(e) => {
                say_error(&e);
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}
