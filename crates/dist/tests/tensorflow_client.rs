//! TensorFlow's own client, in Python, against a server.

mod tensorflow;

use tensorflow::{alone, cluster, run, run_script};

#[test]
fn programs_of_tensorflow_run_on_a_server() {
    let server = alone();
    run(&server.target(), &[]);
    server.shutdown();
    server.join().unwrap();
}

#[test]
fn programs_of_tensorflow_run_on_a_cluster() {
    let tasks = cluster(1, 1);
    let worker = tasks.last().unwrap();
    let cases = [
        "a_parameter_server",
        "pieces_over_tasks",
        "variables_of_another_task",
        "partial_runs",
        "linear_regression",
        "loops_and_functions",
        "a_graph_that_grows",
        "errors_are_those_of_tensorflow",
        "deadlines_and_closing",
        "large_values",
    ];
    run(&worker.target(), &cases);
}

/// Two workers and two parameter servers under a program whose cases have these names.
fn monitored(cases: &str) {
    let tasks = cluster(2, 2);
    let workers: Vec<String> = tasks[2..].iter().map(|w| w.target()).collect();
    let [first, second] = &workers[..] else {
        panic!("there are two workers");
    };
    run_script("monitored.py", &[first, second, "--only", cases]);
}

#[test]
fn monitored_training_sessions_of_tensorflow_run_on_a_cluster() {
    monitored("MonitoredTrainingSession");
}

#[test]
fn supervisors_of_tensorflow_run_on_a_cluster() {
    monitored("Supervisor");
}
