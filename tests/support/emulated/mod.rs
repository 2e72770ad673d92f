//! Runs the GPU's kernels on the CPU: launches are executed by `tests/emulator`, on the tensors' own memory.

mod compiler;
mod machine;
mod members;
mod watcher;

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use libloading::Library;
use thalweg_device::gpu::{Arg, Fault, Function, Launches};
use thalweg_device::{Body, Cpu, DeviceType, Kernel, KernelError, Operand, Prepare};
use thalweg_graph::check::infer;
use thalweg_graph::{Fact, Graph, Node};
use thalweg_ops::NewGraph;
use thalweg_tensor::{DType, Shape, Tensor};

use self::compiler::Compiler;
use self::machine::size_of_argument;
use self::members::as_members;
use self::watcher::{MemoryTransfers, Region};
use super::golden::{Case, Input};
use super::runtime::{Results, Runtime, build};

pub use self::compiler::{Checks, has_compiler};
pub use self::machine::run_emulated;

/// The order in which the threads of a block run, and the number of blocks.
#[derive(Clone, Copy, Debug)]
struct Order {
    /// 0 for ascending threads, 1 for descending, otherwise the seed of a random order.
    threads: u32,
    most_blocks: u32,
}

/// Functions each of whose blocks takes a part of its own.
const EXACT_GRID: [&str; 2] = ["SortCount", "SortMove"];

/// The last has one block, which does the work of all: other kernels loop over their grid.
const ORDERS: [Order; 3] = [
    Order {
        threads: 0,
        most_blocks: u32::MAX,
    },
    Order {
        threads: 1,
        most_blocks: u32::MAX,
    },
    Order {
        threads: 7,
        most_blocks: 1,
    },
];

/// One run of a node's launches.
struct Pass<'a> {
    order: Order,
    /// The counter of a random op.
    counter: &'a AtomicU64,
    /// Outputs that may share an input's memory do.
    in_place: bool,
    /// Launches that may be members of a multi-tensor launch are.
    multi_tensor: bool,
    /// Counts the transfers of memory.
    count: Option<&'a mut MemoryTransfers>,
}

