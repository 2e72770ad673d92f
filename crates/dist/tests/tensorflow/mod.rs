//! Runs TensorFlow's own Python client, and servers for it.

#[path = "../../../../tests/support/addresses.rs"]
mod addresses;

use std::path::Path;
use std::process::Command;

use thalweg_device::Files;
use thalweg_dist::{ClusterSpec, Server, ServerOptions};

/// Returns a Python with TensorFlow, if there is one.
fn python() -> Option<String> {
    let named = std::env::var("TENSORFLOW_PYTHON").ok();
    let python = named.unwrap_or_else(|| "python3".to_owned());
    // A check for the module is quick, an import is not.
    let look = "import importlib.util as u, sys; sys.exit(u.find_spec('tensorflow') is None)";
    let found = Command::new(&python).args(["-c", look]).status();
    found.is_ok_and(|s| s.success()).then_some(python)
}

/// Runs the client's cases against this target: all of one task, or these. `false` if there is no client.
pub fn run(target: &str, cases: &[&str]) -> bool {
    let arguments: Vec<&str> = [target].into_iter().chain(cases.iter().copied()).collect();
    run_script("client.py", &arguments)
}

/// Runs a program of TensorFlow's client. `false` if there is no client.
pub fn run_script(name: &str, arguments: &[&str]) -> bool {
    let Some(python) = python() else {
        let required = std::env::var("REQUIRE_TENSORFLOW").is_ok_and(|v| v == "1");
        assert!(
            !required,
            "no Python with TensorFlow: set TENSORFLOW_PYTHON"
        );
        eprintln!("SKIPPED: no Python with TensorFlow; set TENSORFLOW_PYTHON to one");
        return false;
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = here.join("../../tests/tensorflow_client").join(name);
    let mut command = Command::new(python);
    let output = command.arg(script).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    true
}

/// Starts a task alone.
pub fn alone() -> Server {
    Server::start(ServerOptions::listening("127.0.0.1:0")).unwrap()
}

/// Starts parameter servers, followed by workers, whose graphs may use the files of a folder.
pub fn cluster(servers: u32, workers: u32, folder: Option<&Path>) -> Vec<Server> {
    let mut addresses = addresses::free_addresses((servers + workers) as usize);
    let of_workers = addresses.split_off(servers as usize);
    let cluster = ClusterSpec::new([("ps", addresses), ("worker", of_workers)]).unwrap();
    let tasks = (0..servers).map(|i| ("ps", i));
    let tasks = tasks.chain((0..workers).map(|i| ("worker", i)));
    let start = |(job, index)| {
        let options = ServerOptions::listening("");
        let files = Files::within(folder).unwrap();
        let options = options.files(files);
        Server::new(cluster.clone(), job, index, options).unwrap()
    };
    tasks.map(start).collect()
}
