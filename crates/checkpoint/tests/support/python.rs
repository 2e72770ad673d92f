//! Runs scripts of this folder by a Python that has the packages that they need.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// A Python with this package, if there is one: TensorFlow's, or the system's.
fn python(package: &str) -> Option<String> {
    let named = std::env::var("TENSORFLOW_PYTHON").ok();
    let python = named.unwrap_or_else(|| "python3".to_owned());
    // Looking for the package is quick, importing it is not.
    let look =
        format!("import importlib.util as u, sys; sys.exit(u.find_spec('{package}') is None)");
    let found = Command::new(&python).args(["-c", &look]).status();
    found.is_ok_and(|s| s.success()).then_some(python)
}

/// The output of a script for this input, a JSON object a line; `None` if its package is not there,
/// unless `REQUIRE_` and the package's name ask for it.
pub fn asked(package: &str, script: &str, arguments: &[&str], input: &str) -> Option<Vec<Value>> {
    let Some(python) = python(package) else {
        let variable = format!("REQUIRE_{}", package.to_uppercase());
        let required = std::env::var(variable).is_ok_and(|v| v == "1");
        assert!(
            !required,
            "no Python with {package}: set TENSORFLOW_PYTHON to one"
        );
        eprintln!("SKIPPED: no Python with {package}; set TENSORFLOW_PYTHON to one");
        return None;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(script);
    let mut child = Command::new(python)
        .arg(script)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The reason of an early end is reported below.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    Some(
        said.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}
