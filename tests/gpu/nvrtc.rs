//! NVRTC: every kernel compiles for every architecture on a machine without a GPU; the cache of machine code; messages
//! for missing libraries.

use thalweg::device::cuda::{Compiler, Cubins, Library, cards};
use thalweg::device::gpu::{Function, GpuError, Source};
use thalweg::ops::gpu::HEADER;
use thalweg_tensor::DType;
use thalweg_tests::launched_functions::functions;

/// The supported architectures.
const ARCHITECTURES: [&str; 6] = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"];

/// NVRTC, if it is installed; panics where it is required and missing.
fn compiler() -> Option<Compiler> {
    let opened = Compiler::open(HEADER);
    let required = std::env::var("REQUIRE_NVRTC").is_ok_and(|v| v == "1");
    match opened {
        Ok(compiler) => Some(compiler),
        Err(e) if required => panic!("REQUIRE_NVRTC=1: {e}"),
        Err(e) => {
            println!("SKIPPED: {e}");
            None
        }
    }
}

/// `true` if the machine code has a function of this name.
fn has(cubin: &[u8], name: &str) -> bool {
    let text = format!("\0.text.{name}\0");
    cubin.windows(text.len()).any(|w| w == text.as_bytes())
}

#[test]
fn every_kernel_compiles_for_the_newest_architecture() {
    compile_for(&ARCHITECTURES[5..]);
}

#[test]
#[ignore = "takes minutes: cargo test -p thalweg-tests --test gpu nvrtc:: -- --ignored"]
fn every_kernel_compiles_for_the_other_architectures() {
    compile_for(&ARCHITECTURES[..5]);
}

fn compile_for(architectures: &[&str]) {
    let Some(compiler) = compiler() else { return };
    let functions = functions();
    assert!(!functions.is_empty());
    let compile = |architecture: &str| {
        for (key, (function, names)) in &functions {
            let cubin = compiler.cubin(function, architecture);
            let cubin = cubin.unwrap_or_else(|e| panic!("{key}: {e}"));
            for name in names {
                assert!(has(&cubin, name), "{key}, {architecture}: no {name}");
            }
        }
    };
    std::thread::scope(|scope| {
        for half in architectures.chunks(architectures.len().div_ceil(2)) {
            scope.spawn(|| half.iter().for_each(|a| compile(a)));
        }
    });
    println!(
        "{} sources with dtypes, {} architectures",
        functions.len(),
        architectures.len()
    );
}

#[test]
fn a_kernel_indexes_large_tensors_with_64_bits() {
    let Some(compiler) = compiler() else { return };
    for (_, (mut function, names)) in functions() {
        if !function.types.contains(&DType::F32) {
            continue;
        }
        function.large = true;
        let cubin = compiler.cubin(&function, "sm_90").unwrap();
        assert!(names.iter().all(|name| has(&cubin, name)));
    }
}

static WRONG: Source = Source {
    name: "wrong",
    text: "#include \"thalweg.cuh\"\nKERNEL(Wrong, T* out) { out[0] = nothing; }",
};

fn of(source: &'static Source) -> Function {
    Function {
        source,
        name: "Wrong",
        types: [DType::F32].into_iter().collect(),
        large: false,
        multi_tensor: false,
    }
}

#[test]
fn a_compile_error_carries_the_compilers_message() {
    let Some(compiler) = compiler() else { return };
    match compiler.cubin(&of(&WRONG), "sm_90") {
        Err(GpuError::Compile { file, log, .. }) => {
            assert_eq!(file, "wrong");
            assert!(log.contains("\"nothing\" is undefined"), "{log}");
            assert!(log.contains("wrong.cu(2)"), "{log}");
        }
        other => panic!("{other:?}"),
    }
    assert!(compiler.cubin(&of(&WRONG), "sm_1").is_err());
}

