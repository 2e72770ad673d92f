use crate::limits::timeouts::Timeouts;
use crate::server::options::ServerOptions;
use crate::session::ClusterOptions;
use thalweg_graph::{DeviceSpec, Graph};
use thalweg_ops::{NewGraph, StateOps};
use thalweg_optim::{GradientDescent, SyncReplicas, create_global_step};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn cluster() -> Vec<Server> {
    let jobs = [("ps", 2), ("worker", 2)];
    Server::local_cluster(&jobs, ServerOptions::listening("")).unwrap()
}

/// Returns a training of two workers, with all variables on the first server.
fn training(g: &Graph) -> Synchronized<'_> {
    let on: DeviceSpec = "/job:ps/task:0".parse().unwrap();
    g.device(on, || {
        let step = create_global_step(g);
        let loss = g.variable("w", 1.0f32).read();
        SyncReplicas::new(GradientDescent::new(1.0), 2).minimize(loss, step)
    })
}

#[test]
fn only_the_task_of_the_global_step_coordinates_a_training() {
    let (tasks, g) = (cluster(), Graph::new());
    let sync = training(&g);
    Coordinator::new(&tasks[0], &sync, "worker").unwrap();
    for other in &tasks[1..] {
        let error = Coordinator::new(other, &sync, "worker").map(|_| ());
        let error = error.unwrap_err();
        assert_eq!(error.cause, Cause::Invalid);
        assert!(error.message.contains("/job:ps/task:0"), "{error}");
    }
}

#[test]
fn workers_that_are_away_for_long_or_have_finished_are_absent() {
    let (tasks, g) = (cluster(), Graph::new());
    let (sync, task) = (training(&g), tasks[0].worker());
    let mut coordinator = Coordinator::new(&tasks[0], &sync, "worker").unwrap();
    let worker = |index| ("worker".to_owned(), index);
    let mut absent = |worker_rejoin, server_recovery| {
        let timeouts = Timeouts::new().worker_rejoin(worker_rejoin);
        let timeouts = timeouts.server_recovery(server_recovery);
        let options = ClusterOptions::new().timeouts(timeouts);
        let session = Session::on(&tasks[0], &g, options).unwrap();
        let updated = coordinator.update_presence(&session);
        updated.map(|()| coordinator.turns.absent().into_iter().collect::<Vec<u32>>())
    };
    let none = Duration::ZERO;
    assert_eq!(absent(HOUR, HOUR), Ok(vec![]));
    assert_eq!(absent(none, HOUR), Ok(vec![0, 1]));
    let lost = absent(none, none).unwrap_err();
    assert_eq!(lost.cause, Cause::Silent);
    assert!(lost.message.contains("/job:worker"), "{lost}");
    // A worker with a session here is present.
    let session = task.open("m", 0, false, Some((worker(1), 1))).unwrap();
    assert_eq!(absent(none, none), Ok(vec![0]));
    task.close("m", &session);
    task.finish(worker(1));
    assert_eq!(absent(HOUR, HOUR), Ok(vec![1]));
}
