//! The program `gpu_run` on the emulated card: every part passes, and a killed run resumes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use thalweg_tests::emulated::has_compiler;
use thalweg_tests::root;

use super::fake_cuda::{fakes, use_fakes};

#[path = "../gpu_run/shares.rs"]
mod shares;

/// Timeout of a run: far more than it needs.
const RUN_TIMEOUT: Duration = Duration::from_secs(500);

struct GpuRun {
    fakes: PathBuf,
    out: PathBuf,
}

impl GpuRun {
    fn new(test: &str) -> GpuRun {
        let fakes = fakes(test, &["cuda", "nvrtc", "cublasLt", "cudnn", "nccl"]);
        let out = fakes.join("results");
        GpuRun { fakes, out }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_gpu_run")), arguments)
    }

    fn command_of(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(["--small", "--seconds", "7200", "--out"]);
        command.arg(&self.out);
        command.args(arguments);
        use_fakes(&mut command, &self.fakes);
        command.env("FAKE_CUDA_FOLDER", &self.fakes);
        command.env("FAKE_CUDA_EMULATOR", root().join("tests/emulator"));
        command.env("THALWEG_CACHE", self.fakes.join("cache"));
        command
    }

    /// The complete lines.
    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.out.join("results.jsonl")).unwrap_or_default();
        text.lines()
            .filter_map(|l| serde_json::from_str(l).ok())
            .collect()
    }

    fn units(&self) -> Vec<String> {
        let unit = |l: &Value| l["unit"].as_str().unwrap().to_owned();
        self.lines().iter().map(unit).collect()
    }
}

fn log(out: &Path) -> String {
    std::fs::read_to_string(out.join("workers.log")).unwrap_or_default()
}