impl<'a> Pass<'a> {
    fn new(order: Order, counter: &'a AtomicU64) -> Pass<'a> {
        Pass {
            order,
            counter,
            in_place: false,
            multi_tensor: false,
            count: None,
        }
    }
}

pub struct Emulated {
    cpu: Cpu,
    compiler: Compiler,
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
    pub fn new(checks: Checks) -> Emulated {
        Emulated {
            cpu: Cpu::new(1),
            compiler: Compiler::new(checks),
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
        self.compiler.library(function)
    }

    /// Compiles the functions that these cases launch, on all of the machine's threads.
    pub fn compile_all(&self, cases: &[Case]) {
        let functions = cases
            .iter()
            .flat_map(|c| self.functions(c).unwrap_or_default());
        self.compiler.compile_all(functions);
    }

    /// Runs launches that read these inputs and write these outputs, in one order of threads.
    pub fn run_launches(
        &self,
        launches: &Launches,
        inputs: &[Tensor],
        outputs: &[Tensor],
    ) -> Result<(), String> {
        let regions = |name: &str, tensors: &[Tensor], written| -> Vec<Region> {
            let all = tensors.iter().enumerate();
            all.map(|(i, t)| Region::of(&format!("{name} {i}"), t, written))
                .collect()
        };
        let inputs = regions("input", inputs, true);
        let outputs = regions("output", outputs, false);
        let counter = AtomicU64::new(0);
        self.launch(launches, &inputs, &outputs, Pass::new(ORDERS[0], &counter))
    }

    /// Runs launches on this memory, watched if the kernels are compiled for it.
    fn launch(
        &self,
        launches: &Launches,
        inputs: &[Region],
        outputs: &[Region],
        pass: Pass,
    ) -> Result<(), String> {
        let Pass {
            counter,
            order,
            count,
            ..
        } = pass;
        let launches = match pass.multi_tensor {
            true => &as_members(launches, inputs, outputs),
            false => launches,
        };
        let status = Box::new(u64::MAX);
        let scratch = filled(DType::U8, &[launches.scratch.max(1)])?;
        let run = || {
            self.launch_each(
                launches,
                (inputs, outputs),
                &scratch,
                counter,
                &status,
                order,
            )
        };
        match &self.compiler.watcher {
            None => run()?,
            Some(watcher) => {
                let mut regions = [inputs, outputs].concat();
                regions.push(Region::of("scratch memory", &scratch, false));
                regions.push(Region::of_word("the counter", counter.as_ptr() as u64));
                regions.push(Region::of_word("the status", &raw const *status as u64));
                regions.extend(Region::of_tables(launches));
                watcher.watch(&regions, count, run)?;
            }
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

    /// Runs launches one after the other.
    fn launch_each(
        &self,
        launches: &Launches,
        (inputs, outputs): (&[Region], &[Region]),
        scratch: &Tensor,
        counter: &AtomicU64,
        status: &u64,
        order: Order,
    ) -> Result<(), String> {
        for launch in &launches.list {
            let mut values: Vec<Vec<u8>> = launch
                .args
                .iter()
                .map(|arg| match arg {
                    Arg::Input(i) => inputs[*i].address.to_ne_bytes().to_vec(),
                    Arg::Output(i) => outputs[*i].address.to_ne_bytes().to_vec(),
                    // A variable's memory is that of its input.
                    Arg::Variable(i) => inputs[*i].address.to_ne_bytes().to_vec(),
                    Arg::Scratch(at) => (address(scratch) + *at as u64).to_ne_bytes().to_vec(),
                    Arg::Counter => (counter.as_ptr() as u64).to_ne_bytes().to_vec(),
                    Arg::Status => (std::ptr::from_ref(status) as u64).to_ne_bytes().to_vec(),
                    Arg::Table(words) => (words.as_ptr() as u64).to_ne_bytes().to_vec(),
                    Arg::Value(bytes) => bytes.to_vec(),
                })
                .collect();
            let mut args: Vec<*mut c_void> =
                values.iter_mut().map(|v| v.as_mut_ptr().cast()).collect();
            let library = self.library(&launch.function);
            let blocks = match EXACT_GRID.contains(&launch.function.name) {
                true => launch.blocks,
                false => launch.blocks.min(order.most_blocks),
            };
            let grid = (blocks, launch.threads);
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
            // SAFETY: the arguments are those that the kernel declares; its accesses are under test.
            unsafe {
                run_emulated(
                    &library,
                    launch.function.name,
                    grid,
                    &mut args,
                    order.threads,
                )?
            };
        }
        Ok(())
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

    /// The transfers of memory that a case needs on a card.
    pub fn transfers(&self, case: &Case) -> Result<MemoryTransfers, String> {
        let g = Graph::new();
        let id = build(&g, case).id();
        let data = g.snapshot();
        let node = data.node(id);
        let kernel = Emulated::kernel(node).ok_or("no kernel for a GPU")?;
        let inputs = tensors(case)?;
        let work = self.prepared(case, kernel, node, &inputs)?;
        let (counter, mut count) = (AtomicU64::new(0), MemoryTransfers::default());
        let pass = Pass {
            count: Some(&mut count),
            ..Pass::new(ORDERS[0], &counter)
        };
        self.step(kernel, &work, &inputs, pass)?;
        Ok(count)
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
        Ok(members::functions(&work.launches))
    }

    /// Runs a node.
    fn step(
        &self,
        kernel: &Kernel,
        work: &Work,
        inputs: &[Tensor],
        pass: Pass,
    ) -> Result<Vec<Tensor>, String> {
        let mut outputs = Vec::new();
        let regions = inputs.iter().enumerate();
        let regions = regions.map(|(i, t)| Region::of(&format!("input {i}"), t, true));
        let mut at: Vec<Region> = regions.collect();
        let mut to: Vec<Region> = Vec::new();
        for (o, operand) in work.to.iter().enumerate() {
            let pair = kernel.in_place.iter().find(|(i, out)| {
                let from = work.from.get(*i);
                let same = from
                    .is_some_and(|from| from.dims == operand.dims && from.dtype == operand.dtype);
                pass.in_place && *out == o && same
            });
            match pair {
                Some(&(i, _)) => {
                    let copy = Tensor::from_bytes(operand.dtype, &operand.dims, inputs[i].bytes());
                    outputs.push(copy.map_err(|e| e.to_string())?);
                    at[i] = Region::of(&format!("input {i}"), &outputs[o], true);
                    to.push(at[i].clone());
                }
                None => {
                    let memory = filled(operand.dtype, &operand.dims)?;
                    to.push(Region::of(&format!("output {o}"), &memory, false));
                    outputs.push(memory);
                }
            }
        }
        self.launch(&work.launches, &at, &to, pass)?;
        Ok(outputs)
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
        let run = |order, in_place, multi_tensor| {
            let inputs = tensors(case)?;
            // A counter begins at 0 in every session.
            let counter = AtomicU64::new(0);
            let step = || {
                let pass = Pass {
                    in_place,
                    multi_tensor,
                    ..Pass::new(order, &counter)
                };
                self.step(kernel, &work, &inputs, pass)
            };
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
        let first = run(ORDERS[0], false, false)?;
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
            if !same(run(*order, false, false)?) {
                return Err(format!("another result with {order:?}"));
            }
        }
        if !same(run(ORDERS[0], true, false)?) {
            return Err("another result in place".to_owned());
        }
        let members = work.launches.list.iter().any(|l| l.multi_tensor);
        if members && !same(run(ORDERS[0], false, true)?) {
            return Err("another result as a member of a multi-tensor launch".to_owned());
        }
        Ok(first)
    }
}
