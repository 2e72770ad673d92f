//! Runs the GPU's kernels on the CPU: launches are executed by `tests/emulator`, on the tensors' own memory.

use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use libloading::Library;
use thalweg_device::gpu::{Arg, Fault, Function, Launches};
use thalweg_device::{Body, Cpu, DeviceType, Kernel, KernelError, Operand, Prepare};
use thalweg_graph::check::infer;
use thalweg_graph::{Fact, Graph, Node};
use thalweg_ops::NewGraph;
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, Shape, Tensor};

use super::golden::{Case, Input};
use super::root;
use super::runtime::{Results, Runtime, build};

/// Orders in which the threads of a block run: ascending, descending, shuffled.
const ORDERS: [u32; 3] = [0, 1, 7];

/// Each library has one emulated machine as a global: launches are serialized.
static LAUNCHING: Mutex<()> = Mutex::new(());

/// A source's name, and the macros that it is compiled with.
type Key = (&'static str, Vec<String>);

/// The function of `KERNEL` in `emulator.h`.
type Launch = unsafe extern "C" fn(u32, u32, *mut *mut c_void, u32) -> i32;

pub struct Emulated {
    cpu: Cpu,
    /// Compiles kernels with AddressSanitizer.
    sanitize: bool,
    libraries: Mutex<HashMap<Key, Arc<Library>>>,
}

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

/// Memory for an output, filled with a pattern that no kernel writes by chance.
fn filled(dtype: DType, dims: &[usize]) -> Result<Tensor, String> {
    let len = dims.iter().product::<usize>() * dtype.size();
    let byte = if dtype == DType::Bool { 1 } else { 0xa5 };
    Tensor::from_bytes(dtype, dims, &vec![byte; len]).map_err(|e| e.to_string())
}

fn address(tensor: &Tensor) -> u64 {
    tensor.bytes().as_ptr() as u64
}

impl Emulated {
    pub fn new(sanitize: bool) -> Emulated {
        Emulated {
            cpu: Cpu::new(1),
            sanitize,
            libraries: Mutex::default(),
        }
    }

    /// The kernel of a node that launches GPU functions.
    pub fn kernel(node: &Node) -> Option<&'static Kernel> {
        let op = thalweg_ops::kernels()[node.op.name];
        let mut kernels = op.kernels.iter();
        kernels.find(|k| matches!(k.body, Body::Launch(_)) && k.takes(DeviceType::Gpu, node))
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

    /// Compiles the functions that these cases launch, on all of the machine's threads.
    pub fn compile_all(&self, cases: &[Case]) {
        let functions = cases
            .iter()
            .flat_map(|c| self.functions(c).unwrap_or_default());
        let mut by_key: HashMap<Key, Function> = HashMap::new();
        for function in functions {
            by_key.insert((function.source.name, function.macros()), function);
        }
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

    /// Compiles a source to a library, unless an earlier run of the tests has.
    fn compile(&self, function: &Function, macros: &[String]) -> PathBuf {
        let read = |file: &str| std::fs::read(root().join(file)).expect(file);
        let file = format!("{}.cu", function.source.name);
        let mut hash = DefaultHasher::new();
        function.source.text.hash(&mut hash);
        for file in ["kernels/thalweg.cuh", "tests/emulator/emulator.h"] {
            read(file).hash(&mut hash);
        }
        (macros, self.sanitize).hash(&mut hash);
        // Beside the test programs, so that the next run finds it.
        let program = std::env::current_exe().unwrap();
        let folder = program.with_file_name("emulator");
        std::fs::create_dir_all(&folder).unwrap();
        let name = format!("{}-{:016x}", function.source.name, hash.finish());
        let path = folder.join(format!("{name}.so"));
        if path.exists() {
            return path;
        }
        // Another test or program of tests may compile the same: each its own file, renamed when
        // whole.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let own = folder.join(format!("{name}.{}.{next}", std::process::id()));
        let mut compiler = Command::new("g++");
        compiler.args([
            "-std=c++17",
            "-O1",
            "-shared",
            "-fPIC",
            "-DEMULATED",
            "-x",
            "c++",
        ]);
        compiler.args([
            "-Wall",
            "-Wno-unknown-pragmas",
            "-Werror",
            "-ffp-contract=off",
            // Shared memory is static, and each library's own, whatever types it is compiled for.
            "-fno-gnu-unique",
        ]);
        compiler.arg("-I").arg(root().join("kernels"));
        compiler.arg("-I").arg(root().join("tests/emulator"));
        if self.sanitize {
            compiler.args(["-fsanitize=address", "-g"]);
        }
        compiler.args(macros.iter().map(|m| format!("-D{m}")));
        // Of a user's crate, the source is known as text alone.
        let source = own.with_extension(format!("{next}.cu"));
        std::fs::write(&source, function.source.text).unwrap();
        compiler.arg(&source).arg("-o").arg(&own);
        let output = compiler.output().expect("g++");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{file} with {macros:?}:\n{text}");
        std::fs::remove_file(&source).unwrap();
        std::fs::rename(&own, &path).unwrap();
        path
    }

    /// Runs launches with these addresses.
    fn launch(
        &self,
        launches: &Launches,
        inputs: &[u64],
        outputs: &[u64],
        counter: &AtomicU64,
        order: u32,
    ) -> Result<(), String> {
        let status = Box::new(u64::MAX);
        let scratch = filled(DType::U8, &[launches.scratch.max(1)])?;
        for launch in &launches.list {
            let mut values: Vec<Vec<u8>> = launch
                .args
                .iter()
                .map(|arg| match arg {
                    Arg::Input(i) => inputs[*i].to_ne_bytes().to_vec(),
                    Arg::Output(i) => outputs[*i].to_ne_bytes().to_vec(),
                    // A variable's memory is that of its input.
                    Arg::Variable(i) => inputs[*i].to_ne_bytes().to_vec(),
                    Arg::Scratch(at) => (address(&scratch) + *at as u64).to_ne_bytes().to_vec(),
                    Arg::Counter => (counter.as_ptr() as u64).to_ne_bytes().to_vec(),
                    Arg::Status => (&raw const *status as u64).to_ne_bytes().to_vec(),
                    Arg::Table(words) => (words.as_ptr() as u64).to_ne_bytes().to_vec(),
                    Arg::Value(bytes) => bytes.to_vec(),
                })
                .collect();
            let mut args: Vec<*mut c_void> =
                values.iter_mut().map(|v| v.as_mut_ptr().cast()).collect();
            let library = self.library(&launch.function);
            let grid = (launch.blocks, launch.threads);
            for (i, value) in values.iter().enumerate() {
                let size = size_of_argument(&library, launch.function.name, i);
                assert_eq!(
                    value.len(),
                    size,
                    "argument {i} of {}",
                    launch.function.name
                );
            }
            let after = size_of_argument(&library, launch.function.name, values.len());
            assert_eq!(after, 0, "{} has more arguments", launch.function.name);
            // SAFETY: the arguments are those that the kernel declares; its accesses are under test, and the sanitizer
            // checks them.
            unsafe { run_emulated(&library, launch.function.name, grid, &mut args, order)? };
        }
        // SAFETY: the box is alive; the read is volatile because the kernels wrote behind the compiler's back.
        let element = unsafe { std::ptr::read_volatile(&raw const *status) };
        match &launches.fault {
            Some(fault) if element != u64::MAX => {
                let element = usize::try_from(element).map_err(|e| e.to_string())?;
                let Fault { input, reason } = fault.clone();
                Err(KernelError::Element {
                    input,
                    element,
                    reason,
                }
                .to_string())
            }
            _ => Ok(()),
        }
    }

    /// The prepared launches of a node.
    fn prepared(
        &self,
        case: &Case,
        kernel: &Kernel,
        node: &Node,
        inputs: &[Tensor],
    ) -> Result<Work, String> {
        let facts = inputs.iter().enumerate();
        let facts: Vec<Fact> = facts.map(|(i, t)| known(case, i, t)).collect();
        let known = infer(node.op, &facts, &node.attrs).map_err(|e| e.to_string())?;
        let from = inputs.iter().map(|t| Operand {
            dtype: t.dtype(),
            dims: t.dims().into(),
            value: Some(t.clone()),
        });
        let to = known.iter().map(|f| {
            let dims = f.shape.to_dims().ok_or("a shape that stays unknown")?;
            Ok(Operand {
                dtype: f.dtype,
                dims,
                value: None,
            })
        });
        let (from, to): (Vec<_>, Result<Vec<_>, String>) = (from.collect(), to.collect());
        let to = to?;
        let Body::Launch(launches) = kernel.body else {
            return Err("no launches".to_owned());
        };
        let prepare = Prepare {
            cpu: &self.cpu,
            node,
            inputs: &from,
            outputs: &to,
        };
        let launches = launches(&prepare).map_err(|e| e.to_string())?;
        Ok(Work { launches, from, to })
    }

    /// The functions that a case launches; empty where its op has no GPU kernel.
    pub fn functions(&self, case: &Case) -> Result<Vec<Function>, String> {
        let g = Graph::new();
        let id = build(&g, case).id();
        let data = g.snapshot();
        let Some(kernel) = data.get(id).and_then(|node| Emulated::kernel(node)) else {
            return Ok(Vec::new());
        };
        let work = self.prepared(case, kernel, data.node(id), &tensors(case)?)?;
        let launches = work.launches.list.into_iter();
        Ok(launches.map(|l| l.function).collect())
    }

    /// Runs a node in one order of threads. With `in_place`, outputs that may share an input's memory do.
    fn step(
        &self,
        kernel: &Kernel,
        work: &Work,
        inputs: &[Tensor],
        counter: &AtomicU64,
        (order, in_place): (u32, bool),
    ) -> Result<Vec<Tensor>, String> {
        let mut outputs = Vec::new();
        let mut at: Vec<u64> = inputs.iter().map(address).collect();
        for (o, operand) in work.to.iter().enumerate() {
            let pair = kernel.in_place.iter().find(|(i, out)| {
                let from = work.from.get(*i);
                let same = from
                    .is_some_and(|from| from.dims == operand.dims && from.dtype == operand.dtype);
                in_place && *out == o && same
            });
            match pair {
                Some(&(i, _)) => {
                    let copy = Tensor::from_bytes(operand.dtype, &operand.dims, inputs[i].bytes());
                    outputs.push(copy.map_err(|e| e.to_string())?);
                    at[i] = address(&outputs[o]);
                }
                None => outputs.push(filled(operand.dtype, &operand.dims)?),
            }
        }
        let addresses: Vec<u64> = outputs.iter().map(address).collect();
        self.launch(&work.launches, &at, &addresses, counter, order)?;
        Ok(outputs)
    }
}

/// The bytes of an argument of a function; 0 where it has no such argument.
fn size_of_argument(library: &Library, name: &str, i: usize) -> usize {
    type Size = unsafe extern "C" fn(u32) -> u32;
    // SAFETY: `KERNEL` defines it with this signature, and it only returns a number.
    unsafe {
        let size = library.get::<Size>(format!("size_{name}").as_bytes());
        size.expect("what KERNEL defines")(i as u32) as usize
    }
}

/// Runs a function of a library on a grid of blocks and threads.
///
/// # Safety
/// The arguments are those of the function, and their pointees are valid for its accesses.
pub unsafe fn run_emulated(
    library: &Library,
    name: &str,
    (blocks, threads): (u32, u32),
    args: &mut [*mut c_void],
    order: u32,
) -> Result<(), String> {
    // SAFETY: `KERNEL` defines it with this signature.
    let run = unsafe { library.get::<Launch>(format!("launch_{name}").as_bytes()) };
    let run = run.map_err(|e| e.to_string())?;
    let _alone = LAUNCHING.lock().unpoisoned();
    // SAFETY: by the caller's promise.
    match unsafe { run(blocks, threads, args.as_mut_ptr(), order) } {
        0 => Ok(()),
        _ => Err("threads of a block do not meet at one barrier".to_owned()),
    }
}

/// A node's launches, and the facts that it was prepared for.
struct Work {
    launches: Launches,
    from: Vec<Operand>,
    to: Vec<Operand>,
}

/// The inputs of a case, and the memory of its variables, new at every call.
fn tensors(case: &Case) -> Result<Vec<Tensor>, String> {
    let tensor = |input: &Input| match input {
        Input::Tensor(t) => Ok(t.clone()),
        Input::Variable(dtype, dims, None) => filled(*dtype, dims),
        Input::Variable(dtype, dims, Some(t)) => {
            Tensor::from_bytes(*dtype, dims, t.bytes()).map_err(|e| e.to_string())
        }
    };
    case.inputs.iter().map(tensor).collect()
}

/// Facts of an input; of a variable, those of the value behind its handle.
fn known(case: &Case, i: usize, tensor: &Tensor) -> Fact {
    match &case.inputs[i] {
        Input::Tensor(_) => fact(tensor),
        Input::Variable(dtype, dims, _) => Fact {
            variable: Some((*dtype, Shape::known(dims))),
            ..Fact::new(DType::Resource, Shape::scalar())
        },
    }
}

fn fact(tensor: &Tensor) -> Fact {
    Fact {
        value: Some(tensor.clone()),
        ..Fact::new(tensor.dtype(), tensor.shape())
    }
}

impl Runtime for Emulated {
    fn run(&self, case: &Case) -> Result<Results, String> {
        let g = Graph::new();
        let id = build(&g, case).id();
        let data = g.snapshot();
        let node = data.node(id);
        let kernel = Emulated::kernel(node).ok_or("no kernel for a GPU")?;
        let work = self.prepared(case, kernel, node, &tensors(case)?)?;
        let run = |order, in_place| {
            let inputs = tensors(case)?;
            // A counter begins at 0 in every session.
            let counter = AtomicU64::new(0);
            let step = || self.step(kernel, &work, &inputs, &counter, (order, in_place));
            let outputs = step()?;
            let second_run = match case.second_run.is_empty() {
                true => Vec::new(),
                false => step()?,
            };
            let is_variable =
                |(i, _): &(usize, Tensor)| matches!(case.inputs[*i], Input::Variable(..));
            let after = inputs.iter().cloned().enumerate().filter(is_variable);
            Ok::<_, String>(Results {
                loss: 0.0,
                outputs,
                second_run,
                variables_after: after.map(|(_, t)| t).collect(),
            })
        };
        let first = run(ORDERS[0], false)?;
        let all = |r: &Results| {
            let all = r.outputs.iter().chain(&r.second_run);
            let all = all.chain(&r.variables_after).cloned();
            all.collect::<Vec<Tensor>>()
        };
        let same = |again: Results| {
            let (again, before) = (all(&again), all(&first));
            again
                .iter()
                .zip(&before)
                .all(|(a, b)| a.bytes() == b.bytes())
        };
        for order in &ORDERS[1..] {
            if !same(run(*order, false)?) {
                return Err(format!("another result where threads run in order {order}"));
            }
        }
        if !same(run(ORDERS[0], true)?) {
            return Err("another result in place".to_owned());
        }
        Ok(first)
    }
}
