//! The way to a card through CUDA's own libraries, where both are fakes that this test compiles: a
//! driver whose card is the processor, and a compiler for it. What a session does with them, and
//! what it says where they fail.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::emulated::is_there;
use support::root;
use thalweg::prelude::*;
use thalweg::session::GpuOptions;

/// Set in the process that has the fakes.
const INSIDE: &str = "THALWEG_FAKE_CUDA";

/// A folder with the fakes of these libraries.
fn fakes(test: &str, libraries: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("fake_cuda")
        .join(test);
    // What an earlier run has left there is of an earlier source, perhaps.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for library in libraries {
        let (library, define) = match library.strip_suffix(" without functions") {
            Some(name) => (name, "-DWITHOUT_FUNCTIONS"),
            None => (*library, "-DWHOLE"),
        };
        let source = root().join(format!("tests/fake_cuda/{library}.cpp"));
        let mut compiler = Command::new("g++");
        compiler.args(["-std=c++17", "-O1", "-shared", "-fPIC", define]);
        compiler.arg(source);
        compiler
            .arg("-o")
            .arg(folder.join(format!("lib{library}.so")));
        let compiled = compiler.output().unwrap();
        assert!(
            compiled.status.success(),
            "{}",
            String::from_utf8_lossy(&compiled.stderr)
        );
    }
    folder
}

/// Runs test `inside` of this program with the fakes that are in a folder.
fn run_with(folder: &Path, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "inside", "--nocapture"]);
    command.env(INSIDE, "1").env("LD_LIBRARY_PATH", folder);
    command.env("FAKE_CUDA_FOLDER", folder);
    command.env("FAKE_CUDA_EMULATOR", root().join("tests/emulator"));
    command.env("THALWEG_CACHE", folder.join("cache"));
    command.envs(variables.iter().copied());
    command.output().unwrap()
}

/// The line that `inside` prints of what came of it.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|l| l.split_once("inside: "));
    let (_, said) = line.unwrap_or_else(|| {
        panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
    });
    said.to_owned()
}

/// What is run with the fakes: a line is fitted on two parts of card 0.
#[test]
fn inside() {
    if std::env::var(INSIDE).is_err() {
        return;
    }
    let fit = || -> Result<String, SessionError> {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [-1]);
        let y = g.placeholder("y", DType::F32, [-1]);
        let (w, loss) = g.device("/gpu:0", || {
            let w = g.variable("w", 0.5f32);
            (w, (x * w.value() - y).square().mean())
        });
        let train = GradientDescent::new(0.05).minimize(loss);
        let twice = g.device("/gpu:1", || loss + loss);
        let mut options = SessionOptions::with_gpus(2);
        let card = std::env::var("CARD").map_or(0, |c| c.parse().unwrap());
        options.gpus = vec![GpuOptions::card(card); 2];
        options.gpus[1].memory_fraction = Some(0.5);
        let session = Session::with_options(&g, options)?;
        session.run(g.initializers(), [])?;
        let mut step = session.callable((twice, train), &[x, y])?;
        let feeds: [Tensor; 2] = [[1.0f32, 2.0, 3.0].into(), [2.0f32, 4.0, 6.0].into()];
        for _ in 0..40 {
            step.call(&feeds)?;
        }
        let w = session.run(w, [])?.scalar::<f32>(0)?;
        Ok(format!("w is {w:.3}"))
    };
    // The harness begins a line of its own.
    match fit() {
        Ok(text) => println!("\ninside: {text}"),
        Err(e) => println!("\ninside: {e}"),
    }
}

#[test]
fn a_session_trains_through_the_driver_and_the_compiler() {
    if !is_there() {
        return;
    }
    let folder = fakes("trains", &["cuda", "nvrtc"]);
    assert_eq!(said(&run_with(&folder, &[])), "w is 2.000");
    let programs = || {
        let names = std::fs::read_dir(&folder).unwrap();
        let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|n| n.starts_with("program-")).count()
    };
    let compiled = programs();
    assert!(compiled > 0);
    // What was compiled is found again, by another process.
    assert_eq!(said(&run_with(&folder, &[])), "w is 2.000");
    assert_eq!(programs(), compiled);
}

#[test]
fn what_is_missing_or_too_old_or_fails_is_said() {
    if !is_there() {
        return;
    }
    let folder = fakes("fails", &["cuda", "nvrtc"]);
    let cases: [(&[(&str, &str)], &str); 8] = [
        (
            &[("FAKE_CUDA_CARDS", "0")],
            "the driver finds no GPU: see what `nvidia-smi`",
        ),
        (
            &[("CARD", "3")],
            "there is no GPU number 3: the driver finds 1, counted from 0",
        ),
        (
            &[("FAKE_CUDA_VERSION", "11040")],
            "the driver is one for CUDA 11.4, and CUDA 12.0 is the least: update the NVIDIA driver",
        ),
        (&[("FAKE_CUDA_BYTES", "64")], "GPU:0 has no memory"),
        (
            &[("FAKE_CUDA_FAILS", "cuDevicePrimaryCtxRetain")],
            "the driver could not make a context: CUDA_ERROR_OUT_OF_MEMORY",
        ),
        (
            &[("FAKE_CUDA_FAILS", "cuModuleLoadData")],
            "the driver could not load kernels: CUDA_ERROR_LAUNCH_FAILED",
        ),
        (
            &[("FAKE_CUDA_FAILS", "cuLaunchKernel")],
            "the driver could not launch a kernel: CUDA_ERROR_LAUNCH_FAILED",
        ),
        (
            &[("FAKE_CUDA_FAILS", "cuStreamSynchronize")],
            "the driver could not run what it was handed: CUDA_ERROR_LAUNCH_FAILED",
        ),
    ];
    for (variables, expected) in cases {
        let said = said(&run_with(&folder, variables));
        assert!(said.contains(expected), "{variables:?}: {said}");
    }
}

#[test]
fn each_library_is_missing_by_itself() {
    if !is_there() {
        return;
    }
    let without_driver = fakes("without_driver", &["nvrtc"]);
    let text = said(&run_with(&without_driver, &[]));
    assert!(
        text.contains("the NVIDIA driver is missing: looked for libcuda.so"),
        "{text}"
    );
    let without_compiler = fakes("without_compiler", &["cuda"]);
    let text = said(&run_with(&without_compiler, &[]));
    assert!(
        text.contains("NVRTC, the compiler of CUDA kernels, is missing"),
        "{text}"
    );
    assert!(text.contains("pip install nvidia-cuda-nvrtc"), "{text}");
}

#[test]
fn libraries_that_are_none_of_cudas_are_an_error() {
    if !is_there() {
        return;
    }
    for name in ["cuda", "nvrtc"] {
        let whole = if name == "cuda" { "nvrtc" } else { "cuda" };
        let hollow = format!("{name} without functions");
        let folder = fakes(&format!("hollow_{name}"), &[whole, &hollow]);
        let text = said(&run_with(&folder, &[]));
        assert!(text.contains("has no function"), "{text}");
    }
}
