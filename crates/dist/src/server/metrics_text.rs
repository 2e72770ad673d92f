//! Metrics of a server in the OpenMetrics text format.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::openmetrics::{EncodeResult, MetricEncoder};
use crate::tf_client::master::Master;
use crate::transport::connections::table::ConnectionTable;
use crate::transport::peer_stats::PeerStats;
use crate::worker::state::Worker;

/// Sources of a server's metrics.
pub(crate) struct MetricsText {
    pub(crate) master: Arc<Master>,
    pub(crate) worker: Arc<Worker>,
    pub(crate) connection_table: Arc<ConnectionTable>,
}

impl MetricsText {
    /// Formats all metrics as OpenMetrics text.
    pub(crate) fn text(self: &Arc<Self>) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut out, &registry);
        out
    }
}

impl fmt::Debug for MetricsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Numbers")
    }
}

impl Collector for MetricsText {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> EncodeResult {
        let mut out = MetricEncoder(encoder);
        self.times(&mut out)?;
        self.tallies(&mut out)?;
        self.counters(&mut out)?;
        self.states(&mut out)?;
        self.training(&mut out)?;
        self.waits(&mut out)?;
        self.peers(&mut out)?;
        self.memory(&mut out)
    }
}

impl MetricsText {
    fn times(&self, out: &mut MetricEncoder<'_>) -> EncodeResult {
        let counts = &self.worker.counts;
        for (name, help, times) in [
            (
                "thalweg_step",
                "Steps of clients that went well",
                &counts.steps,
            ),
            (
                "thalweg_part",
                "Parts of other tasks' steps that went well",
                &counts.parts,
            ),
            (
                "thalweg_checkpoint",
                "Checkpoints that were written",
                &counts.checkpoints,
            ),
        ] {
            out.times(name, help, times)?;
        }
        Ok(())
    }

    fn tallies(&self, out: &mut MetricEncoder<'_>) -> EncodeResult {
        let counts = &self.worker.counts;
        for (name, help, label, tally) in [
            (
                "thalweg_steps_failed",
                "Steps of clients that failed",
                "code",
                &counts.failed_steps,
            ),
            (
                "thalweg_parts_failed",
                "Parts of steps that failed",
                "cause",
                &counts.failed_parts,
            ),
            (
                "thalweg_calls_failed",
                "Calls of clients that failed",
                "code",
                &counts.failed_calls,
            ),
            (
                "thalweg_limits_met",
                "Limits that were met",
                "limit",
                &counts.refusals.limits,
            ),
            (
                "thalweg_callers_refused",
                "Callers that were not let in",
                "cause",
                &counts.refusals.callers,
            ),
        ] {
            out.by((name, help), MetricType::Counter, label, &tally.all())?;
        }
        Ok(())
    }

    fn counters(&self, out: &mut MetricEncoder<'_>) -> EncodeResult {
        let counts = &self.worker.counts;
        for (name, help, count) in [
            (
                "thalweg_sessions_made",
                "Sessions that clients have made",
                &counts.sessions_made,
            ),
            (
                "thalweg_sessions_closed",
                "Sessions that clients have closed",
                &counts.sessions_closed,
            ),
            (
                "thalweg_sessions_collected",
                "Sessions that were closed because their clients were gone",
                &counts.sessions_collected,
            ),
            (
                "thalweg_slow_steps",
                "Steps that took longer than slow_step",
                &counts.slow_steps,
            ),
            (
                "thalweg_slow_parts",
                "Parts of steps that took longer than slow_step",
                &counts.slow_parts,
            ),
            (
                "thalweg_checkpoints_failed",
                "Checkpoints that could not be written",
                &counts.failed_checkpoints,
            ),
        ] {
            out.counter(name, help, count)?;
        }
        Ok(())
    }

    fn states(&self, out: &mut MetricEncoder<'_>) -> EncodeResult {
        let (state, worker) = (self.master.state(), &self.worker);
        let (busy, idle) = worker.platform.threads();
        for (name, help, value) in [
            (
                "thalweg_sessions",
                "Sessions of clients that are open",
                state.sessions,
            ),
            (
                "thalweg_steps_running",
                "Steps of clients that run",
                state.steps,
            ),
            (
                "thalweg_parts_running",
                "Parts of steps that run",
                worker.running() as u64,
            ),
            (
                "thalweg_part_threads_busy",
                "Threads that run parts of steps, or wait in one",
                busy as u64,
            ),
            (
                "thalweg_part_threads_idle",
                "Threads that wait for a part of a step",
                idle as u64,
            ),
            (
                "thalweg_call_bytes",
                "Bytes that calls under way hold",
                state.call_bytes,
            ),
            (
                "thalweg_graph_bytes",
                "Bytes that the graphs of sessions take",
                state.graph_bytes,
            ),
            (
                "thalweg_connections",
                "Connections that are open",
                self.connection_table.taken() as u64,
            ),
            (
                "thalweg_draining",
                "1 while the server drains",
                u64::from(worker.drains()),
            ),
        ] {
            out.gauge(name, help, value)?;
        }
        Ok(())
    }

