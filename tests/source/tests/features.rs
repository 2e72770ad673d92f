//! Features of the facade: the number of crates that a small program builds.

use std::collections::BTreeSet;
use std::process::Command;

/// The packages that a program with this crate and these features builds, the crate included.
fn packages(features: &[&str]) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--prefix", "none", "-p", "thalweg"])
        .args(["--edges", "normal,build"])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = String::from_utf8(output.stdout).unwrap();
    // A line is a name, a version, and marks.
    let package = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    lines
        .lines()
        .map(package)
        .filter(|p| !p.is_empty())
        .collect()
}

#[test]
fn a_small_program_builds_fewer_than_65_crates() {
    let small = packages(&["--no-default-features"]);
    let all = packages(&[]);
    println!(
        "crates without default features: {}, with: {}",
        small.len(),
        all.len()
    );
    assert!(small.len() < 65, "{}: {small:?}", small.len());
    assert!(small.is_subset(&all));
}
