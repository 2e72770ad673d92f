//! Misuse that must not compile, and the compiler's advice: each program of `tests/misuse` lists lines of the message.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The compiler whose messages the programs list.
const COMPILER: &str = "rustc 1.95";

/// The library `thalweg` that was built last. The crates below it are found by the hashes in it.
fn library(folder: &Path) -> PathBuf {
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|f| f.unwrap().path());
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("libthalweg-") && name.ends_with(".rlib")
    };
    let built = |path: &PathBuf| -> SystemTime { path.metadata().unwrap().modified().unwrap() };
    files.filter(is_library).max_by_key(built).unwrap()
}

#[test]
fn misuse_does_not_compile_and_the_compiler_gives_advice() {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(&compiler).arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    if !version.starts_with(COMPILER) {
        assert!(std::env::var_os("REQUIRE_MISUSE").is_none(), "{version}");
        eprintln!("SKIPPED: the expected messages are those of {COMPILER}, this is {version}");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let libraries = program.parent().unwrap();
    let library = library(libraries);
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("misuse");
    let mut count = 0;
    for file in std::fs::read_dir(programs).unwrap() {
        let file = file.unwrap().path();
        let output = Command::new(&compiler)
            .args(["--edition", "2024", "--emit", "metadata", "--out-dir"])
            .arg(env!("CARGO_TARGET_TMPDIR"))
            .arg("-L")
            .arg(format!("dependency={}", libraries.display()))
            .arg("--extern")
            .arg(format!("thalweg={}", library.display()))
            .arg(&file)
            .output()
            .unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{} compiles", file.display());
        let source = std::fs::read_to_string(&file).unwrap();
        for line in source.lines().filter_map(|l| l.strip_prefix("//~ ")) {
            assert!(
                message.contains(line),
                "{}: no {line:?} in\n{message}",
                file.display()
            );
            count += 1;
        }
    }
    assert!(count >= 6, "{count} lines are expected");
}
