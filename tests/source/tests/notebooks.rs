//! Notebooks: each has the outputs of a run without errors, and names nothing of the machine that it ran on.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Largest size of a notebook with its pictures, in bytes.
const MAX_SIZE: usize = 300_000;

/// Beginnings of paths that are those of a machine.
const MACHINE_PATHS: [&str; 6] = ["/home/", "/root", "/work/", "/tmp/", "/Users/", "/var/"];

fn notebooks() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../notebooks");
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|kind| kind == "ipynb"));
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path, text)
    };
    paths.map(read).collect()
}

/// Code cells of a notebook.
fn code(notebook: &Value) -> Vec<&Value> {
    let cells = notebook["cells"].as_array().unwrap();
    cells.iter().filter(|c| c["cell_type"] == "code").collect()
}

#[test]
fn notebooks_have_the_outputs_of_one_run_without_errors() {
    let all = notebooks();
    assert!(all.len() >= 5);
    for (path, text) in all {
        let name = path.display();
        assert!(text.len() < MAX_SIZE, "{name} has {} bytes", text.len());
        let notebook: Value = serde_json::from_str(&text).unwrap();
        let cells = code(&notebook);
        let counts: Vec<u64> = cells
            .iter()
            .map(|cell| cell["execution_count"].as_u64().unwrap_or(0))
            .collect();
        let order: Vec<u64> = (1..=cells.len() as u64).collect();
        assert_eq!(counts, order, "{name}: run notebooks/run");
        let outputs = |cell: &Value| cell["outputs"].as_array().unwrap().clone();
        let outputs: Vec<Value> = cells.into_iter().flat_map(outputs).collect();
        let is_picture = |output: &Value| {
            let data = &output["data"];
            data["image/png"].is_string() || !data["image/svg+xml"].is_null()
        };
        assert!(outputs.iter().any(is_picture), "{name} has no picture");
        for output in outputs {
            assert_ne!(output["output_type"], "error", "{name}: {output}");
            assert_ne!(output["name"], "stderr", "{name}: {output}");
        }
    }
}

#[test]
fn notebooks_name_no_path_of_a_machine() {
    for (path, text) in notebooks() {
        let mut notebook: Value = serde_json::from_str(&text).unwrap();
        // The letters of a picture in base64 may be those of a path.
        for cell in notebook["cells"].as_array_mut().unwrap() {
            let outputs = cell.get_mut("outputs").and_then(Value::as_array_mut);
            for output in outputs.into_iter().flatten() {
                if let Some(data) = output.get_mut("data").and_then(Value::as_object_mut) {
                    data.remove("image/png");
                }
            }
        }
        let text = notebook.to_string();
        for part in MACHINE_PATHS {
            assert!(!text.contains(part), "{}: {part}", path.display());
        }
    }
}
