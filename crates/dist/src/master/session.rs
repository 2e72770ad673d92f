//! A session: a graph that its client sends, piece by piece, and steps of it.

mod callables;
mod slow;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use prost::Message;
use thalweg_graph::{Graph, Output, OutputId};
use thalweg_graphdef::messages::FunctionDef;
use thalweg_graphdef::{GraphDef, ImportOptions, names as graph_names};
use thalweg_ops::NewGraph;
use thalweg_session::{Cancel, Fetch, RunOptions};
use thalweg_tensor::Tensor;
use tokio::sync::Notify;
use tokio::time::Instant;
use tonic::Code;

use callables::Callables;
pub(super) use slow::Longest;
use slow::Slow;

use super::partial::{Ends, PartialRun};
use super::runs::Runs;
use super::{Room, names, stats, wait};
use crate::account::Held;
use crate::limits::names::{GRAPH_BYTES, GRAPH_NODES, SESSION_BYTES};
use crate::limits::{BYTES_PER_NODE, Limits, met};
use crate::locked::locked;
use crate::messages::{RunMetadata, RunOptions as Asked};
use crate::platform::Platform;
use crate::status::Status;

/// How long the end of a session waits for steps that were cancelled.
pub(super) const CLOSE: Duration = Duration::from_secs(5);
/// What says FULL_TRACE.
const FULL_TRACE: i32 = 3;

/// A step that a client asks for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Names of outputs, and their values.
    pub feeds: Vec<(String, Tensor)>,
    /// Names of outputs.
    pub fetches: Vec<String>,
    /// Names of nodes.
    pub targets: Vec<String>,
    /// How.
    pub options: Option<Asked>,
}

/// What a step gave.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// A value for each fetch, in order.
    pub values: Vec<Tensor>,
    /// What was recorded.
    pub metadata: RunMetadata,
    /// The node that took longest, where the step was watched.
    pub(super) longest: Option<Longest>,
}

/// A client's session.
pub struct MasterSession {
    graph: Graph,
    runs: Runs,
    limits: Limits,
    platform: Arc<dyn Platform>,
    /// How often the graph was extended, and how many nodes came, those of functions counted. Held
    /// while it is.
    version: Mutex<Version>,
    /// What the graph and the callables take.
    held: Mutex<Held>,
    callables: Mutex<Callables>,
    partial: Mutex<Partial>,
    steps: Mutex<Steps>,
    /// A step has ended.
    over: Notify,
    slow: Slow,
}

#[derive(Default)]
struct Version {
    number: i64,
    nodes: usize,
}

#[derive(Default)]
struct Partial {
    next: u64,
    running: HashMap<String, Arc<PartialRun>>,
}

#[derive(Default)]
struct Steps {
    closed: bool,
    next: u64,
    running: BTreeMap<u64, Cancel>,
}

/// A step that runs, told of when the session is closed.
struct Running<'a> {
    session: &'a MasterSession,
    number: u64,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.session.steps().running.remove(&self.number);
        self.session.over.notify_waiters();
    }
}

/// Bytes that a session takes, given back unless what they are for is kept.
struct Growth<'a>(&'a MasterSession, u64);

impl Growth<'_> {
    fn keep(mut self) {
        self.1 = 0;
    }
}

impl Drop for Growth<'_> {
    fn drop(&mut self) {
        locked(&self.0.held).less(self.1);
    }
}

impl MasterSession {
    pub(super) fn new(
        runs: Runs,
        limits: &Limits,
        held: Held,
        platform: Arc<dyn Platform>,
    ) -> MasterSession {
        MasterSession {
            graph: Graph::new(),
            runs,
            limits: limits.clone(),
            platform,
            version: Mutex::default(),
            held: Mutex::new(held),
            callables: Mutex::default(),
            partial: Mutex::default(),
            steps: Mutex::default(),
            over: Notify::new(),
            slow: Slow::default(),
        }
    }

    /// Notes that a step was slow: the next one that fetches the same is watched.
    pub(super) fn was_slow(&self, request: &Request) {
        self.slow.note(request);
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        locked(&self.steps)
    }

