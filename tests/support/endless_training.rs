//! A small model that a worker trains until it is killed, despite faults of other tasks.

use std::time::{Duration, Instant};

use thalweg::dist::{Cause, ClusterOptions, Server, Session, Timeouts};
use thalweg::prelude::*;

use super::processes::{send_error, send_line};

/// The training op and the fetches of each step.
pub struct EndlessTraining<'g> {
    pub x: Output<'g>,
    pub loss: Output<'g>,
    pub train: Operation<'g>,
    pub step: Variable<'g>,
}

/// A layer of 132 KiB whose outputs are to be 0.3.
pub fn model(g: &Graph) -> EndlessTraining<'_> {
    let step = create_global_step(g);
    let x = g.placeholder("x", DType::F32, [8, 64]);
    let w = g.variable("w", vec![0.01f32; 64 * 512]);
    let b = g.variable("b", vec![0.5f32; 512]);
    let y = (x.matmul(w.value().reshape([64, 512])) + b).tanh();
    let loss = (y - 0.3).square().mean();
    EndlessTraining {
        x,
        loss,
        train: GradientDescent::new(0.01).minimize_counting(loss, step),
        step,
    }
}

/// The feed of each step.
pub fn batch() -> Tensor {
    Tensor::new(&[8, 64], &[0.25f32; 512]).unwrap()
}

/// Trains without end; prints for each step the number of updates before it, its loss and its microseconds.
pub fn train(server: &Server, timeouts: Timeouts) {
    let index = server.task().1;
    let g = Graph::new();
    let own = format!("/job:worker/task:{index}");
    let servers = server.cluster().len("ps") as u32;
    let setter = ReplicaDeviceSetter::new(servers).worker_device(own.parse().unwrap());
    let model = g.device(setter, || model(&g));
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    let options = ClusterOptions::new()
        .timeouts(timeouts)
        .device_filter("/job:ps");
    let session = Session::on(server, &g, options).unwrap();
    let made = g.all_initialized();
    let feed = batch();
    loop {
        let began = Instant::now();
        let done = session.step((model.train, model.loss, model.step), [model.x.feed(&feed)]);
        match done {
            Ok(found) => send_line(&format!(
                "step {} {} {}",
                found.scalar::<i64>(2).unwrap(),
                found.scalar::<f32>(1).unwrap(),
                began.elapsed().as_micros()
            )),
            Err(e) => {
                send_error(&e);
                // Worker 0 initializes all variables after a server's loss, so that they are consistent.
                if index == 0 && e.cause == Cause::Uninitialized {
                    let all = session.step(made, []);
                    if all.is_ok_and(|a| !a.scalar::<bool>(0).unwrap())
                        && let Err(e) = session.step(g.initializers(), [])
                    {
                        send_error(&e);
                    }
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}
