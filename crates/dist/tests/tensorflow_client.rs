//! TensorFlow's own client, in Python, against a server.

use std::path::Path;
use std::process::Command;

use thalweg_dist::{Server, ServerOptions};

/// A Python that has TensorFlow, where there is one.
fn python() -> Option<String> {
    let named = std::env::var("TENSORFLOW_PYTHON").ok();
    let python = named.unwrap_or_else(|| "python3".to_owned());
    // Looking whether it is there is quick, and importing it is not.
    let look = "import importlib.util as u, sys; sys.exit(u.find_spec('tensorflow') is None)";
    let found = Command::new(&python).args(["-c", look]).status();
    found.is_ok_and(|s| s.success()).then_some(python)
}

#[test]
fn programs_of_tensorflow_run_on_a_server() {
    let Some(python) = python() else {
        let required = std::env::var("REQUIRE_TENSORFLOW").is_ok_and(|v| v == "1");
        assert!(
            !required,
            "no Python with TensorFlow: set TENSORFLOW_PYTHON"
        );
        eprintln!("SKIPPED: no Python with TensorFlow; set TENSORFLOW_PYTHON to one");
        return;
    };
    let server = Server::start(ServerOptions::listening("127.0.0.1:0")).unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let client = here.join("../../tests/tensorflow_client/client.py");
    let mut command = Command::new(python);
    command.arg(client).arg(server.target());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    server.shutdown();
    server.join().unwrap();
}
