//! A script of Python that writes models, and checks what Thalweg makes of them.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A running script of this folder.
pub struct OracleProcess {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl OracleProcess {
    /// Starts a script with the folders of its models and of Thalweg's, and waits until it has written its own.
    pub fn start(script: &str, folders: [&Path; 2]) -> Option<OracleProcess> {
        let python = python()?;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exported_models");
        let mut process = Command::new(python)
            .arg(folder.join(script))
            .args(folders)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut written = said.by_ref().map_while(Result::ok);
        assert!(written.any(|line| line == "written"), "its error is above");
        Some(OracleProcess { process, said })
    }

    /// Lets it check Thalweg's models, and waits for its end.
    pub fn check(mut self) {
        writeln!(self.process.stdin.take().unwrap(), "check").unwrap();
        let said = self.said.map_while(Result::ok);
        said.for_each(|line| println!("{line}"));
        assert!(self.process.wait().unwrap().success(), "its error is above");
    }
}

/// Finds a Python that has TensorFlow.
fn python() -> Option<String> {
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