    /// Adds nodes and functions; `expected` is the version that the client has seen. The message takes so many
    /// `bytes`. Gives the new version.
    ///
    /// # Errors
    /// What is wrong with the nodes, or they are too many; nothing is added then.
    pub(super) fn extend(
        &self,
        def: &GraphDef,
        expected: Option<i64>,
        bytes: u64,
    ) -> Result<i64, Status> {
        let mut version = locked(&self.version);
        if let Some(expected) = expected
            && expected != version.number
        {
            let text = format!(
                "Current version is {} but caller expected {expected}.",
                version.number
            );
            return Err(Status::new(Code::Aborted, text));
        }
        let functions = def.library.iter().flat_map(|l| &l.function);
        // Functions come again with each extension.
        let new = |f: &&FunctionDef| {
            let name = f.signature.as_ref().map_or("", |s| &*s.name);
            self.graph.function(name).is_none()
        };
        let (new, known): (Vec<_>, Vec<_>) = functions.partition(new);
        let inside: usize = new.iter().map(|f| f.node_def.len()).sum();
        let added = def.node.len().saturating_add(inside);
        let nodes = version.nodes.saturating_add(added);
        if nodes > self.limits.graph_nodes {
            let most = self.limits.graph_nodes;
            let text = format!("a graph of more than {most} nodes is not taken by this server");
            return Err(met(GRAPH_NODES, &text));
        }
        let known: usize = known.iter().map(|f| f.encoded_len()).sum();
        let share = 1.0 - known as f64 / def.encoded_len().max(1) as f64;
        // The graph has the nodes of the message, and a plan has them once more.
        let bytes = (2.0 * bytes as f64 * share) as u64 + added as u64 * BYTES_PER_NODE;
        let growth = self.hold(bytes)?;
        for node in &def.node {
            if self.graph.find(&node.name).is_some() {
                return Err(Status::invalid(format!(
                    "GraphDef argument to Extend includes node '{}', which was created by a \
                     previous call to Create or Extend in this session.",
                    node.name
                )));
            }
        }
        let options = ImportOptions {
            input_map: self.used(def)?,
            origin: "the client's graph".to_owned(),
            max_expanded_bytes: self.limits.expanded_bytes.min(self.room()),
            max_nodes: self.limits.graph_nodes,
            ..ImportOptions::default()
        };
        // What cannot be placed is not taken: the client sends it again with what it adds next.
        let filled = Cell::new(None);
        let placed = |graph: &Graph, expanded: usize| {
            let data = graph.snapshot();
            self.limits.ops.check(&data)?;
            filled.set(None);
            filled.set(Some(self.hold(expanded as u64)?));
            self.runs.placed(&data)
        };
        thalweg_graphdef::import_and(&self.graph, def, &options, placed)?;
        growth.keep();
        if let Some(filled) = filled.take() {
            filled.keep();
        }
        version.nodes = nodes;
        version.number += i64::from(expected.is_some());
        Ok(version.number)
    }

