//! Runtimes that run op cases in a session, with inputs as feeds or as constants.

use std::sync::Arc;

use thalweg_device::gpu::Driver;
use thalweg_graph::{Graph, Operation, Output};
use thalweg_ops::{NewGraph, SourceOps};
use thalweg_session::{Feed, Feeding, Fetched, GpuOptions, Parallel, Session, SessionOptions};
use thalweg_tensor::{DType, Shape};

use super::golden::{Case, Input};
use super::runtime::{Results, Runtime, attributes};

/// The form of a case's inputs: placeholders or constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Placeholders of known shape; host inputs are known only in the step.
    Fed,
    /// Placeholders of unknown shape.
    FedUnknown,
    /// Constants for host inputs, placeholders of known shape for the others.
    HostConstant,
    /// Constants, so that constant folding applies.
    Constant,
}

/// Runs each case in a session of its own.
pub struct SessionRuntime {
    pub threads: usize,
    pub optimise: bool,
    pub entry: Entry,
    /// The GPU for ops with GPU kernels; without one, a CPU runs all ops.
    pub gpu: Option<Arc<dyn Driver>>,
}

impl Entry {
    fn constant(self, host: bool, dtype: DType) -> bool {
        match self {
            Entry::Fed | Entry::FedUnknown => false,
            // A constant's kernel cannot take strings.
            Entry::HostConstant => host,
            Entry::Constant => dtype != DType::String,
        }
    }
}

/// A case as a graph.
pub struct BuiltCase<'g> {
    node: Operation<'g>,
    feeds: Vec<Feed<'g>>,
    assigns: Vec<Operation<'g>>,
    /// Feeds of the initialization.
    initial: Vec<Feed<'g>>,
    /// Reads of the variables that have values afterwards.
    reads: Vec<Output<'g>>,
}

/// Builds a case; `way` transforms each placeholder, by its number.
pub fn built<'g>(
    g: &'g Graph,
    case: &Case,
    entry: Entry,
    way: &dyn Fn(usize, Output<'g>) -> Output<'g>,
) -> Result<BuiltCase<'g>, String> {
    let def = g.registry().get(&case.op).ok_or("there is no such op")?;
    let hosts = host_inputs(case, def);
    let mut feeds: Vec<Feed<'_>> = Vec::new();
    let mut inputs: Vec<Output<'_>> = Vec::new();
    let mut assigns: Vec<Operation<'_>> = Vec::new();
    let mut variables: Vec<(Output<'_>, DType, bool)> = Vec::new();
    let mut initial: Vec<Feed<'_>> = Vec::new();
    for (i, input) in case.inputs.iter().enumerate() {
        match input {
            Input::Tensor(t) if entry.constant(hosts[i], t.dtype()) => inputs.push(g.constant(t)),
            Input::Tensor(t) => {
                let shape = match entry {
                    Entry::FedUnknown => Shape::unknown(),
                    _ => t.shape(),
                };
                let x = g.placeholder(&format!("input_{i}"), t.dtype(), shape);
                feeds.push(x.feed(t));
                inputs.push(way(i, x));
            }
            Input::Variable(dtype, dims, value) => {
                let handle = g
                    .op("VarHandleOp")
                    .attr("dtype", *dtype)
                    .attr("shape", Shape::known(dims))
                    .name(&format!("variable_{i}"))
                    .output();
                variables.push((handle, *dtype, value.is_some()));
                inputs.push(handle);
                if let Some(value) = value {
                    let x = g.placeholder(&format!("initial_{i}"), *dtype, value.shape());
                    let assign = g.op("AssignVariableOp").input(handle).input(x);
                    assigns.push(assign.build());
                    initial.push(x.feed(value));
                }
            }
        }
    }
    let node = attributes(g, g.op(&case.op).inputs(inputs), case);
    let node = node.name("case").build();
    // An update may be the first value of a variable that had none.
    let updates = g.operation(node.id()).is_update();
    let known = variables.iter().filter(|v| v.2 || updates);
    let read = |(handle, dtype, _): &(Output<'g>, DType, bool)| {
        let read = g.op("ReadVariableOp").input(*handle);
        read.attr("dtype", *dtype).output()
    };
    Ok(BuiltCase {
        node,
        feeds,
        assigns,
        initial,
        reads: known.map(read).collect(),
    })
}

