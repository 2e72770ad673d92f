//! The target `steps`: mutated graphs of any ops, imported and run.
//!
//! An input is read six bytes at a time. The first six select the session's options and the base graph: a case of the
//! op table (`tests/golden/ops.jsonl.gz`), whose inputs are constants or fed, or one of the golden graphs. Each further
//! six are a mutation: see [`edit`]. Any bytes are a valid input.
//!
//! The graph is imported, and its steps run in a session of this process, with limits on memory and time, and without
//! access to files.

mod base;
mod edit;
mod follow;
mod grown;
mod values;

use std::collections::BTreeSet;
use std::time::Duration;

use thalweg_graph::op::Effect;
use thalweg_graph::{Graph, Output, OutputId, gradients};
use thalweg_graphdef::{ImportOptions, import, names};
use thalweg_ops::NewGraph;
use thalweg_session::{
    CpuOptions, Fetch, Parallel, RunOptions, Session, SessionError, SessionOptions,
};
use thalweg_tensor::Tensor;

pub use base::{BASES, Base};

/// The most bytes of a device.
const MEMORY_LIMIT: usize = 2 << 20;
/// Timeout of a step. A kernel that is running then runs to its end.
const STEP_TIMEOUT: Duration = Duration::from_millis(100);
/// The most changes of a graph.
const MAX_EDITS: usize = 24;
/// Graphs of more nodes are not imported again for each change.
const SMALL_GRAPH_NODES: usize = 64;
/// The most steps, those of initialisation not counted.
const MAX_STEPS: usize = 6;

/// Outcome of an input.
#[derive(Default)]
pub struct Outcome {
    pub imported: bool,
    /// The ops whose kernels ran, if requested: from the traces of steps, and from the fetches of steps with results.
    /// Without constants and placeholders.
    pub ran: BTreeSet<String>,
    /// The ops whose kernels were called and returned an error.
    pub refused: BTreeSet<String>,
    /// The last error.
    pub error: Option<String>,
}

/// Runs an input; `look` requests the ops that ran.
pub fn run(input: &[u8], look: bool) -> Outcome {
    let mut outcome = Outcome::default();
    let Some((&[how, fed, unknown, high, low, which], edits)) = input.split_first_chunk() else {
        return outcome;
    };
    let g = Graph::new();
    let number = usize::from(high) << 8 | usize::from(low);
    let base = BASES.get(number, which.into(), fed, unknown, g.registry());
    let mut edits = edits.as_chunks::<6>().0;
    edits = &edits[..edits.len().min(MAX_EDITS)];
    let Some(base) = imported(&g, base, edits, &mut outcome) else {
        return outcome;
    };
    outcome.imported = true;
    let gradients_of_fetches = if how & 0x20 != 0 {
        gradients_of_fetches(&g, &base)
    } else {
        Vec::new()
    };
    match Session::with_options(&g, session_options(how)) {
        Err(e) => outcome.error = Some(e.to_string()),
        Ok(session) => {
            let mut run_options = RunOptions::new().timeout(STEP_TIMEOUT);
            if look || how & 0x40 != 0 {
                run_options = run_options.traced();
            }
            if how & 0x80 != 0 {
                run_options = run_options.checked();
            }
            steps(&session, &base, &gradients_of_fetches, &run_options, look, &mut outcome);
        }
    }
    outcome
}

/// Imports a graph with all mutations. Where the import fails, mutations that break it are left out, so that most
/// graphs run.
fn imported(g: &Graph, base: Base, edits: &[[u8; 6]], outcome: &mut Outcome) -> Option<Base> {
    let options = ImportOptions::new().max_expanded_bytes(1 << 20).max_nodes(1 << 12);
    let registry = g.registry();
    let with = |base: &Base, edits: &[[u8; 6]]| {
        let mut base = base.clone();
        edits
            .iter()
            .for_each(|e| edit::apply(&mut base, e, registry));
        base
    };
    let all = with(&base, edits);
    let Err(e) = import(g, &all.def, &options) else {
        return Some(all);
    };
    outcome.error = Some(e.to_string());
    if base.def.node.len() > SMALL_GRAPH_NODES {
        return None;
    }
    let mut kept = base;
    for one in edits.chunks(1) {
        let more = with(&kept, one);
        if more.def.node.len() <= SMALL_GRAPH_NODES && import(&Graph::new(), &more.def, &options).is_ok() {
            kept = more;
        }
    }
    import(g, &kept.def, &options).ok().map(|_| kept)
}

