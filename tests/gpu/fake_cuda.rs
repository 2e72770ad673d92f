//! The CUDA driver backend with fake libraries, which this test compiles: a driver whose card is the processor, a
//! compiler for it, cuBLASLt, cuDNN and NCCL. Sessions on them, and the messages of their errors.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU64, Ordering};

use thalweg::device::cuda::Library;
use thalweg::prelude::*;
use thalweg::session::GpuOptions;
use thalweg_tests::emulated::has_compiler;
use thalweg_tests::root;

/// Makes file names of concurrent compilations unique.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Environment variable that is set in the process with the fakes.
pub const CHILD_PROCESS: &str = "THALWEG_FAKE_CUDA";

/// A folder with the fakes of these libraries.
pub fn fakes(test: &str, libraries: &[&str]) -> PathBuf {
    let folder = common().join(test);
    // An earlier run may have left files of an earlier source.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for library in libraries {
        let (library, define) = match library.strip_suffix(" without functions") {
            Some(name) => (name, "-DWITHOUT_FUNCTIONS"),
            None => (*library, "-DWHOLE"),
        };
        let to = folder.join(format!("lib{library}.so"));
        std::fs::copy(compiled(library, define), to).unwrap();
    }
    folder
}

/// Parent of the tests' folders.
fn common() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("fake_cuda")
}

/// Hash of all sources of the fakes.
fn sources() -> u64 {
    let mut hash = DefaultHasher::new();
    let folder = std::fs::read_dir(root().join("tests/fake_cuda")).unwrap();
    let mut files: Vec<PathBuf> = folder.map(|file| file.unwrap().path()).collect();
    files.sort();
    for file in files {
        std::fs::read(file).unwrap().hash(&mut hash);
    }
    hash.finish()
}

/// A fake, compiled once for all tests.
fn compiled(library: &str, define: &str) -> PathBuf {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{library}{define}-{:016x}.so", sources());
    let (path, own) = (
        common().join(&name),
        common().join(format!("{name}.{}-{number}", process::id())),
    );
    if path.exists() {
        return path;
    }
    std::fs::create_dir_all(common()).unwrap();
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++17", "-O1", "-shared", "-fPIC", define]);
    compiler.arg(root().join(format!("tests/fake_cuda/{library}.cpp")));
    let output = compiler.arg("-o").arg(&own).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    // Tests that compile it at the same time each make a whole file.
    std::fs::rename(&own, &path).unwrap();
    path
}

/// Runs test `child_session` of this program with the fakes that are in a folder.
fn run_with(folder: &Path, variables: &[(&str, &str)]) -> process::Output {
    run_test("fake_cuda::child_session", folder, variables)
}

/// Runs a test of this program with the fakes that are in a folder.
pub fn run_test(test: &str, folder: &Path, variables: &[(&str, &str)]) -> process::Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    command
        .env(CHILD_PROCESS, "1")
        .env("FAKE_CUDA_FOLDER", folder);
    use_fakes(&mut command, folder);
    command.env("FAKE_CUDA_EMULATOR", root().join("tests/emulator"));
    command.env("THALWEG_CACHE", folder.join("cache"));
    command.envs(variables.iter().copied());
    command.output().unwrap()
}

/// Makes a program find the libraries of this folder, and none of this machine.
pub fn use_fakes(command: &mut Command, folder: &Path) {
    command.env("LD_LIBRARY_PATH", folder).env("HOME", folder);
    for variable in [
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "CUDA_HOME",
        "THALWEG_CUDA_LIBRARIES",
    ] {
        command.env_remove(variable);
    }
}

/// The result line that a child prints.
pub fn result_line(output: &process::Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|l| l.split_once("outcome: "));
    let (_, result_line) = line.unwrap_or_else(|| {
        panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
    });
    result_line.to_owned()
}

/// Runs with the fakes: fits a line on two logical devices of card 0.
#[test]
fn child_session() {
    if std::env::var(CHILD_PROCESS).is_err() {
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
        let card = std::env::var("CARD").map_or(0, |c| c.parse().unwrap());
        let second = std::env::var("SECOND_CARD").map_or(card, |c| c.parse().unwrap());
        let options = SessionOptions::new()
            .gpu(GpuOptions::card(card))
            .gpu(GpuOptions::card(second).memory_fraction(0.5));
        let session = Session::with_options(&g, options)?;
        session.run(g.initializers(), [])?;
        let mut step = session.callable((twice, train), [x, y])?;
        let feeds: [Tensor; 2] = [[1.0f32, 2.0, 3.0].into(), [2.0f32, 4.0, 6.0].into()];
        for _ in 0..40 {
            step.call(&feeds)?;
        }
        let w = session.run::<f32>(w, [])?;
        Ok(format!("w is {w:.3}"))
    };
    // The harness begins a line of its own.
    match fit() {
        Ok(text) => println!("\noutcome: {text}"),
        Err(e) => println!("\noutcome: {e}"),
    }
}

#[test]
fn a_session_trains_through_the_driver_and_the_compiler() {
    if !has_compiler() {
        return;
    }
    let folder = fakes("trains", &["cuda", "nvrtc"]);
    assert_eq!(result_line(&run_with(&folder, &[])), "w is 2.000");
    let programs = || {
        let names = std::fs::read_dir(&folder).unwrap();
        let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|n| n.starts_with("program-")).count()
    };
    let compiled = programs();
    assert!(compiled > 0);
    // Another process finds the compiled machine code again.
    assert_eq!(result_line(&run_with(&folder, &[])), "w is 2.000");
    assert_eq!(programs(), compiled);
}