/// Runs a step: nodes or values, with feeds.
pub type RunStep<'r> =
    dyn Fn(&[Operation<'_>], &[Output<'_>], &[Feed<'_>]) -> Result<Fetched, String> + 'r;

impl BuiltCase<'_> {
    /// The results of the case, with `run` to run steps.
    pub fn results(&self, case: &Case, run: &RunStep<'_>) -> Result<Results, String> {
        run(&self.assigns, &[], &self.initial)?;
        let fetches = self.node.outputs();
        let step = || match fetches.is_empty() {
            true => run(&[self.node], &[], &self.feeds),
            false => run(&[], &fetches, &self.feeds),
        };
        let mut results = Results {
            outputs: values(&step()?, fetches.len()),
            ..Results::default()
        };
        if !case.second_run.is_empty() {
            results.second_run = values(&step()?, fetches.len());
        }
        let after = run(&[], &self.reads, &[])?;
        results.variables_after = values(&after, self.reads.len());
        Ok(results)
    }
}

impl Runtime for SessionRuntime {
    fn run(&self, case: &Case) -> Result<Results, String> {
        let g = Graph::new();
        let built = built(&g, case, self.entry, &|_, x| x)?;
        let mut options = SessionOptions::new()
            .threads(self.threads)
            .optimise(self.optimise)
            .parallel(Parallel::Always);
        if let Some(gpu) = &self.gpu {
            options = options.gpu(GpuOptions::driven_by(gpu.clone()));
        }
        let session = Session::with_options(&g, options).map_err(|e| e.to_string())?;
        let results = built.results(case, &|nodes, values, feeds| {
            let done = match values {
                [] => session.step(nodes, feeds),
                _ => session.step(values, feeds),
            };
            done.map_err(|e| e.to_string())
        });
        let fetches = built.node.outputs();
        let mut results = results?;
        if self.gpu.is_some() && !fetches.is_empty() {
            let plan = session.explain(&fetches, &built.feeds);
            results.loss = loss(&plan.map_err(|e| e.to_string())?, &fetches[0].dtype());
        }
        Ok(results)
    }
}

/// Tolerance for the library algorithms that a plan names, as a share of the largest number. Direct sums stay far below
/// it; a wrong transform exceeds it.
fn loss(plan: &str, dtype: &DType) -> f64 {
    let single = match (plan.contains("(Winograd)"), plan.contains("(FFT)")) {
        (true, _) => 1e-3,
        (false, true) => 1e-4,
        _ => 0.0,
    };
    match dtype {
        DType::F16 | DType::BF16 => single * 20.0,
        DType::F64 => single * 1e-6,
        _ => single,
    }
}

fn values(fetched: &Fetched, count: usize) -> Vec<thalweg_tensor::Tensor> {
    (0..count)
        .map(|i| fetched.tensor(i).unwrap().clone())
        .collect()
}

/// For each input of a case, `true` if it is a host input.
fn host_inputs(case: &Case, def: &thalweg_graph::OpDef) -> Vec<bool> {
    // A list argument takes the inputs that the single arguments leave.
    let singles = def.inputs.iter().filter(|a| a.count.is_none()).count();
    let lists = def.inputs.len() - singles;
    let each = match lists {
        0 => 0,
        n => case.inputs.len().saturating_sub(singles) / n,
    };
    let count = |a: &thalweg_graph::op::Arg| a.count.map_or(1, |_| each);
    let repeat = |a: &thalweg_graph::op::Arg| std::iter::repeat_n(a.host, count(a));
    let mut hosts: Vec<bool> = def.inputs.iter().flat_map(repeat).collect();
    hosts.resize(case.inputs.len(), false);
    hosts
}
