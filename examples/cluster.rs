//! A cluster in one process: two workers train one model at the same time, with its variables on a parameter
//! server. `thalweg launch` starts the same tasks as processes, on this machine or on others.

use thalweg::dist::{ClusterError, ClusterOptions, Server, ServerOptions, Session};
use thalweg::{layers::dense, prelude::*};
use thalweg_examples::output;

/// A worker: draws random points, and fits the plane 2 a - b + 1.
fn work(server: &Server) -> Result<(), ClusterError> {
    let g = Graph::new();
    let place = ReplicaDeviceSetter::new(1).worker_device(server.device());
    let (train, loss) = g.device(place, || {
        let x = g.random_uniform([8, 2], 0.0, 1.0, DType::F32, None);
        let y = x.matmul(g.constant([[2.0f32], [-1.0]])) + 1.0;
        let loss = (dense(1).on(x) - y).square().mean();
        (GradientDescent::new(0.1).minimize(loss), loss)
    });
    let session = Session::on(server, &g, ClusterOptions::new())?;
    if server.task().1 == 0 {
        session.run(g.initializers(), [])?;
    }
    while !session.run::<bool>(g.all_initialized(), [])? {}
    let mut last = f32::NAN;
    for _ in 0..500 {
        (last, ()) = session.run((loss, train), [])?;
    }
    output::line(format_args!(
        "worker {}: last loss {last:.6}",
        server.task().1
    ));
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tasks = Server::local_cluster(&[("ps", 1), ("worker", 2)], ServerOptions::listening(""))?;
    std::thread::scope(|scope| {
        let begin = |worker| scope.spawn(move || work(worker));
        let workers: Vec<_> = tasks[1..].iter().map(begin).collect();
        let mut ends = workers.into_iter().map(|w| w.join().expect("no panic"));
        Ok(ends.try_for_each(|end| end)?)
    })
}
