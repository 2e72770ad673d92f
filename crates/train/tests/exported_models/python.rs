//! A Python with TensorFlow, for tests.

use std::process::Command;

/// Finds a Python that has TensorFlow.
pub fn with_tensorflow() -> Option<String> {
    let named = std::env::var("TENSORFLOW_PYTHON").ok();
    let python = named.unwrap_or_else(|| "python3".to_owned());
    let look = "import importlib.util as u, sys; sys.exit(u.find_spec('tensorflow') is None)";
    let found = Command::new(&python).args(["-c", look]).status();
    if found.is_ok_and(|s| s.success()) {
        return Some(python);
    }
    let required = std::env::var("REQUIRE_TENSORFLOW").is_ok_and(|v| v == "1");
    assert!(
        !required,
        "no Python with TensorFlow: set TENSORFLOW_PYTHON"
    );
    eprintln!("SKIPPED: no Python with TensorFlow; set TENSORFLOW_PYTHON to one");
    None
}
