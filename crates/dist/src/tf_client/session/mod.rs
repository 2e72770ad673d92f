//! A client's session: a graph that the client extends, and steps of it.

mod callables;
mod deferred;
mod extension;
mod partial_runs;
mod slow_steps;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use thalweg_graph::{DeviceSpec, Graph, OutputId};
use thalweg_graphdef::messages::RunMetadata;
use thalweg_session::{Cancel, Fetch, RunOptions};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{Reservation, Tensor};
use thalweg_train::run_metadata::step_stats;
use tokio::sync::Notify;
use tokio::time::Instant;
use tonic::Code;

use super::messages::{CallableOptions, DeviceAttributes};
use super::node_names;
use super::partial_run::PartialRun;
use super::request::{LongestNode, Request, Response};
use super::runner::StepRunner;
use super::status::Status;
use super::step_nodes::StepNodes;
use super::task_alias::TaskAlias;
use crate::limits::server_limits::Limits;
use crate::runtime::blocking;
use crate::runtime::platform::Platform;
use deferred::DeferredNodes;
use slow_steps::SlowStepWatch;

/// Time that the end of a session waits for cancelled steps.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// A client's session.
pub struct MasterSession {
    graph: Graph,
    runs: StepRunner,
    /// The name of the task in the client's cluster, if it has another there.
    alias: Option<TaskAlias>,
    limits: Limits,
    platform: Arc<dyn Platform>,
    /// Number of extensions, and of nodes including those of functions. Locked during an extension.
    version: Mutex<Version>,
    /// Locked after the version.
    deferred: Mutex<DeferredNodes>,
    /// Memory of the graph and the callables.
    held: Mutex<Reservation>,
    callables: Mutex<Callables>,
    partial: Mutex<PartialRuns>,
    steps: Mutex<RunningSteps>,
    /// Signals that a step has ended.
    over: Notify,
    slow: SlowStepWatch,
}

/// Callables of a session, by handle.
#[derive(Default)]
struct Callables {
    next: i64,
    /// Each with its bytes.
    kept: HashMap<i64, (CallableOptions, usize)>,
}

#[derive(Default)]
struct Version {
    number: i64,
    nodes: usize,
}

#[derive(Default)]
struct PartialRuns {
    next: u64,
    running: HashMap<String, Arc<PartialRun>>,
}

#[derive(Default)]
struct RunningSteps {
    closed: bool,
    next: u64,
    running: BTreeMap<u64, Cancel>,
}

/// A running step. Closing the session cancels it.
struct RunningStep<'a> {
    session: &'a MasterSession,
    number: u64,
}

impl Drop for RunningStep<'_> {
    fn drop(&mut self) {
        self.session.steps().running.remove(&self.number);
        self.session.over.notify_waiters();
    }
}

impl MasterSession {
    pub(super) fn new(
        graph: Graph,
        runs: StepRunner,
        alias: Option<TaskAlias>,
        limits: &Limits,
        held: Reservation,
        platform: Arc<dyn Platform>,
    ) -> MasterSession {
        MasterSession {
            graph,
            runs,
            alias,
            limits: limits.clone(),
            platform,
            version: Mutex::default(),
            deferred: Mutex::default(),
            held: Mutex::new(held),
            callables: Mutex::default(),
            partial: Mutex::default(),
            steps: Mutex::default(),
            over: Notify::new(),
            slow: SlowStepWatch::default(),
        }
    }

    /// Returns the devices of each task of the client's cluster, this task's first; `None` if the session is in that of
    /// the server.
    pub(super) fn own_cluster_devices(&self) -> Option<Vec<Vec<DeviceSpec>>> {
        self.runs.own_cluster_devices()
    }

    /// Gives devices their names in the client's cluster.
    pub(super) fn rename_devices(&self, devices: &mut [DeviceAttributes]) {
        if let Some(alias) = &self.alias {
            alias.rename_devices(devices);
        }
    }

    /// Notes a slow step: the next one with the same fetches is traced.
    pub(super) fn was_slow(&self, request: &Request) {
        self.slow.note(request);
    }

