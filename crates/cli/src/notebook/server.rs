//! Programs of Jupyter: their arguments and pages.

use std::path::Path;

/// Programs of Jupyter, the preferred one first.
pub(super) const PROGRAMS: [&str; 3] = ["jupyter-lab", "jupyter-notebook", "jupyter-server"];

/// Kind of a program of Jupyter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JupyterKind {
    Lab,
    Notebook,
    Server,
}

impl JupyterKind {
    /// Kind by the name of the program.
    pub(super) fn of(program: &str) -> JupyterKind {
        let name = Path::new(program).file_name().unwrap_or_default();
        match &*name.to_string_lossy() {
            name if name.contains("lab") => JupyterKind::Lab,
            name if name.contains("notebook") => JupyterKind::Notebook,
            _ => JupyterKind::Server,
        }
    }

    /// Path of its first page.
    pub(super) fn page(self) -> &'static str {
        match self {
            JupyterKind::Lab => "/lab",
            JupyterKind::Notebook => "/tree",
            JupyterKind::Server => "/",
        }
    }
}

/// Arguments of Jupyter, which its versions have in common. The token is no argument: other users see those.
pub(super) fn arguments(address: &str, port: u16) -> Vec<String> {
    [
        "--no-browser",
        &format!("--ip={address}"),
        &format!("--port={port}"),
        // Another port would not be that of the tunnel.
        "--port-retries=0",
        "--allow-root",
    ]
    .map(str::to_owned)
    .to_vec()
}