    /// Encodes the newest training step. Before the first one there is no number.
    fn training(&self, out: &mut MetricEncoder<'_>) -> EncodeResult {
        let newest = self.worker.counts.training.newest();
        out.optional_gauge(
            "thalweg_loss",
            "Loss of the program's newest training step",
            newest.map(|(loss, _)| loss),
        )?;
        out.optional_gauge(
            "thalweg_global_step",
            "Global step before the program's newest training step",
            newest.map(|(_, step)| step),
        )
    }

    /// Encodes the numbers of waiting calls, by reason.
    fn waits(&self, out: &mut MetricEncoder<'_>) -> EncodeResult {
        let worker = &self.worker;
        let peer_stats = worker.peers.peer_stats.all();
        let peers = peer_stats.iter().map(|c| c.waiting.load(Ordering::Relaxed));
        let all = [
            ("connection", self.connection_table.waiting()),
            ("message", worker.counts.messages.load(Ordering::Relaxed)),
            ("peer", peers.sum()),
            ("receiver", self.connection_table.answers()),
            ("turn", worker.turns.waiting.load(Ordering::Relaxed)),
        ];
        let all: Vec<_> = all.into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
        let named = ("thalweg_calls_waiting", "Calls that wait, by what for");
        out.by(named, MetricType::Gauge, "for", &all)
    }

    /// Encodes the statistics of peers.
    fn peers(&self, out: &mut MetricEncoder<'_>) -> EncodeResult {
        let peer_stats = self.worker.peers.peer_stats.all();
        for (name, help, count) in PEER_COUNTERS {
            let of = |c: &Arc<PeerStats>| (c.peer.clone(), count(c).load(Ordering::Relaxed));
            let all: Vec<_> = peer_stats.iter().map(of).collect();
            out.by((name, help), MetricType::Counter, "peer", &all)?;
        }
        let receives = |c: &Arc<PeerStats>| (c.peer.clone(), c.receives.load(Ordering::Relaxed));
        let receives: Vec<_> = peer_stats.iter().map(receives).collect();
        let named = (
            "thalweg_receives_waiting",
            "Receives of a step's values that wait for a task",
        );
        out.by(named, MetricType::Gauge, "peer", &receives)?;
        let lost = peer_stats.iter().filter(|c| c.is_lost()).count();
        out.gauge("thalweg_peers_lost", "Tasks that are lost now", lost as u64)?;
        let kind = MetricType::Gauge;
        let (name, help) = (
            "thalweg_peer_silent_seconds",
            "How long ago something last came from a task",
        );
        let mut metric = (out.0).encode_descriptor(name, help, None, kind)?;
        for peer_stats in &peer_stats {
            if let Some(silent) = peer_stats.silent_for() {
                let labels = [("peer", peer_stats.peer.as_str())];
                let mut one = metric.encode_family(&labels)?;
                one.encode_gauge(&silent.as_secs_f64())?;
            }
        }
        Ok(())
    }

    fn memory(&self, out: &mut MetricEncoder<'_>) -> EncodeResult {
        let devices = self.worker.engine.devices();
        let memory = |of: &dyn Fn(&thalweg_device::Device) -> Option<usize>| -> Vec<(String, u64)> {
            let one = |d| Some((thalweg_device::Device::name(d).to_string(), of(d)? as u64));
            devices.iter().filter_map(one).collect()
        };
        let used = memory(&|d| Some(d.memory().used()));
        let named = ("thalweg_memory_bytes", "Bytes in use on a device");
        out.by(named, MetricType::Gauge, "device", &used)?;
        let limit = memory(&|d| d.memory().limit());
        let named = ("thalweg_memory_limit_bytes", "Bytes that a device may use");
        out.by(named, MetricType::Gauge, "device", &limit)
    }
}

/// A counter of each peer: name, help and value.
type PeerCounter = (&'static str, &'static str, fn(&PeerStats) -> &AtomicU64);

const PEER_COUNTERS: [PeerCounter; 4] = [
    (
        "thalweg_link_sent_bytes",
        "Bytes that were written to connections with a task",
        |c| &c.sent,
    ),
    (
        "thalweg_link_received_bytes",
        "Bytes that were read from connections with a task",
        |c| &c.received,
    ),
    (
        "thalweg_link_shared_bytes",
        "Bytes that a task has lent through shared memory",
        |c| &c.shared,
    ),
    ("thalweg_peer_losses", "How often a task was lost", |c| {
        &c.losses
    }),
];
