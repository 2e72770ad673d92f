//! Requests for plans: fetches, feeds and the context of compilation.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use thalweg_device::{Collectives, Device, Files, Printer, Variable};
use thalweg_graph::{Fact, GraphData, NodeId, OutputId};
use thalweg_tensor::DType;
use thalweg_tensor::shape::checked_elements;

use crate::error::SessionError;
use crate::kernels::Kernels;
use crate::options::Parallel;
use crate::store::{SessionState, Store};

/// A fetch: an output's value, or a node to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fetch {
    /// The output's value.
    Value(OutputId),
    /// Runs the node.
    Run(NodeId),
}

impl Fetch {
    /// Returns its name in a graph: of an output (`loss:0`), or of a node (`train`).
    pub fn name(self, data: &GraphData) -> String {
        match self {
            Fetch::Value(output) => data.output_name(output),
            Fetch::Run(node) => match data.get(node) {
                Some(node) => node.name.clone(),
                None => "<invalid>".to_owned(),
            },
        }
    }
}

/// The fetches, feeds and placement that a plan is made for.
pub struct Request<'a> {
    /// The feeds, with the dtype and shape of each.
    pub feeds: &'a [(OutputId, Fact)],
    /// The fetches, in order.
    pub fetches: &'a [Fetch],
    /// By node: the number of its device.
    pub devices: &'a [u32],
    /// By feed: the variable that it is the handle of. May be shorter.
    pub variables: &'a [Option<Arc<Variable>>],
}

/// The context of compilation: kernels, devices, state and options.
#[derive(Clone, Copy)]
pub struct PlanContext<'a> {
    /// The kernels, by op.
    pub kernels: &'a Kernels,
    /// The devices, by number.
    pub devices: &'a [Device],
    /// Variables and other state that outlives steps.
    pub store: &'a Store,
    /// The files that steps may use.
    pub files: &'a Files,
    /// The collectives of ranks, where there are several.
    pub collectives: Option<&'a Arc<dyn Collectives>>,
    /// The printer of Print ops, in place of standard error.
    pub printer: Option<&'a Printer>,
    /// The state of the session.
    pub session: &'a SessionState,
    /// Parallelism of independent nodes.
    pub parallel: Parallel,
    /// Number of threads that the machine runs at once.
    pub cores: usize,
    /// `true` if constants are folded and equal nodes shared.
    pub optimise: bool,
    /// `true` if nodes are fused: not where each value is checked.
    pub fuse: bool,
    /// `true` if every value has memory of its own: a client that gives values one after the other, and waits for
    /// results between them, must not wait for memory that a later one frees.
    pub separate_memory: bool,
    /// Of the plan of a function: the calls that led to it. Each has random numbers of its own.
    pub path: &'a str,
    /// Maximum estimated bytes of a plan; `None` for no limit. A larger one is an error before it takes the memory.
    pub max_bytes: Option<usize>,
}

impl PlanContext<'_> {
    /// Returns the number of instructions of a device that may run at the same time.
    pub(crate) fn threads(&self, device: usize) -> usize {
        let threads = self.devices[device].host().pool().threads();
        match self.parallel {
            Parallel::Never => 1,
            Parallel::WhereWorth => threads.min(self.cores).max(1),
            Parallel::Always => threads.max(1),
        }
    }

    /// Returns the counter of a random op's node.
    pub fn counter(&self, node: &str) -> Arc<AtomicU64> {
        match self.path {
            "" => self.session.counters.of(node),
            path => self.session.counters.of(&format!("{path}/{node}")),
        }
    }
}

/// Checks that fetches and feeds exist in the graph; returns the dtypes and shapes of the feeds.
///
/// # Errors
/// A fetch or feed that does not exist, is a variable's handle, is fed twice or does not fit.
pub fn check_request<'t>(
    data: &GraphData,
    fetches: &[Fetch],
    feeds: impl Iterator<Item = (OutputId, DType, &'t [usize])>,
) -> Result<Vec<(OutputId, Fact)>, SessionError> {
    let mut facts: Vec<(OutputId, Fact)> = Vec::new();
    for (output, dtype, dims) in feeds {
        let fact = data
            .fact(output)
            .ok_or_else(|| SessionError::NoSuchOutput {
                what: "feed",
                name: data.output_name(output),
            })?;
        if fact.dtype == DType::Resource {
            return Err(SessionError::Handle {
                output: data.output_name(output),
            });
        }
        if facts.iter().any(|(o, _)| *o == output) {
            return Err(SessionError::FedTwice {
                output: data.output_name(output),
            });
        }
        if fact.dtype != dtype || !fact.shape.admits(dims) || checked_elements(dims).is_none() {
            return Err(SessionError::Feed {
                output: data.output_name(output),
                origin: data.node(output.node).origin.clone(),
                dtype: fact.dtype,
                shape: fact.shape.clone(),
                found_dtype: dtype,
                found: dims.into(),
            });
        }
        facts.push((output, Fact::new(dtype, dims.into())));
    }
    for fetch in fetches {
        let output = match *fetch {
            Fetch::Value(output) => output,
            Fetch::Run(node) if data.get(node).is_some() => continue,
            Fetch::Run(node) => OutputId { node, index: 0 },
        };
        match data.fact(output) {
            Some(f) if f.dtype == DType::Resource => {
                return Err(SessionError::Handle {
                    output: data.output_name(output),
                });
            }
            Some(_) => {}
            None => {
                return Err(SessionError::NoSuchOutput {
                    what: "fetch",
                    name: data.output_name(output),
                });
            }
        }
    }
    Ok(facts)
}

/// Returns the dtypes and shapes of feeds that come while the step runs, as far as known.
///
/// # Errors
/// There is no such output.
pub fn partial_feed_facts(
    data: &GraphData,
    feeds: &[OutputId],
) -> Result<Vec<(OutputId, Fact)>, SessionError> {
    let fact = |&output: &OutputId| {
        let missing = || SessionError::NoSuchOutput {
            what: "feed",
            name: data.output_name(output),
        };
        let fact = data.fact(output).ok_or_else(missing)?;
        Ok((output, Fact::new(fact.dtype, fact.shape.clone())))
    };
    feeds.iter().map(fact).collect()
}

#[cfg(test)]
mod tests;