fn session_options(how: u8) -> SessionOptions {
    let mut options = SessionOptions::new().optimise(how & 1 == 0);
    let device = CpuOptions::new().memory_limit(MEMORY_LIMIT);
    options = options
        .cpus(if how & 2 == 0 { 2 } else { 1 })
        .each_cpu(device);
    // Starting threads costs more than steps: only some inputs use them.
    options = options.threads(if how & 0xc == 4 { 2 } else { 1 });
    options = options.soft_placement(how & 0x10 != 0);
    options.parallel(if how & 8 == 0 {
        Parallel::WhereWorth
    } else {
        Parallel::Always
    })
}

/// Gradients of the first step's fetches with respect to all placeholders and variables.
fn gradients_of_fetches<'g>(g: &'g Graph, base: &Base) -> Vec<Output<'g>> {
    let fetches_of = base.steps.first().into_iter().flatten();
    let ys: Vec<Output<'_>> = fetches_of
        .filter_map(|n| names::find_output(g, n))
        .filter(|y| y.dtype().is_float())
        .collect();
    let data = g.snapshot();
    let sources = base
        .def
        .node
        .iter()
        .filter(|n| ["Placeholder", "VarHandleOp"].contains(&n.op.as_str()));
    let xs: Vec<Output<'_>> = sources
        .filter_map(|n| names::find_output(g, &n.name))
        .take(8)
        .collect();
    if ys.is_empty() || data.is_empty() {
        return Vec::new();
    }
    gradients(&ys, &xs).into_iter().flatten().collect()
}

fn steps(
    session: &Session<'_>,
    base: &Base,
    gradients_of_fetches: &[Output<'_>],
    options: &RunOptions,
    look: bool,
    outcome: &mut Outcome,
) {
    let g = session.graph();
    let known = base
        .feeds
        .iter()
        .filter_map(|(name, t)| Some((names::find_output(g, name)?.id(), t.clone())));
    let mut feeds: Vec<(OutputId, Tensor)> = known.collect();
    let gradients_of_fetches = gradients_of_fetches
        .iter()
        .map(|s| Fetch::Value(s.id()))
        .collect::<Vec<_>>();
    let all = base
        .inits
        .iter()
        .map(std::slice::from_ref)
        .chain(base.steps.iter().take(MAX_STEPS).map(Vec::as_slice));
    for (i, fetches_of) in all.enumerate() {
        let mut fetches: Vec<Fetch> = fetches_of.iter().filter_map(|name| fetch(g, name)).collect();
        if i == base.inits.len() {
            fetches.extend(&gradients_of_fetches);
        }
        let mut result = session.run_ids(&fetches, &feeds, options);
        if let Err(SessionError::Feed { .. }) = result {
            // The remaining feeds may let the step run.
            feeds.retain(|(output, t)| {
                g.fact(*output)
                    .is_some_and(|f| f.dtype == t.dtype() && f.shape.admits(t.dims()))
            });
            result = session.run_ids(&fetches, &feeds, options);
        }
        match result {
            Err(e) => {
                outcome.error = Some(e.to_string());
                if let SessionError::Kernel { op, .. } = e {
                    outcome.refused.extend(known_op(g, &op));
                }
            }
            Ok((_, trace)) if look => {
                let events = trace.events.iter();
                let nodes = events
                    .flat_map(|e| e.members.iter().chain([&e.node]))
                    .chain(fetches_of);
                outcome.ran.extend(nodes.filter_map(|name| op_of(g, name)));
                outcome
                    .ran
                    .extend(trace.events.iter().filter_map(|e| known_op(g, &e.op)));
            }
            Ok(_) => {}
        }
    }
}

/// The fetch of a name: an output where it has an index, otherwise a node.
fn fetch(g: &Graph, name: &str) -> Option<Fetch> {
    match name.contains(':') {
        true => names::find_output(g, name).map(|o| Fetch::Value(o.id())),
        false => names::find_operation(g, name).map(|o| Fetch::Run(o.id())),
    }
}

/// The op of a node or of an output; `None` for ops without a kernel.
fn op_of(g: &Graph, name: &str) -> Option<String> {
    let operation = names::find_operation(g, name.split(':').next()?)?;
    known_op(g, g.snapshot().get(operation.id())?.op.name)
}

fn known_op(g: &Graph, op: &str) -> Option<String> {
    let def = g
        .registry()
        .get(op)
        .filter(|def| def.name != "Const" && def.effect != Effect::Feed);
    def.map(|def| def.name.to_owned())
}