#[test]
fn every_part_of_gpu_run_passes_on_the_emulated_card() {
    if !has_compiler() {
        return;
    }
    let run = GpuRun::new("ten_minutes");
    let output = run.command(&["--each", "1"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", log(&run.out));
    let parts: BTreeSet<String> = run
        .units()
        .iter()
        .map(|unit| unit.split('/').next().unwrap().to_owned())
        .collect();
    assert_eq!(parts.len(), 7, "{said}");
    assert!(
        run.lines().iter().all(|l| l["result"] == "passed"),
        "{said}"
    );
    assert!(run.out.join("results.md").exists());
    // The rest of the first part; tools of NVIDIA are not there.
    assert!(
        run.command(&["--only", "card/"])
            .status()
            .unwrap()
            .success()
    );
    for unit in ["versions", "clocks", "properties"] {
        let unit = format!("card/{unit}");
        let lines = run.lines();
        let line = lines.iter().find(|l| l["unit"] == *unit).expect(&unit);
        assert!(
            line["result"] == "passed" || unit == "card/clocks",
            "{line}"
        );
    }
    let only = ["--only", "smoke/nccl"];
    assert!(run.command(&only).status().unwrap().success());
    let lines = run.lines();
    let last = lines.last().unwrap();
    assert_eq!(
        (&last["unit"], &last["result"]),
        (&"smoke/nccl".into(), &"passed".into())
    );
    // Nothing is left to do.
    let before = run.units();
    assert!(run.command(&["--each", "1"]).status().unwrap().success());
    assert_eq!(run.units(), before);
}

#[test]
#[ignore = "slow: builds the release, and the machine code of all kernels"]
fn the_folder_for_a_machine_with_a_gpu_runs_on_the_emulated_card() {
    if !has_compiler() {
        return;
    }
    let run = GpuRun::new("ten_minutes_folder");
    let folder = run.fakes.join("folder");
    let script = Command::new(root().join("tests/gpu_folder.sh"))
        .arg(&folder)
        .status();
    assert!(script.unwrap().success());
    // The fake of the driver loads what the fake of NVRTC compiles.
    let none = run.fakes.join("no cubins");
    std::fs::create_dir_all(&none).unwrap();
    let mut command = run.command_of(
        &folder.join("gpu_run"),
        &["--only", "smoke/", "--each", "3"],
    );
    let status = command.env("THALWEG_CUBINS", none).status().unwrap();
    assert!(status.success(), "{}", log(&run.out));
    let lines = run.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    let commit = Command::new("git")
        .args(["rev-parse", "HEAD"])
        .current_dir(root())
        .output()
        .unwrap();
    let commit = String::from_utf8(commit.stdout).unwrap();
    for line in &lines {
        assert_eq!(line["result"], "passed");
        let noted = line["commit"].as_str().unwrap();
        assert!(noted.starts_with(commit.trim()), "{noted}");
    }
}

#[test]
fn a_killed_gpu_run_resumes() {
    if !has_compiler() {
        return;
    }
    let run = GpuRun::new("ten_minutes_killed");
    let arguments = ["--only", "smoke/", "--each", "6"];
    let mut child = run.command(&arguments).spawn().unwrap();
    let began = Instant::now();
    while run.lines().len() < 2 && began.elapsed() < RUN_TIMEOUT {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = run.units();
    assert!(!before.is_empty());
    // As if it had been killed while it wrote.
    let file = run.out.join("results.jsonl");
    let torn = std::fs::read_to_string(&file).unwrap() + "{\"unit\":\"smoke/Co";
    std::fs::write(&file, torn).unwrap();
    let output = run.command(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", log(&run.out));
    let after = run.units();
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.len(), 6);
    assert_eq!(after.iter().collect::<BTreeSet<_>>().len(), 6, "{after:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().count(), 6, "the torn line is gone: {text}");
}

#[test]
fn a_unit_that_dies_fails_and_the_run_continues() {
    if !has_compiler() {
        return;
    }
    let run = GpuRun::new("ten_minutes_dies");
    // A driver that exits the process at the first launch.
    let mut command = run.command(&["--only", "smoke/", "--each", "3"]);
    let output = command.env("FAKE_CUDA_DIES", "1").output().unwrap();
    assert!(!output.status.success());
    let lines = run.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    for line in &lines {
        assert_eq!(line["result"], "failed");
        let why = line["found"]["why"].as_str().unwrap();
        assert!(why.contains("the process ended with"), "{why}");
    }
}

#[test]
fn a_run_ends_after_three_units_in_a_row_that_hang_and_their_children_end_with_them() {
    if !has_compiler() {
        return;
    }
    let run = GpuRun::new("ten_minutes_hangs");
    let children = run.fakes.join("children");
    let mut command = run.command(&["--only", "smoke/", "--each", "6", "--limit", "5"]);
    let status = command.env("FAKE_CUDA_HANGS", &children).status().unwrap();
    assert!(!status.success());
    let lines = run.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    for line in &lines {
        let why = line["found"]["why"].as_str().unwrap();
        assert!(why.contains("it was stopped after 5 s"), "{why}");
    }
    // A child that is gone, or that nobody has waited for yet, sleeps no more.
    let children = std::fs::read_to_string(children).unwrap();
    assert_eq!(children.lines().count(), 3, "{children}");
    for child in children.lines() {
        let status = std::fs::read_to_string(format!("/proc/{child}/status"));
        let gone = status.map_or(true, |s| s.contains("State:\tZ"));
        assert!(gone, "{child}");
    }
}

#[test]
fn the_first_use_of_a_peer_and_an_emulated_card_have_more_time() {
    let of = |first, user, emulated| shares::unit_limit(20, first, user, emulated).as_secs();
    assert_eq!((of(false, None, false), of(true, None, false)), (20, 90));
    assert_eq!((of(false, None, true), of(true, Some(7), true)), (400, 7));
    assert_eq!(shares::unit_limit(100, true, None, false).as_secs(), 100);
}

#[test]
fn the_time_of_a_convolution_without_a_library_engine_is_kept() {
    if !has_compiler() {
        return;
    }
    let run = GpuRun::new("ten_minutes_falls_back");
    for only in ["convolutions/", "training/deep_mnist NHWC"] {
        let mut command = run.command(&["--only", only, "--each", "1"]);
        let status = command.env("FAKE_CUDNN_FAILS", "1").status().unwrap();
        assert!(status.success());
    }
    let lines = run.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in &lines {
        assert_eq!(line["result"], "fell back");
        let fallbacks = line["found"]["fallbacks"].as_array().unwrap();
        assert!(!fallbacks.is_empty());
        let of_convolution = &line["found"]["forward"]["seconds"];
        let of_training = &line["found"]["seconds"];
        assert!(of_convolution.is_f64() || of_training.is_f64(), "{line}");
    }
}

#[test]
fn a_short_run_keeps_the_time_of_training() {
    // Of 560 seconds two parts keep 195.
    let of = |seconds, is_kept, run| shares::share(seconds, is_kept, 195, run).as_secs();
    assert_eq!(
        (of(180, true, shares::FULL_RUN_SECONDS), of(120, false, 560)),
        (180, 120)
    );
    assert_eq!((of(180, true, 300), of(120, false, 300)), (180, 34));
    assert_eq!(of(120, false, 100), 0);
}