    fn steps(&self) -> MutexGuard<'_, RunningSteps> {
        self.steps.lock().unpoisoned()
    }

    /// Runs a step; `cancel` ends it.
    ///
    /// # Errors
    /// The request is invalid, or the step has failed.
    pub fn run(&self, request: &Request, cancel: &Cancel) -> Result<Response, Status> {
        if request.fetches.is_empty() && request.targets.is_empty() && request.feeds.is_empty() {
            return Err(Status::invalid(
                "Must specify at least one target to fetch or execute.",
            ));
        }
        let fed = request.feeds.iter().map(|(name, _)| &**name);
        node_names::check_disjoint(fed, request.fetches.iter().map(|f| &**f))?;
        let named = request.fetches.iter().chain(&request.targets);
        let named = named.chain(request.feeds.iter().map(|(name, _)| name));
        self.add_needed(named.map(|n| &**n))?;
        let mut fetches = Vec::with_capacity(request.fetches.len() + request.targets.len());
        for name in &request.fetches {
            fetches.push(Fetch::Value(node_names::fetch(&self.graph, name)?));
        }
        let targets = node_names::targets(&self.graph, &request.targets)?;
        fetches.extend(targets.into_iter().map(Fetch::Run));
        let mut feeds = Vec::with_capacity(request.feeds.len());
        for (name, value) in &request.feeds {
            feeds.push((node_names::feed(&self.graph, name)?, value.clone()));
        }
        let asked = request.options.unwrap_or_default();
        let limit = u64::try_from(asked.timeout_in_ms).unwrap_or(0);
        let mut options = RunOptions::new()
            .cancelled_by(cancel)
            .timeout((limit > 0).then(|| Duration::from_millis(limit)));
        // As in TensorFlow, each level but NO_TRACE gives the nodes' times.
        let (traced, watched) = (asked.trace_level > 0, self.slow.watches(request));
        if traced || watched {
            options = options.traced();
        }
        let running = self.enter(cancel)?;
        let began = SystemTime::now();
        let data = self.graph.snapshot();
        let result = self.runs.run(&data, &fetches, &feeds, &options);
        drop(running);
        let (values, trace) = result.map_err(|e| self.failed(e, cancel))?;
        if trace.dropped > 0 {
            tracing::warn!(
                dropped = trace.dropped,
                "events of a trace were left out: raise --memory, or trace a shorter step"
            );
        }
        let mut metadata = RunMetadata::default();
        if traced || asked.output_partition_graphs {
            let placement = self.runs.placed(&data).map_err(Status::from)?;
            let fed: Vec<OutputId> = feeds.iter().map(|(output, _)| *output).collect();
            let nodes = StepNodes::new(&data, placement, &fetches, &fed);
            if asked.output_partition_graphs {
                metadata.partition_graphs = nodes.partitions()?;
            }
            if traced {
                let stats = step_stats(&self.graph, nodes.each(), began, &trace);
                metadata.step_stats = Some(stats);
            }
            if let Some(alias) = &self.alias {
                alias.rename_metadata(&mut metadata);
            }
        }
        let values = values.into_iter().take(request.fetches.len());
        let values: Option<Vec<Tensor>> = values.collect();
        Ok(Response {
            values: values.unwrap_or_default(),
            metadata,
            longest: watched.then(|| LongestNode::of(&trace)).flatten(),
        })
    }

    fn enter(&self, cancel: &Cancel) -> Result<RunningStep<'_>, Status> {
        let mut steps = self.steps();
        if steps.closed {
            return Err(Status::new(Code::FailedPrecondition, "Session is closed."));
        }
        let number = steps.next;
        steps.next += 1;
        steps.running.insert(number, cancel.clone());
        Ok(RunningStep {
            session: self,
            number,
        })
    }

    /// Cancels all steps, and refuses new ones.
    pub(super) fn cancel(&self) {
        let mut steps = self.steps();
        steps.closed = true;
        steps.running.values().for_each(Cancel::cancel);
    }

    /// Cancels all steps, waits for their ends, and refuses new ones. A step that does not end within a few seconds
    /// goes on by itself. `true` if all have ended.
    pub(super) fn close(&self) -> bool {
        self.close_until(Instant::now() + CLOSE_TIMEOUT)
    }

    /// As [`MasterSession::close`], with this time limit.
    pub(super) fn close_until(&self, end: Instant) -> bool {
        self.cancel();
        let over = async {
            loop {
                let changed = self.over.notified();
                if self.is_idle() {
                    return;
                }
                changed.await;
            }
        };
        if !self.is_idle() {
            let limited = async { Ok(tokio::time::timeout_at(end, over).await) };
            // A timeout, or the end of the platform, is checked below.
            let _ = blocking::block_on(&*self.platform, limited);
        }
        let ended = self.is_idle();
        self.end();
        ended
    }

    /// `true` if no step runs.
    fn is_idle(&self) -> bool {
        self.steps().running.is_empty()
    }

    /// Cancels all steps, and closes the session on other tasks, without waiting.
    pub(super) fn end(&self) {
        self.cancel();
        self.runs.close();
    }

    /// Returns the status of a failed step for the client.
    fn failed(&self, status: Status, cancel: &Cancel) -> Status {
        match cancel.is_cancelled() && self.steps().closed {
            true => Status::new(
                Code::Cancelled,
                "Step was cancelled by an explicit call to `Session::Close()`.",
            ),
            false => status,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::server_limits::memory_account;
    use crate::runtime::platform::system;
    use thalweg_ops::NewGraph;
    use thalweg_session::{Engine, SessionOptions};

    #[test]
    fn closing_a_session_does_not_wait_for_a_hanging_step() {
        let options = SessionOptions::new().threads(1);
        let runs = StepRunner::local(Engine::new(&options).unwrap(), options);
        let held = Reservation::of(Some(&memory_account(1000)));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let platform = system(runtime.handle().clone());
        let session =
            MasterSession::new(Graph::new(), runs, None, &Limits::default(), held, platform);
        let cancel = Cancel::new();
        let running = session.enter(&cancel).unwrap();
        let end = Instant::now() + Duration::from_millis(20);
        assert!(!session.close_until(end));
        assert!(cancel.is_cancelled() && session.enter(&cancel).is_err());
        drop(running);
        assert!(session.close());
    }
}
