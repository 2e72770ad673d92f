//! Runtimes for the table of op cases. A runtime (CPU, GPU, cluster) implements one trait; the cases are the same for
//! all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use thalweg_device::{Argument, Cpu, Variable, evaluate};
use thalweg_graph::{Attr, AttrKind, Graph, Node};
use thalweg_ops::{NewGraph, SourceOps};
use thalweg_tensor::{Shape, Tensor};

use super::golden::{Case, Input, difference, numbers};

/// Results of a case.
#[derive(Default)]
pub struct Results {
    pub outputs: Vec<Tensor>,
    pub second_run: Vec<Tensor>,
    pub variables_after: Vec<Tensor>,
    /// Additional tolerance, as a share of the largest expected number, for the algorithm that a library has chosen.
    pub loss: f64,
}

/// Runs op cases.
pub trait Runtime {
    /// Runs a case, twice where it has a second run.
    fn run(&self, case: &Case) -> Result<Results, String>;
}

/// Runs one node directly on tensors, without session or plan.
pub struct Direct {
    cpu: Cpu,
}

impl Direct {
    pub fn new(threads: usize) -> Direct {
        Direct {
            cpu: Cpu::new(threads),
        }
    }
}

/// Adds the node of a case to a graph, with a placeholder or a variable's handle for each input.
pub fn build<'g>(g: &'g Graph, case: &Case) -> thalweg_graph::Operation<'g> {
    let mut node = g.op(&case.op);
    for (i, input) in case.inputs.iter().enumerate() {
        let name = format!("input_{i}");
        node = node.input(match input {
            Input::Tensor(t) => g.placeholder(&name, t.dtype(), t.shape()),
            Input::Variable(dtype, dims, _) => g
                .op("VarHandleOp")
                .attr("dtype", *dtype)
                .attr("shape", Shape::known(dims))
                .name(&name)
                .output(),
        });
    }
    attributes(g, node, case).name("case").build()
}

/// Sets the attributes of a case on a node.
pub fn attributes<'g>(
    g: &'g Graph,
    mut node: thalweg_graph::NodeBuilder<'g>,
    case: &Case,
) -> thalweg_graph::NodeBuilder<'g> {
    let known = g.registry().get(&case.op);
    for (name, value) in &case.attrs {
        // Attributes that do not affect the result may be unknown to the op.
        let def = known.and_then(|op| op.attr(name));
        if known.is_some() && def.is_none() {
            continue;
        }
        // The table does not tell what an empty list has none of.
        let lists_types = def.is_some_and(|def| def.kind == AttrKind::Types);
        node = match value {
            Attr::Ints(none) if none.is_empty() && lists_types => {
                node.attr(name, Attr::Types(Default::default()))
            }
            value => node.attr(name, value.clone()),
        };
    }
    node
}

impl Runtime for Direct {
    fn run(&self, case: &Case) -> Result<Results, String> {
        let g = Graph::new();
        let id = build(&g, case).id();
        if let Some(error) = g.errors().first() {
            return Err(error.to_string());
        }
        let data = g.snapshot();
        let node: &Node = data.node(id);
        let op = thalweg_ops::kernels()[node.op.name];
        let mut variables = Vec::new();
        for input in &case.inputs {
            if let Input::Variable(dtype, dims, value) = input {
                let v = Arc::new(Variable::new("v", *dtype, Shape::known(dims)));
                if let Some(value) = value {
                    v.assign(value.clone()).map_err(|e| e.to_string())?;
                }
                variables.push(v);
            }
        }
        let mut next = variables.iter();
        let arguments: Vec<Argument<'_>> = case
            .inputs
            .iter()
            .map(|input| match input {
                Input::Tensor(t) => Argument::Value(t),
                Input::Variable(..) => Argument::Variable(next.next().unwrap()),
            })
            .collect();

        let counter = AtomicU64::new(0);
        let run =
            || evaluate(&self.cpu, op, node, &arguments, Some(&counter)).map_err(|e| e.to_string());
        let mut results = Results {
            outputs: run()?,
            ..Results::default()
        };
        if !case.second_run.is_empty() {
            results.second_run = run()?;
        }
        results.variables_after = variables.iter().filter_map(|v| v.value()).collect();
        Ok(results)
    }
}

/// Runs cases; panics with the failures by op.
pub fn run_cases(runtime: &dyn Runtime, cases: &[Case]) {
    let mut failures: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for case in cases {
        if let Some(wrong) = failure_of(runtime, case) {
            let list = failures.entry(&case.op).or_default();
            list.push(format!("{}: {wrong}", case.name));
        }
    }
    let failed: usize = failures.values().map(Vec::len).sum();
    let mut report = format!("{failed} of {} cases fail\n", cases.len());
    for (op, list) in &failures {
        report += &format!("{op}: {}\n", list.len());
        let shown = if failures.len() > 1 { 2 } else { 12 };
        list.iter()
            .take(shown)
            .for_each(|l| report += &format!("    {l}\n"));
    }
    assert!(failures.is_empty(), "{report}");
}

/// Describes the failure of a case; `None` where it passes.
pub fn failure_of(runtime: &dyn Runtime, case: &Case) -> Option<String> {
    let found = match runtime.run(case) {
        Err(e) => return Some(e),
        Ok(found) => found,
    };
    let case = &with_additional_tolerance(case, found.loss);
    let outputs = compare("output", &found.outputs, &case.outputs, case);
    let second = || {
        compare(
            "second run's output",
            &found.second_run,
            &case.second_run,
            case,
        )
    };
    let variables = || match &case.variables_after[..] {
        [] => None,
        expected => compare("variable", &found.variables_after, expected, case),
    };
    outputs.or_else(second).or_else(variables)
}

/// The case with an additional tolerance, as a share of the largest number.
fn with_additional_tolerance(case: &Case, loss: f64) -> Case {
    let mut case = case.clone();
    if loss > 0.0 {
        let largest = |t: &Tensor| numbers(t).into_iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        let largest = case.outputs.iter().map(largest).fold(0.0, f64::max);
        case.tolerance.abs += loss * largest;
    }
    case
}

fn compare(what: &str, found: &[Tensor], expected: &[Tensor], case: &Case) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!(
            "{} {what}s in place of {}",
            found.len(),
            expected.len()
        ));
    }
    found
        .iter()
        .zip(expected)
        .enumerate()
        .find_map(|(i, (f, e))| Some(format!("{what} {i}: {}", difference(f, e, case.tolerance)?)))
}
