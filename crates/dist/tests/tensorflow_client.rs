//! TensorFlow's own client, in Python, against a server.

mod tensorflow;

use tensorflow::{alone, cluster, run};

#[test]
fn programs_of_tensorflow_run_on_a_server() {
    let server = alone();
    run(&server.target(), &[]);
    server.shutdown();
    server.join().unwrap();
}

#[test]
fn programs_of_tensorflow_run_on_a_cluster() {
    let [worker, _ps] = cluster();
    let cases = [
        "a_parameter_server",
        "pieces_over_tasks",
        "partial_runs",
        "linear_regression",
        "loops_and_functions",
        "a_graph_that_grows",
        "errors_are_those_of_tensorflow",
        "deadlines_and_closing",
        "large_values",
    ];
    run(&worker.target(), &cases);
    worker.shutdown();
    worker.join().unwrap();
}
