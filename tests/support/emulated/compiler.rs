//! Compiles the GPU's sources for the emulator, to one library for each source and its macros.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use libloading::Library;
use thalweg_device::gpu::Function;

use super::watcher::Watcher;
use crate::root;

/// `true` if there is a C++ compiler. Prints a message where there is none, and panics where one is required.
pub fn has_compiler() -> bool {
    let there = Command::new("g++").arg("--version").output();
    let there = there.is_ok_and(|o| o.status.success());
    let required = std::env::var("REQUIRE_EMU").is_ok_and(|v| v == "1");
    assert!(there || !required, "REQUIRE_EMU=1, and there is no g++");
    if !there {
        println!("SKIPPED: no g++, so the GPU's kernels do not run on the CPU");
    }
    there
}

/// Checks of memory accesses that kernels are compiled with.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Checks {
    None,
    /// A watcher: bounds, alignment, unwritten memory, races.
    Watched,
}

/// Flags of all kernels. Shared memory is static, and each library's own, whatever types it is compiled for.
const FLAGS: [&str; 6] = [
    "-x",
    "c++",
    "-DEMULATED",
    "-Wno-unknown-pragmas",
    "-ffp-contract=off",
    "-fno-gnu-unique",
];

/// Flags of watched kernels, without the compiler's own libraries behind the calls.
const WATCHED: [&str; 4] = [
    "-fsanitize=thread,bounds",
    "-DWATCHED",
    "-g1",
    "-nodefaultlibs",
];

/// A source's name, and the macros that it is compiled with.
type Key = (&'static str, Vec<String>);

pub struct Compiler {
    checks: Checks,
    libraries: Mutex<HashMap<Key, Arc<Library>>>,
    /// Loaded before the libraries that call it.
    pub watcher: Option<Watcher>,
}

impl Compiler {
    pub fn new(checks: Checks) -> Compiler {
        let watcher = (checks == Checks::Watched).then(|| Watcher::open(&compiled_watcher()));
        Compiler {
            checks,
            libraries: Mutex::default(),
            watcher,
        }
    }

    /// The library that has a function.
    pub fn library(&self, function: &Function) -> Arc<Library> {
        let macros = function.macros();
        let key = (function.source.name, macros);
        let mut libraries = self.libraries.lock().unwrap();
        if let Some(library) = libraries.get(&key) {
            return library.clone();
        }
        let path = self.compile(function, &key.1);
        // SAFETY: a library of functions alone, that this has just compiled.
        let library = unsafe { Library::new(&path) };
        let library = Arc::new(library.unwrap_or_else(|e| panic!("{}: {e}", path.display())));
        libraries.insert(key, library.clone());
        library
    }

    /// Compiles the sources of these functions, on all of the machine's threads.
    pub fn compile_all(&self, functions: impl Iterator<Item = Function>) {
        let by_key: HashMap<Key, Function> = functions
            .map(|f| ((f.source.name, f.macros()), f))
            .collect();
        let waiting = Mutex::new(by_key.into_iter());
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let next = waiting.lock().unwrap().next();
                        let Some(((_, macros), function)) = next else {
                            return;
                        };
                        self.compile(&function, &macros);
                    }
                });
            }
        });
    }

    /// Compiles a source to a library.
    fn compile(&self, function: &Function, macros: &[String]) -> PathBuf {
        let mut hash = DefaultHasher::new();
        function.source.text.hash(&mut hash);
        for file in ["kernels/thalweg.cuh", "tests/emulator/emulator.h"] {
            read(file).hash(&mut hash);
        }
        (macros, self.checks, FLAGS, WATCHED).hash(&mut hash);
        compiled(function.source.name, hash.finish(), |own| {
            let mut compiler = gcc();
            compiler.args(FLAGS);
            compiler.arg("-I").arg(root().join("kernels"));
            compiler.arg("-I").arg(root().join("tests/emulator"));
            compiler.args(macros.iter().map(|m| format!("-D{m}")));
            if self.checks == Checks::Watched {
                compiler.args(WATCHED);
            }
            // Of a user's crate, the source is known as text alone.
            let source = own.join(format!("{}.cu", function.source.name));
            std::fs::write(&source, function.source.text).unwrap();
            compiler.arg(&source);
            if self.checks == Checks::Watched {
                compiler.args(["-x", "none", "-lstdc++", "-lm", "-lgcc_s", "-lgcc", "-lc"]);
            }
            compiler
        })
    }
}

fn read(file: &str) -> Vec<u8> {
    std::fs::read(root().join(file)).expect(file)
}

fn gcc() -> Command {
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++17", "-O1", "-shared", "-fPIC", "-Wall", "-Werror"]);
    compiler
}

/// The watcher's library.
fn compiled_watcher() -> PathBuf {
    let source = "tests/emulator/watch.cpp";
    let mut hash = DefaultHasher::new();
    for file in [source, "tests/emulator/transfers.h"] {
        read(file).hash(&mut hash);
    }
    compiled("watch", hash.finish(), |_| {
        let mut compiler = gcc();
        compiler.arg("-O2").arg(root().join(source));
        compiler
    })
}

/// A library that is compiled by a command, which gets a folder of its own, unless an earlier run of the tests has
/// compiled it.
fn compiled(name: &str, hash: u64, command: impl FnOnce(&Path) -> Command) -> PathBuf {
    // Beside the test programs, so that the next run finds it.
    let program = std::env::current_exe().unwrap();
    let folder = program.with_file_name("emulator");
    let path = folder.join(format!("{name}-{hash:016x}.so"));
    if path.exists() {
        return path;
    }
    // Another test or program of tests may compile the same: each its own file, renamed when whole.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let own = folder.join(format!("{name}.{}.{next}", std::process::id()));
    std::fs::create_dir_all(&own).unwrap();
    let library = own.join("library.so");
    let output = command(&own).arg("-o").arg(&library).output().expect("g++");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}:\n{text}");
    std::fs::rename(&library, &path).unwrap();
    std::fs::remove_dir_all(&own).unwrap();
    path
}