    /// Counts bytes that the session takes, until they are given back.
    fn hold(&self, bytes: u64) -> Result<Growth<'_>, Status> {
        let mut held = locked(&self.held);
        let most = self.limits.session_bytes;
        if held.bytes().saturating_add(bytes) > most {
            let text = format!("a session whose graph takes more than {most} bytes is not taken");
            return Err(met(SESSION_BYTES, &text));
        }
        held.more(bytes).map_err(|full| {
            let text = format!(
                "the graphs of all sessions take {} bytes, as many as they may: close one",
                full.most
            );
            met(GRAPH_BYTES, &text)
        })?;
        Ok(Growth(self, bytes))
    }

    /// How many bytes more the session may take.
    fn room(&self) -> usize {
        let left = self.limits.session_bytes - locked(&self.held).bytes();
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// The outputs and nodes of the graph that nodes of `def` use, by the names that they use.
    fn used(&self, def: &GraphDef) -> Result<BTreeMap<String, Output<'_>>, Status> {
        let own: HashSet<&str> = def.node.iter().map(|n| &*n.name).collect();
        let mut used = BTreeMap::new();
        for node in &def.node {
            for input in &node.input {
                let (name, index, key) = match input.strip_prefix('^') {
                    Some(name) => (name, None, input.clone()),
                    None => match graph_names::output(input) {
                        Some((name, index)) => (name, Some(index), format!("{name}:{index}")),
                        // The import says what is wrong with it.
                        None => continue,
                    },
                };
                if own.contains(name) || used.contains_key(&key) {
                    continue;
                }
                let found = self.graph.find(name);
                let found = found.ok_or_else(|| {
                    let text = format!("Node '{}': Unknown input node '{input}'", node.name);
                    Status::invalid(text)
                })?;
                let output = match index {
                    Some(_) => graph_names::find_output(&self.graph, &key),
                    // Whoever waits for a node needs none of its outputs.
                    None => Some(found.output(0)),
                };
                let output = output.ok_or_else(|| {
                    let text = format!("Node '{}': '{input}' has no such output", node.name);
                    Status::invalid(text)
                })?;
                used.insert(key, output);
            }
        }
        Ok(used)
    }

    /// Runs a step; `cancel` ends it.
    ///
    /// # Errors
    /// What is wrong with what is asked, and what went wrong in the step.
    pub fn run(&self, request: &Request, cancel: &Cancel) -> Result<Response, Status> {
        if request.fetches.is_empty() && request.targets.is_empty() && request.feeds.is_empty() {
            return Err(Status::invalid(
                "Must specify at least one target to fetch or execute.",
            ));
        }
        let fed = request.feeds.iter().map(|(name, _)| &**name);
        names::apart(fed, request.fetches.iter().map(|f| &**f))?;
        let mut fetches = Vec::with_capacity(request.fetches.len() + request.targets.len());
        for name in &request.fetches {
            fetches.push(Fetch::Value(names::fetch(&self.graph, name)?));
        }
        let targets = names::targets(&self.graph, &request.targets)?;
        fetches.extend(targets.into_iter().map(Fetch::Run));
        let mut feeds = Vec::with_capacity(request.feeds.len());
        for (name, value) in &request.feeds {
            feeds.push((names::feed(&self.graph, name)?, value.clone()));
        }
        let asked = request.options.unwrap_or_default();
        let mut options = RunOptions::new().cancelled_by(cancel);
        let (traced, watched) = (asked.trace_level == FULL_TRACE, self.slow.watches(request));
        options.trace = traced || watched;
        let limit = u64::try_from(asked.timeout_in_ms).unwrap_or(0);
        options.timeout = (limit > 0).then(|| Duration::from_millis(limit));
        let running = self.enter(cancel)?;
        let began = SystemTime::now();
        let data = self.graph.snapshot();
        let result = self.runs.run(&data, &fetches, &feeds, &options);
        drop(running);
        let (values, trace) = result.map_err(|e| self.failed(e, cancel))?;
        let mut metadata = RunMetadata::default();
        if traced {
            metadata.step_stats = Some(stats::step_stats(&self.graph, began, &trace));
        }
        let values = values.into_iter().take(request.fetches.len());
        let values: Option<Vec<Tensor>> = values.collect();
        Ok(Response {
            values: values.unwrap_or_default(),
            metadata,
            longest: watched.then(|| Longest::of(&trace)).flatten(),
        })
    }

    fn enter(&self, cancel: &Cancel) -> Result<Running<'_>, Status> {
        let mut steps = self.steps();
        if steps.closed {
            return Err(Status::new(Code::FailedPrecondition, "Session is closed."));
        }
        let number = steps.next;
        steps.next += 1;
        steps.running.insert(number, cancel.clone());
        Ok(Running {
            session: self,
            number,
        })
    }

    /// Cancels all steps; none begins any more.
    pub(super) fn cancel(&self) {
        let mut steps = self.steps();
        steps.closed = true;
        steps.running.values().for_each(Cancel::cancel);
    }

    /// Cancels all steps and waits for their ends; none begins any more. A step that does not end within a few
    /// seconds goes on to its end by itself. Whether all have ended.
    pub(super) fn close(&self) -> bool {
        self.close_until(Instant::now() + CLOSE)
    }

    /// As [`MasterSession::close`], with another end of the time.
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
            // What is late, or a platform that ends, is seen below.
            let _ = wait::waited(&*self.platform, limited);
        }
        let ended = self.is_idle();
        self.end();
        ended
    }

    /// Whether no step runs.
    fn is_idle(&self) -> bool {
        self.steps().running.is_empty()
    }

    /// Cancels all steps, and gives up what other tasks hold for the session; waits for nothing.
    pub(super) fn end(&self) {
        self.cancel();
        self.runs.close();
    }

    /// Begins a step whose feeds and fetches come in pieces; gives its handle.
    ///
    /// # Errors
    /// It names what is not there.
    pub(super) fn begin_partial(
        self: &Arc<Self>,
        feeds: &[String],
        fetches: &[String],
        targets: &[String],
        room: Room,
    ) -> Result<String, Status> {
        let handle = {
            let mut partial = locked(&self.partial);
            partial.next += 1;
            (partial.next - 1).to_string()
        };
        names::apart(feeds.iter().map(|f| &**f), fetches.iter().map(|f| &**f))?;
        let find = |all: &[String], find: fn(&Graph, &str) -> Result<OutputId, Status>| {
            let found = all.iter().map(|n| Ok((n.clone(), find(&self.graph, n)?)));
            found.collect::<Result<Vec<_>, Status>>()
        };
        let (fed, fetched) = (find(feeds, names::feed)?, find(fetches, names::fetch)?);
        let mut wanted: Vec<Fetch> = fetched.iter().map(|(_, o)| Fetch::Value(*o)).collect();
        let targets = names::targets(&self.graph, targets)?;
        wanted.extend(targets.into_iter().map(Fetch::Run));
        let outputs: Vec<OutputId> = fed.iter().map(|(_, o)| *o).collect();
        let data = self.graph.snapshot();
        let pieces = self.runs.prepare_pieces(&data, &wanted, &outputs)?;
        let cancel = Cancel::new();
        let platform = self.platform.clone();
        let run = PartialRun::new(fed, fetched, (cancel.clone(), platform), room);
        let run = Arc::new(run);
        let (session, client) = (self.clone(), run.client().clone());
        let work = move || {
            let _ends = Ends(client.clone());
            let options = RunOptions::new().cancelled_by(&cancel);
            let result = session.enter(&cancel).and_then(|running| {
                let done = session.runs.run_pieces(&pieces, client.clone(), &options);
                drop(running);
                done.map_err(|e| session.failed(e, &cancel))
            });
            client.end(result);
        };
        // Dropped, it goes on; where it has no thread that is known at once.
        let mut under = self.platform.apart(Box::new(work));
        if let Poll::Ready(ended) = under.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            ended?;
        }
        locked(&self.partial).running.insert(handle.clone(), run);
        Ok(handle)
    }

    /// Gives some feeds of a step in pieces, and takes some fetches.
    ///
    /// # Errors
    /// See [`PartialRun::go_on`]; there is no such step.
    pub(super) fn go_on(&self, handle: &str, request: Request) -> Result<Vec<Tensor>, Status> {
        let run = locked(&self.partial).running.get(handle).cloned();
        let run = run.ok_or_else(|| {
            Status::invalid("Must run PartialRunSetup before performing partial runs")
        })?;
        let data = self.graph.snapshot();
        let result = run.go_on(&data, request.feeds, &request.fetches);
        let over = match &result {
            Ok((_, over)) => *over,
            // A mistake of the client leaves the step as it was.
            Err(_) => run.has_failed(),
        };
        if over {
            locked(&self.partial).running.remove(handle);
        }
        result.map(|(values, _)| values)
    }

    /// Ends a step in pieces whose client has gone.
    pub(super) fn abandon(&self, handle: &str) {
        if let Some(run) = locked(&self.partial).running.remove(handle) {
            run.cancel().cancel();
        }
    }

    /// What a client is told of a step that failed.
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
    use crate::account::Account;
    use crate::platform::system;
    use thalweg_session::{Engine, SessionOptions};

    #[test]
    fn the_end_of_a_session_does_not_wait_for_a_step_that_does_not_end() {
        let options = SessionOptions::new().threads(1);
        let runs = Runs::here(Engine::new(&options).unwrap(), options);
        let held = Account::new(1000).open();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let platform = system(runtime.handle().clone());
        let session = MasterSession::new(runs, &Limits::new(), held, platform);
        let cancel = Cancel::new();
        let running = session.enter(&cancel).unwrap();
        let end = Instant::now() + Duration::from_millis(20);
        assert!(!session.close_until(end));
        assert!(cancel.is_cancelled() && session.enter(&cancel).is_err());
        drop(running);
        assert!(session.close());
    }
}
