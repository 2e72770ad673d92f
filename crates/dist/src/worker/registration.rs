//! Registers the parts that a task keeps for its masters.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use thalweg_graph::partition::RECV;
use thalweg_graph::{Attr, DeviceSpec, Fact};
use thalweg_plan::{TaskChannel, TaskPart};
use thalweg_tensor::Tensor;
use thalweg_tensor::sync::Unpoisoned;

use super::registered_part::RegisteredPart;
use super::state::{Worker, WorkerSession};
use super::step::Routes;
use crate::cluster::spec::TaskName;
use crate::error::ClusterError;
use crate::limits::settings::limit_name;
use crate::transport::messages as wire;
use crate::transport::parts::codec::{self, PartLimits};
use crate::transport::peers::Peer;

impl Worker {
    /// Returns the number of values that follow a part's message.
    ///
    /// # Errors
    /// The part has too many nodes or values.
    pub(crate) fn values_of(&self, message: &wire::Part) -> Result<u64, ClusterError> {
        let most = self.limits.graph_nodes;
        let of_regions = message.node.iter().filter_map(|n| n.region.as_ref());
        let nodes = || {
            message
                .node
                .iter()
                .chain(of_regions.clone().flat_map(|r| &r.node))
        };
        let values = nodes().map(|n| u64::from(n.known));
        let values = values.fold(0u64, u64::saturating_add);
        if nodes().count() > most || values > most as u64 {
            let text = format!(
                "a part of more than {most} nodes or values is not taken here: fetch less in one step"
            );
            return Err(self.counts.counted(ClusterError::limit_exceeded(
                const { limit_name("graph_nodes") },
                text,
            )));
        }
        Ok(values)
    }

    /// Registers a part of a message that [`Worker::values_of`] has checked. Returns its number.
    ///
    /// # Errors
    /// The part is invalid.
    pub(crate) fn register(
        &self,
        session: &WorkerSession,
        message: &wire::Part,
        values: Vec<Tensor>,
    ) -> Result<u64, ClusterError> {
        let limits = PartLimits {
            nodes: self.limits.graph_nodes,
            expanded_bytes: self.limits.expanded_bytes,
            ops: &self.limits.ops,
        };
        let part = codec::decoded(message, values.into_iter(), &self.ops, limits);
        let part = part.map_err(|e| self.counts.counted(e.into()))?;
        let own = |number: u32| {
            let name = message.devices.get(number as usize);
            let name = name.ok_or_else(|| ClusterError::invalid("a node stands on no device"))?;
            self.device(name)
        };
        let devices = part.devices.iter().map(|&d| own(d));
        let devices = devices.collect::<Result<_, ClusterError>>()?;
        let peers = message.peers.iter();
        let peers = peers.map(|t| (t.number, (t.job.clone(), t.index)));
        self.keep(session, part, devices, &message.channels, &peers.collect())
    }

    /// Returns the number of a device of this task.
    ///
    /// # Errors
    /// The task has no device of this name.
    pub(crate) fn device(&self, name: &str) -> Result<u32, ClusterError> {
        let mut devices = self.engine.devices().iter();
        let found = devices.position(|d| d.name().to_string() == name);
        let missing = || {
            let has: Vec<String> = self.devices().iter().map(ToString::to_string).collect();
            let has = has.join(", ");
            ClusterError::invalid(format!("there is no device {name} here: there are {has}"))
        };
        found.map(|i| i as u32).ok_or_else(missing)
    }

    /// Registers a part of a master in this process, which refers to devices and tasks by number.
    ///
    /// # Errors
    /// As [`Worker::keep`].
    pub(crate) fn keep_own(
        &self,
        session: &WorkerSession,
        part: TaskPart,
        channels: &[TaskChannel],
        devices: &[DeviceSpec],
        tasks: &[TaskName],
    ) -> Result<u64, ClusterError> {
        let own = |&d: &u32| self.device(&devices[d as usize].to_string());
        let own = part.devices.iter().map(own).collect::<Result<_, _>>()?;
        let peers = tasks.iter().cloned().enumerate();
        let peers = peers.map(|(i, task)| (i as u32, task)).collect();
        let channels = codec::channels(part.task, channels);
        self.keep(session, part, own, &channels, &peers)
    }

    /// Registers a part. Returns its number.
    ///
    /// # Errors
    /// It cannot be planned, or the limit of parts is reached.
    fn keep(
        &self,
        session: &WorkerSession,
        part: TaskPart,
        devices: Vec<u32>,
        channels: &[wire::Channel],
        peers: &HashMap<u32, TaskName>,
    ) -> Result<u64, ClusterError> {
        let mut routes = Routes::default();
        let mut facts: HashMap<i64, Fact> = HashMap::new();
        for (_, node) in part.graph.nodes() {
            if std::ptr::eq(node.op, &RECV)
                && let Some(Attr::Int(channel)) = node.attrs.get("channel")
            {
                facts.insert(*channel, node.outputs[0].clone());
            }
        }
        let mut sources: Vec<(u32, Arc<Peer>)> = Vec::new();
        let (cluster, callers) = match &session.cluster {
            Some(own) => (&own.cluster, &own.peers),
            None => (&self.cluster, &*self.peers),
        };
        for channel in channels {
            if channel.sends {
                routes.sends.insert(channel.number, channel.peer);
                continue;
            }
            let fact = facts.remove(&channel.number);
            let fact = fact.ok_or_else(|| ClusterError::invalid("a channel ends nowhere"))?;
            routes.receives.insert(channel.number, (channel.peer, fact));
            if sources.iter().any(|(number, _)| *number == channel.peer) {
                continue;
            }
            let task = peers.get(&channel.peer);
            let task = task.ok_or_else(|| ClusterError::invalid("a channel comes from nowhere"))?;
            // Only tasks of the cluster are called, whatever a master sends.
            let address = cluster.address(&task.0, task.1);
            let address = address.map_err(|e| ClusterError::invalid(e.to_string()))?;
            sources.push((channel.peer, callers.get(task, address)?));
        }
        let feeds = part.feeds.iter();
        let feeds = feeds.map(|(_, n)| part.graph.node(*n).outputs[0].clone());
        let feeds = feeds.collect();
        let task = part.task;
        let plan = session.runner.prepare(&part, devices);
        let plan = plan.map_err(ClusterError::from)?;
        let mut parts = session.parts.lock().unpoisoned();
        if parts.kept.len() >= self.limits.parts {
            let text = format!(
                "a session may have {} parts of steps: run fewer steps of different fetches, or \
                 feeds of fewer shapes",
                self.limits.parts
            );
            return Err(self.counts.counted(ClusterError::limit_exceeded(
                const { limit_name("parts") },
                text,
            )));
        }
        parts.made += 1;
        let number = parts.made;
        let part = RegisteredPart {
            long: plan.may_take_long(),
            plan: Arc::new(plan),
            feeds,
            routes: Arc::new(routes),
            sources,
            task,
            last: AtomicU64::new(u64::MAX),
        };
        parts.kept.insert(number, Arc::new(part));
        Ok(number)
    }
}
