//! Tests of TensorFlow's own Python client against a server.

mod tensorflow;

use std::path::Path;

use tensorflow::{alone, cluster, run, run_script};
use thalweg_device::Files;
use thalweg_dist::{Server, ServerOptions};

#[test]
fn programs_of_tensorflow_run_on_a_server() {
    let server = alone();
    run(&server.target(), &[]);
    server.shutdown();
    server.join().unwrap();
}

#[test]
fn programs_of_tensorflow_run_on_a_cluster() {
    let tasks = cluster(1, 1, None);
    let worker = tasks.last().unwrap();
    let cases = [
        "a_parameter_server",
        "pieces_over_tasks",
        "variables_of_another_task",
        "partial_runs",
        "session_tensors",
        "linear_regression",
        "loops_and_functions",
        "a_graph_that_grows",
        "errors_are_those_of_tensorflow",
        "unneeded_nodes_stop_no_step",
        "reference_variables",
        "deadlines_and_closing",
        "large_values",
    ];
    run(&worker.target(), &cases);
}

/// Runs half of the programs with one of these in their names on two workers and two parameter servers. With a
/// folder, programs save there and resume from their checkpoints.
fn monitored(cases: &[&str], folder: Option<&Path>) {
    let tasks = cluster(2, 2, folder);
    let workers: Vec<String> = tasks[2..].iter().map(|w| w.target()).collect();
    let mut arguments: Vec<&str> = workers.iter().map(String::as_str).collect();
    arguments.extend(["--half", "--only"]);
    arguments.extend(cases);
    if let Some(folder) = folder {
        arguments.extend(["--checkpoints", folder.to_str().unwrap()]);
    }
    run_script("monitored.py", &arguments);
}

#[test]
fn monitored_training_sessions_of_tensorflow_run_on_a_cluster() {
    monitored(&["MonitoredTrainingSession"], None);
}

#[test]
fn supervisors_of_tensorflow_run_on_a_cluster() {
    monitored(&["Supervisor"], None);
}

#[test]
fn a_tensorflow_training_resumes_from_its_checkpoint_when_the_servers_restart() {
    let folder = std::env::temp_dir().join(format!("thalweg-monitored-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    monitored(&["Session-sync-2ps", "Supervisor-sync-2ps"], Some(&folder));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn graphs_of_tensorflow_that_bring_their_input_read_the_files_of_a_server() {
    let folder = std::env::temp_dir().join(format!("thalweg-input-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let files = Files::within([&folder]).unwrap();
    let server = Server::start(ServerOptions::listening("127.0.0.1:0").files(files)).unwrap();
    run_script("input.py", &[&server.target(), folder.to_str().unwrap()]);
    server.shutdown();
    server.join().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}
