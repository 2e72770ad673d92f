//! Extensions of a session's graph, and their memory.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};

use prost::Message;
use thalweg_graph::{Graph, GraphData, Output};
use thalweg_graphdef::messages::FunctionDef;
use thalweg_graphdef::{GraphDef, ImportOptions, names};
use thalweg_tensor::sync::Unpoisoned;
use tonic::Code;

use super::MasterSession;
use crate::limits::server_limits::BYTES_PER_NODE;
use crate::limits::settings::limit_name;
use crate::tf_client::refusal::Refusal;
use crate::tf_client::status::{Status, limit_exceeded};

/// Bytes that an output of a node counts: a node may have a million.
const BYTES_PER_OUTPUT: usize = 256;

/// The number of outputs of all nodes, including those of functions.
fn output_count(data: &GraphData) -> usize {
    let own = |data: &GraphData| -> usize { data.nodes().map(|(_, n)| n.outputs.len()).sum() };
    let functions = data.functions().values();
    own(data) + functions.map(|f| own(&f.body)).sum::<usize>()
}

/// Memory of a session's graph. A drop gives it back, unless it is kept.
pub(super) struct GraphGrowth<'a>(&'a MasterSession, usize);

impl GraphGrowth<'_> {
    pub(super) fn keep(mut self) {
        self.1 = 0;
    }
}

impl Drop for GraphGrowth<'_> {
    fn drop(&mut self) {
        self.0.held.lock().unpoisoned().shrink(self.1);
    }
}

impl MasterSession {
    /// Adds nodes and functions. `expected` is the version that the client has seen; the message takes `bytes`.
    /// Returns the new version. Nodes that this server cannot run are kept until a step needs them.
    ///
    /// # Errors
    /// The graph is malformed or too large; nothing is added then.
    pub(crate) fn extend(
        &self,
        def: &GraphDef,
        expected: Option<i64>,
        bytes: usize,
    ) -> Result<i64, Status> {
        let renamed = self.alias.as_ref().map(|alias| alias.to_own(def));
        let def = renamed.as_deref().unwrap_or(def);
        let mut version = self.version.lock().unpoisoned();
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
        // Each extension repeats the functions.
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
            return Err(limit_exceeded(const { limit_name("graph_nodes") }, &text));
        }
        let known: usize = known.iter().map(|f| f.encoded_len()).sum();
        let share = 1.0 - known as f64 / def.encoded_len().max(1) as f64;
        // The graph has the nodes of the message, and a plan has them once more.
        let bytes = (2.0 * bytes as f64 * share) as usize + added * BYTES_PER_NODE as usize;
        let growth = self.hold(bytes)?;
        // Steps that run meanwhile look for deferred nodes: the lock is not held while nodes are added.
        let deferred = self.deferred.lock().unpoisoned();
        for node in &def.node {
            if self.graph.find(&node.name).is_some() || deferred.has(&node.name) {
                return Err(Status::invalid(format!(
                    "GraphDef argument to Extend includes node '{}', which was created by a \
                     previous call to Create or Extend in this session.",
                    node.name
                )));
            }
        }
        let fed = deferred.feed(def);
        drop(deferred);
        let added = match fed {
            true => Err(Refusal::OfNodes(Status::invalid("its inputs are deferred"))),
            false => self.add(def),
        };
        match added {
            Ok(()) => {}
            Err(Refusal::OfNodes(_)) => self.deferred.lock().unpoisoned().keep(def),
            Err(Refusal::OfGraph(status)) => return Err(status),
        }
        growth.keep();
        version.nodes = nodes;
        version.number += i64::from(expected.is_some());
        Ok(version.number)
    }

    /// Adds the deferred nodes that a step needs, which feeds, fetches and targets of these names.
    ///
    /// # Errors
    /// They cannot be added.
    pub(super) fn add_needed<'n>(
        &self,
        names: impl Iterator<Item = &'n str> + Clone,
    ) -> Result<(), Status> {
        let mut deferred = self.deferred.lock().unpoisoned();
        let roots: Vec<String> = match deferred.is_empty() {
            true => return Ok(()),
            false => names.map(|n| names::node(n).to_owned()).collect(),
        };
        let Some(def) = deferred.needed_by(roots.iter().map(|r| &**r)) else {
            return Ok(());
        };
        self.add(&def)?;
        deferred.remove(&def);
        Ok(())
    }

    /// Adds nodes and functions to the graph.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is added then.
    pub(super) fn add(&self, def: &GraphDef) -> Result<(), Refusal> {
        let mut options = ImportOptions::new()
            .origin("the client's graph")
            .max_expanded_bytes(self.limits.expanded_bytes.min(self.room()))
            .max_nodes(self.limits.graph_nodes);
        for (name, output) in self.used(def).map_err(Refusal::OfGraph)? {
            options = options.replacing(name, output);
        }
        let filled = Cell::new(None);
        let before = output_count(&self.graph.snapshot());
        let placed = |graph: &Graph, expanded: usize| {
            let data = graph.snapshot();
            let allowed = self.limits.ops.check(&data);
            allowed.map_err(|e| Refusal::OfGraph(e.into()))?;
            filled.set(None);
            let outputs = output_count(&data).saturating_sub(before);
            let bytes = expanded.saturating_add(outputs.saturating_mul(BYTES_PER_OUTPUT));
            filled.set(Some(self.hold(bytes).map_err(Refusal::OfGraph)?));
            self.runs.placed(&data).map(|_| ())
        };
        thalweg_graphdef::import_and(&self.graph, def, &options, placed)?;
        if let Some(filled) = filled.take() {
            filled.keep();
        }
        Ok(())
    }

    /// Reserves bytes of the session, until they are given back.
    pub(super) fn hold(&self, bytes: usize) -> Result<GraphGrowth<'_>, Status> {
        let mut held = self.held.lock().unpoisoned();
        let most = self.limits.session_bytes;
        if held.bytes().saturating_add(bytes) as u64 > most {
            let text = format!("a session whose graph takes more than {most} bytes is not taken");
            return Err(limit_exceeded(const { limit_name("session_bytes") }, &text));
        }
        if !held.grow(bytes) {
            let text = format!(
                "the graphs of all sessions take {} bytes, as many as they may: close one",
                held.limit().unwrap_or(usize::MAX)
            );
            return Err(limit_exceeded(const { limit_name("graph_bytes") }, &text));
        }
        Ok(GraphGrowth(self, bytes))
    }

    /// Returns the bytes that the session may still take.
    fn room(&self) -> usize {
        let left = self.limits.session_bytes - self.held.lock().unpoisoned().bytes() as u64;
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// Returns the outputs and nodes of the graph that nodes of `def` use, by the names in `def`.
    fn used(&self, def: &GraphDef) -> Result<BTreeMap<String, Output<'_>>, Status> {
        let own: HashSet<&str> = def.node.iter().map(|n| &*n.name).collect();
        let mut used = BTreeMap::new();
        for node in &def.node {
            for input in &node.input {
                let (name, index, key) = match input.strip_prefix('^') {
                    Some(name) => (name, None, input.clone()),
                    None => match names::output(input) {
                        Some((name, index)) => (name, Some(index), format!("{name}:{index}")),
                        // The import reports it.
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
                    Some(_) => names::find_output(&self.graph, &key),
                    // A control input needs no output.
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
}
