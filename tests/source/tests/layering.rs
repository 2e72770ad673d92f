//! Layering of the crates: dependencies run one way, and petgraph stays inside the graph crate.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The crates of the workspace, each before those that may use it.
const LAYERS: &[&str] = &[
    "thalweg-estimate",
    "thalweg-study",
    "thalweg-launch-env",
    "thalweg-tensor",
    "thalweg-image",
    "thalweg-checkpoint",
    "thalweg-data",
    "thalweg-graph",
    "thalweg-graphdef",
    "thalweg-cpu",
    "thalweg-device",
    "thalweg-protection",
    "thalweg-collective",
    "thalweg-launch",
    "thalweg-kernels",
    "thalweg-ops",
    "thalweg-layers",
    "thalweg-optim",
    "thalweg-models",
    "thalweg-plan",
    "thalweg-session",
    "thalweg-summary",
    "thalweg-train",
    "thalweg-hvd",
    "thalweg-stats",
    "thalweg-dist",
    "thalweg-parallel",
    "thalweg-simulate",
    "thalweg",
    "thalweg-cli",
    "thalweg-examples",
    "focal-loss",
    "cnn_benchmarks",
    "thalweg-tests",
    "thalweg-source-tests",
    "thalweg-benches",
];

/// The dependencies of each crate of the workspace, without dev-dependencies; none for `thalweg-tests`.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let of = |package: &Value| {
        let all = package["dependencies"].as_array().unwrap();
        let tests = package["name"] == "thalweg-tests";
        let used = all.iter().filter(|d| d["kind"] != "dev" && !tests);
        (
            text(&package["name"]),
            used.map(|d| text(&d["name"])).collect(),
        )
    };
    metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(of)
        .collect()
}

#[test]
fn dependencies_run_one_way() {
    let dependencies = dependencies();
    let layer = |name: &str| LAYERS.iter().position(|l| *l == name);
    for (name, used) in &dependencies {
        let own = layer(name).unwrap_or_else(|| panic!("{name} is in no layer: add it to LAYERS"));
        for other in used.iter().filter_map(|d| layer(d)) {
            assert!(other < own, "{name} must not use {}", LAYERS[other]);
        }
    }
    assert_eq!(
        dependencies.len(),
        LAYERS.len(),
        "{:?}",
        dependencies.keys()
    );
}

#[test]
fn graphdef_depends_on_graph_and_tensor_only() {
    let used = &dependencies()["thalweg-graphdef"];
    let own: Vec<&String> = used.iter().filter(|d| d.starts_with("thalweg")).collect();
    assert_eq!(own, ["thalweg-graph", "thalweg-tensor"]);
}

#[test]
fn graph_and_cpu_depend_on_tensor_only() {
    for name in ["thalweg-graph", "thalweg-cpu"] {
        let used = &dependencies()[name];
        let own: Vec<&String> = used.iter().filter(|d| d.starts_with("thalweg")).collect();
        assert_eq!(own, ["thalweg-tensor"], "{name}");
    }
}

#[test]
fn estimates_and_environments_use_no_other_crate() {
    for name in ["thalweg-estimate", "thalweg-launch-env"] {
        let used = &dependencies()[name];
        let own = used.iter().find(|d| d.starts_with("thalweg"));
        assert_eq!(own, None, "{name}");
    }
}

#[test]
fn only_file_formats_and_dist_use_protobuf() {
    for (name, used) in dependencies() {
        let knows = used.iter().any(|d| d.starts_with("prost"));
        let may = [
            "thalweg-checkpoint",
            "thalweg-summary",
            "thalweg-graphdef",
            "thalweg-dist",
        ]
        .contains(&&*name);
        assert_eq!(knows, may, "{name}");
    }
}

#[test]
fn only_dist_uses_the_network() {
    for (name, used) in dependencies() {
        let knows = used.iter().any(|d| d == "tokio" || d.starts_with("tonic"));
        // An example is a server of HTTP.
        let may = ["thalweg-dist", "thalweg-examples"].contains(&&*name);
        assert_eq!(knows, may, "{name}");
    }
}

#[test]
fn only_the_graph_crate_uses_petgraph() {
    for (name, used) in dependencies() {
        let knows = used.iter().any(|d| d == "petgraph");
        assert_eq!(knows, name == "thalweg-graph", "{name}");
    }
}

fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// The public items of a file, each up to its body: signatures and fields.
fn public_items(source: &str) -> impl Iterator<Item = String> {
    let lines: Vec<String> = source.lines().map(|l| l.trim().to_owned()).collect();
    let starts: Vec<usize> = (0..lines.len())
        .filter(|&i| lines[i].starts_with("pub "))
        .collect();
    starts.into_iter().map(move |start| {
        let ends = |l: &String| l.ends_with(['{', ';', ',', '}']);
        let end = (start..lines.len())
            .find(|&i| ends(&lines[i]))
            .unwrap_or(start);
        lines[start..=end].join(" ")
    })
}

#[test]
fn petgraph_is_in_no_public_signature() {
    let mut files = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/graph/src");
    sources(&root, &mut files);
    assert!(files.len() > 10);
    // The names that the crate imports from petgraph, and petgraph's own name.
    let types = [
        "petgraph",
        "DiGraph",
        "NodeIndex",
        "EdgeIndex",
        "EdgeRef",
        "Direction",
    ];
    let mut items = 0;
    for file in files {
        for item in public_items(&std::fs::read_to_string(&file).unwrap()) {
            items += 1;
            let named = types.iter().find(|t| item.contains(**t));
            assert!(named.is_none(), "{}: {item}", file.display());
        }
    }
    assert!(items > 100, "only {items} public items were found");
}

#[test]
fn libraries_have_no_global_or_thread_local_state() {
    let mut files = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    sources(&root, &mut files);
    // Programs of tests have allocators that count; only fuzzing builds the files in memory. A thread of `Threads` is
    // marked, because it may block where a thread of the network may not.
    let exceptions = [
        "checkpoint/src/disk/memory.rs",
        "dist/src/runtime/threads.rs",
    ];
    let is_library = |file: &PathBuf| {
        let file = file.strip_prefix(&root).unwrap();
        let is_test = file.components().any(|c| c.as_os_str() == "tests");
        !is_test && !exceptions.iter().any(|e| file.ends_with(e))
    };
    let files: Vec<PathBuf> = files.into_iter().filter(is_library).collect();
    assert!(files.len() > 300, "only {} files were found", files.len());
    for file in files {
        let source = std::fs::read_to_string(&file).unwrap();
        let library = source.split("#[cfg(test)]").next().unwrap_or_default();
        for banned in ["thread_local!", "static mut ", "lazy_static!"] {
            assert!(!library.contains(banned), "{}: {banned}", file.display());
        }
        // No mutable state in statics, in whatever container.
        let statics = library.lines().map(str::trim_start).filter(|line| {
            let line = line
                .trim_start_matches("pub ")
                .trim_start_matches("pub(crate) ");
            line.trim_start_matches("pub(super) ")
                .starts_with("static ")
        });
        for line in statics {
            for keeper in [
                "OnceLock<",
                "LazyLock<",
                "Mutex<",
                "RwLock<",
                "Atomic",
                "Cell<",
            ] {
                assert!(!line.contains(keeper), "{}: {line}", file.display());
            }
        }
    }
}
