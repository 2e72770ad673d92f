//! TensorFlow's own client, in Python, and the servers that it talks to.

#[path = "../../../../tests/support/addresses.rs"]
mod addresses;

use std::path::Path;
use std::process::Command;

use thalweg_dist::{ClusterSpec, Server, ServerOptions};

/// A Python that has TensorFlow, where there is one.
fn python() -> Option<String> {
    let named = std::env::var("TENSORFLOW_PYTHON").ok();
    let python = named.unwrap_or_else(|| "python3".to_owned());
    // Looking whether it is there is quick, and importing it is not.
    let look = "import importlib.util as u, sys; sys.exit(u.find_spec('tensorflow') is None)";
    let found = Command::new(&python).args(["-c", look]).status();
    found.is_ok_and(|s| s.success()).then_some(python)
}

/// Runs the client's cases against this target: all of one task, or these. False where there is no client.
pub fn run(target: &str, cases: &[&str]) -> bool {
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
    let client = here.join("../../tests/tensorflow_client/client.py");
    let mut command = Command::new(python);
    let output = command
        .arg(client)
        .arg(target)
        .args(cases)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    true
}

/// A task alone.
pub fn alone() -> Server {
    Server::start(ServerOptions::listening("127.0.0.1:0")).unwrap()
}

/// A worker, and its parameter server.
pub fn cluster() -> [Server; 2] {
    let addresses = addresses::free_addresses(2);
    let tasks = ["ps", "worker"].into_iter().zip(addresses.chunks(1));
    let cluster = ClusterSpec::new(tasks).unwrap();
    ["worker", "ps"].map(|job| {
        let options = ServerOptions::listening("");
        Server::new(cluster.clone(), job, 0, options).unwrap()
    })
}
