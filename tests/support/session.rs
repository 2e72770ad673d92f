//! The table of op cases through a session: a plan, an arena, and every way in which a value can
//! come to a node.

use std::sync::Arc;

use thalweg_device::gpu::Driver;
use thalweg_graph::{DType, Graph, Operation, Output, Shape};
use thalweg_ops::{NewGraph, SourceOps};
use thalweg_session::{Feed, Feeding, Fetched, GpuOptions, Parallel, Session, SessionOptions};

use super::golden::{Case, Input};
use super::runtime::{Results, Runtime, attributes};

/// How the inputs of a case come to its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// All by placeholders of known shape: host inputs become known only in the step.
    Fed,
    /// By placeholders of which nothing but the dtype is known when the graph is built.
    FedUnknown,
    /// Host inputs as constants, the others by placeholders of known shape.
    HostConstant,
    /// All as constants, so that folding computes what it can.
    Constant,
}

/// A session of its own for each case.
pub struct SessionRuntime {
    pub threads: usize,
    pub optimise: bool,
    pub entry: Entry,
    /// The GPU that runs what it has kernels for; without one, a CPU runs all.
    pub gpu: Option<Arc<dyn Driver>>,
}

impl SessionRuntime {
    fn constant(&self, host: bool, dtype: DType) -> bool {
        match self.entry {
            Entry::Fed | Entry::FedUnknown => false,
            // A string has no bytes that a constant's kernel could be given.
            Entry::HostConstant => host,
            Entry::Constant => dtype != DType::String,
        }
    }
}

impl Runtime for SessionRuntime {
    fn run(&self, case: &Case) -> Result<Results, String> {
        let g = Graph::new();
        let def = g.registry().get(&case.op).ok_or("there is no such op")?;
        let hosts = host_inputs(case, def);
        let mut feeds: Vec<Feed<'_>> = Vec::new();
        let mut inputs: Vec<Output<'_>> = Vec::new();
        let mut assigns: Vec<Operation<'_>> = Vec::new();
        let mut variables: Vec<(Output<'_>, DType, bool)> = Vec::new();
        let mut initial: Vec<Feed<'_>> = Vec::new();
        for (i, input) in case.inputs.iter().enumerate() {
            match input {
                Input::Tensor(t) if self.constant(hosts[i], t.dtype()) => {
                    inputs.push(g.constant(t))
                }
                Input::Tensor(t) => {
                    let shape = match self.entry {
                        Entry::FedUnknown => Shape::unknown(),
                        _ => t.shape(),
                    };
                    let x = g.placeholder(&format!("input_{i}"), t.dtype(), shape);
                    feeds.push(x.feed(t));
                    inputs.push(x);
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
        let node = attributes(&g, g.op(&case.op).inputs(inputs), case);
        let node = node.name("case").build();
        let reads = |g: &Graph| -> Vec<usize> {
            // An update may be the first value of a variable that had none.
            let updates = g.operation(node.id()).is_update();
            let known = |(_, v): &(usize, &(Output<'_>, DType, bool))| v.2 || updates;
            variables
                .iter()
                .enumerate()
                .filter(known)
                .map(|(i, _)| i)
                .collect()
        };
        let read = |i: usize| {
            let (handle, dtype, _) = variables[i];
            g.op("ReadVariableOp")
                .input(handle)
                .attr("dtype", dtype)
                .output()
        };
        let reads: Vec<Output<'_>> = reads(&g).into_iter().map(read).collect();
        let mut options = SessionOptions::with_threads(self.threads);
        options.optimise = self.optimise;
        options.parallel = Parallel::Always;
        if let Some(gpu) = &self.gpu {
            options.gpus = vec![GpuOptions::driven_by(gpu.clone())];
        }
        let session = Session::with_options(&g, options).map_err(|e| e.to_string())?;
        session.run(&assigns, &initial).map_err(|e| e.to_string())?;
        let fetches = node.outputs();
        let run = || {
            let got = match fetches.is_empty() {
                true => session.run(node, &feeds),
                false => session.run(&fetches, &feeds),
            };
            got.map_err(|e| e.to_string())
        };
        let mut results = Results {
            outputs: values(&run()?, fetches.len()),
            ..Results::default()
        };
        if !case.second_run.is_empty() {
            results.second_run = values(&run()?, fetches.len());
        }
        let after = session.run(&reads, []).map_err(|e| e.to_string())?;
        results.variables_after = values(&after, reads.len());
        Ok(results)
    }
}

fn values(fetched: &Fetched, count: usize) -> Vec<thalweg_graph::Tensor> {
    (0..count)
        .map(|i| fetched.tensor(i).unwrap().clone())
        .collect()
}

/// For each input of a case, whether its value shapes the kernel.
fn host_inputs(case: &Case, def: &thalweg_graph::OpDef) -> Vec<bool> {
    // A list takes what the single arguments leave.
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