#[test]
fn machine_code_is_cached_and_recompiled_after_corruption() {
    let Some(compiler) = compiler() else { return };
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("cubins");
    let _ = std::fs::remove_dir_all(&folder);
    let function = functions().into_values().next().unwrap().0;
    let get = |folder: Option<&std::path::Path>| {
        let cubins = Cubins::new(HEADER, Ok(compiler.clone()), folder.map(Into::into));
        cubins.get(&function, "sm_90").unwrap()
    };
    let files = || -> Vec<_> {
        let all = std::fs::read_dir(&folder).unwrap();
        all.map(|f| f.unwrap().path()).collect()
    };
    let fresh = get(None);
    // Several at once, as concurrent processes would.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(get(Some(&folder)), fresh));
        }
    });
    let [file] = &files()[..] else {
        panic!("{:?}", files())
    };
    let whole = std::fs::read(file).unwrap();
    // Read, not compiled: a file with other content is used if it is intact.
    assert_eq!(get(Some(&folder)), fresh);
    std::fs::write(file, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(get(Some(&folder)), fresh);
    assert_eq!(std::fs::read(file).unwrap(), whole);
    // Without a usable folder it is compiled all the same.
    assert_eq!(get(Some(std::path::Path::new("/dev/null/x"))), fresh);
}

/// Sources whose functions run in every step of a network.
const HOT: [&str; 9] = [
    "batch_norm",
    "binary",
    "fill",
    "gemm",
    "optimizer",
    "pool",
    "reduce",
    "softmax",
    "strided_copy",
];

/// A stack frame is memory of each thread: an array that the program indexes, or registers that do not suffice.
#[test]
fn functions_of_networks_need_no_memory_of_their_threads() {
    let Some(compiler) = compiler() else { return };
    let mut seen = std::collections::BTreeSet::new();
    for (function, _) in functions().into_values() {
        let hot = HOT.contains(&function.source.name) && !function.types.contains(&DType::F64);
        if !hot || !seen.insert((function.source.name, function.macros())) {
            continue;
        }
        let report = compiler.report(&function, "sm_90").unwrap();
        let frames = report
            .lines()
            .filter(|line| line.contains("bytes stack frame"));
        let all: Vec<&str> = frames.map(str::trim).collect();
        assert!(!all.is_empty(), "{report}");
        let none = |line: &&str| line.contains(" 0 bytes stack frame, 0 bytes spill stores");
        assert!(
            all.iter().all(none),
            "{} {:?}: {report}",
            function.source.name,
            function.types
        );
    }
    assert!(seen.len() > HOT.len());
}

#[test]
fn precompiled_machine_code_needs_no_compiler() {
    let Some(compiler) = compiler() else { return };
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("made_ahead");
    let _ = std::fs::remove_dir_all(&folder);
    let function = functions().into_values().next().unwrap().0;
    let here = Cubins::new(HEADER, Ok(compiler), None);
    here.make(&function, "sm_90", &folder).unwrap();
    let elsewhere = || Cubins::new(HEADER, Err(GpuError::NoCard), None);
    let there = elsewhere().with_made(Some(folder.clone()));
    let fresh = here.get(&function, "sm_90").unwrap();
    assert_eq!(there.get(&function, "sm_90").unwrap(), fresh);
    // For another card, and in an empty folder, the compiler is needed.
    assert_eq!(there.get(&function, "sm_80"), Err(GpuError::NoCard));
    assert_eq!(elsewhere().get(&function, "sm_90"), Err(GpuError::NoCard));
}

#[test]
fn a_missing_library_is_reported_with_search_paths_and_advice() {
    for library in Library::ALL {
        let Err(e) = library.open() else { continue };
        let text = e.to_string();
        // cuDNN is opened only together with cuBLASLt, so a missing cuBLASLt is reported first.
        let first = [library, Library::CublasLt].map(Library::name);
        assert!(first.iter().any(|name| text.starts_with(name)), "{text}");
        assert!(text.contains(".so") && text.contains("install"), "{text}");
    }
    match cards() {
        Ok(cards) => assert!(!cards.is_empty()),
        Err(e) => assert!(!e.to_string().is_empty()),
    }
}