#[test]
fn a_value_is_copied_directly_between_cards() {
    if !has_compiler() {
        return;
    }
    let folder = fakes("two_cards", &["cuda", "nvrtc"]);
    let two = [("FAKE_CUDA_CARDS", "2"), ("SECOND_CARD", "1")];
    // The fake copies between cards only after peer access was enabled.
    assert_eq!(result_line(&run_with(&folder, &two)), "w is 2.000");
}

#[test]
fn nccl_is_found_by_the_name_that_its_wheel_has() {
    if !has_compiler() {
        return;
    }
    let folder = fakes("nccl", &[]);
    let library = folder.join("libnccl.so.2");
    std::fs::copy(compiled("nccl", "-DWHOLE"), &library).unwrap();
    assert_eq!(
        result_line(&run_test("fake_cuda::child_nccl", &folder, &[])),
        "Ok(())"
    );
    std::fs::remove_file(library).unwrap();
    let text = result_line(&run_test("fake_cuda::child_nccl", &folder, &[]));
    assert!(text.contains("libnccl.so.2") || text == "Ok(())", "{text}");
}

#[test]
fn child_nccl() {
    if std::env::var(CHILD_PROCESS).is_ok() {
        println!(
            "\noutcome: {:?}",
            Library::Nccl.open().map(drop).map_err(|e| e.to_string())
        );
    }
}

/// The libraries of two versions: those of a wheel, whose names have a version, and those of the system.
#[test]
fn all_of_cudnn_comes_from_one_folder() {
    if !has_compiler() {
        return;
    }
    let system = fakes("two_versions", &["cublasLt", "cudnn"]);
    let python = system.join("python");
    let wheel = python.join("lib/python3.12/site-packages/nvidia/cudnn/lib");
    std::fs::create_dir_all(&wheel).unwrap();
    for folder in [&system, &wheel] {
        let part = folder.join("libcudnn_ops.so.9");
        std::fs::copy(compiled("cudnn", "-DWHOLE"), part).unwrap();
    }
    std::fs::copy(compiled("cudnn", "-DWHOLE"), wheel.join("libcudnn.so.9")).unwrap();
    let loaded = |variables: &[(&str, &str)]| {
        result_line(&run_test("fake_cuda::child_cudnn", &system, variables))
    };
    assert_eq!(
        loaded(&[]),
        format!(
            "[{0:?}, {1:?}]",
            system.join("libcudnn.so"),
            system.join("libcudnn_ops.so.9")
        )
    );
    let text = python.display().to_string();
    let expected = format!(
        "[{:?}, {:?}]",
        wheel.join("libcudnn.so.9"),
        wheel.join("libcudnn_ops.so.9")
    );
    assert_eq!(loaded(&[("VIRTUAL_ENV", &text)]), expected);
    let own = system.display().to_string();
    let variables = [
        ("VIRTUAL_ENV", text.as_str()),
        ("THALWEG_CUDA_LIBRARIES", &own),
    ];
    assert!(loaded(&variables).starts_with(&format!("[{:?}", system.join("libcudnn.so"))));
}

/// Opens cuDNN, and prints its file and those of its parts that the process has loaded.
#[test]
fn child_cudnn() {
    if std::env::var(CHILD_PROCESS).is_err() {
        return;
    }
    let cudnn = Library::Cudnn.open().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut all = vec![cudnn.path().to_owned()];
    let paths = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..])));
    all.extend(paths.filter(|p| p.to_string_lossy().contains("libcudnn_")));
    all.dedup();
    println!("\noutcome: {all:?}");
}

#[test]
fn missing_outdated_or_failing_libraries_are_reported() {
    if !has_compiler() {
        return;
    }
    let folder = fakes("fails", &["cuda", "nvrtc"]);
    let cases: [(&[(&str, &str)], &str); 10] = [
        (
            &[
                ("FAKE_CUDA_FAILS", "cuLaunchKernel"),
                ("FAKE_CUDA_CODE", "4242"),
            ],
            "the driver could not launch a kernel: CUDA's error 4242",
        ),
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
            "the driver is one for CUDA 11.4, and CUDA 12.0 is the least for",
        ),
        (
            &[("FAKE_CUDA_VERSION", "12080")],
            "the driver is one for CUDA 12.8, and CUDA 13.0 is the least for this compiler",
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
        let result_line = result_line(&run_with(&folder, variables));
        assert!(
            result_line.contains(expected),
            "{variables:?}: {result_line}"
        );
    }
}

#[test]
fn each_missing_library_is_reported_by_itself() {
    if !has_compiler() {
        return;
    }
    let without_driver = fakes("without_driver", &["nvrtc"]);
    let text = result_line(&run_with(&without_driver, &[]));
    assert!(
        text.contains("the NVIDIA driver is missing: looked for libcuda.so"),
        "{text}"
    );
    let without_compiler = fakes("without_compiler", &["cuda"]);
    let text = result_line(&run_with(&without_compiler, &[]));
    assert!(
        text.contains("NVRTC, the compiler of CUDA kernels, is missing"),
        "{text}"
    );
    assert!(text.contains("pip install nvidia-cuda-nvrtc"), "{text}");
}

#[test]
fn libraries_without_cudas_functions_are_an_error() {
    if !has_compiler() {
        return;
    }
    for name in ["cuda", "nvrtc"] {
        let whole = if name == "cuda" { "nvrtc" } else { "cuda" };
        let hollow = format!("{name} without functions");
        let folder = fakes(&format!("hollow_{name}"), &[whole, &hollow]);
        let text = result_line(&run_with(&folder, &[]));
        assert!(text.contains("has no function"), "{text}");
    }
}
