//! A cluster in one process: a parameter server and two workers, which train one model at the same time.
//! `thalweg launch` starts the same tasks as processes, on this machine or on others.
//!
//! ```text
//! cargo run --release --features thalweg-examples/cluster --example cluster
//! ```

use std::error::Error;
use std::net::TcpListener;
use std::thread;

use thalweg::dist::{ClusterError, ClusterOptions, ClusterSpec, Server, ServerOptions, Session};
use thalweg::layers::{Layer, dense};
use thalweg::prelude::*;

const WORKERS: u32 = 2;

/// A worker: it builds the model with the variables on the server, and trains on its own part of the
/// data. The first one gives the variables their values.
fn work(server: &Server, task: u32) -> Result<f32, ClusterError> {
    let g = Graph::new();
    let own = DeviceSpec::parse(&format!("/job:worker/task:{task}")).expect("a device");
    let place = ReplicaDeviceSetter::new(1).worker_device(own);
    let (train, loss, x, y) = g.device(place, || {
        let x = g.placeholder("x", DType::F32, [None, Some(2)]);
        let y = g.placeholder("y", DType::F32, [None, Some(1)]);
        let loss = (dense(1).on(x) - y).square().mean();
        (GradientDescent::new(0.1).minimize(loss), loss, x, y)
    });
    let session = Session::on(server, &g, ClusterOptions::default())?;
    if task == 0 {
        session.run(g.initializers(), [])?;
    }
    while !session.run::<bool>(g.all_initialized(), [])? {
        thread::yield_now();
    }
    let mut last = f32::NAN;
    for step in 0..300 {
        // y = 2 a - b + 1, at points that differ from worker to worker.
        let a = (step * 7 + task as i32 * 3) % 11;
        let b = (step * 5 + task as i32) % 13;
        let (a, b) = (a as f32 / 11.0, b as f32 / 13.0);
        let feeds = [x.feed([[a, b]]), y.feed([[2.0 * a - b + 1.0]])];
        (last, ()) = session.run((loss, train), feeds)?;
    }
    Ok(last)
}

fn main() -> Result<(), Box<dyn Error>> {
    // Three ports that nobody uses.
    let free: Result<Vec<_>, _> = (0..=WORKERS)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect();
    let address = |l: &TcpListener| l.local_addr().map(|a| a.to_string());
    let addresses: Vec<String> = free?.iter().map(address).collect::<Result<_, _>>()?;
    let (ps, workers) = addresses.split_at(1);
    let spec = ClusterSpec::new([("ps", ps), ("worker", workers)])?;
    let start =
        |job: &str, task| Server::new(spec.clone(), job, task, ServerOptions::listening(""));
    let _ps = start("ps", 0)?;
    let servers: Result<Vec<_>, _> = (0..WORKERS).map(|task| start("worker", task)).collect();
    let servers = servers?;
    thread::scope(|scope| {
        let begin = |(task, server)| scope.spawn(move || work(server, task));
        let running: Vec<_> = (0..WORKERS).zip(&servers).map(begin).collect();
        for (task, worker) in running.into_iter().enumerate() {
            let loss = worker.join().map_err(|_| "a worker panicked")??;
            println!("worker {task}: last loss {loss:.6}");
        }
        Ok(())
    })
}
