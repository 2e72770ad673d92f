//! Tasks, partitioner and plans of a session over a cluster.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thalweg_graph::{DeviceSpec, GraphData};
use thalweg_plan::{PlanCache, TaskPartitioner};
use thalweg_session::{Cancel, Engine, RunOptions, SessionOptions};
use thalweg_tensor::sync::Unpoisoned;

use super::link::{OpenSession, TaskLink};
use super::plan::{ClusterPlan, PlanKey};
use crate::error::{Cause, ClusterError};
use crate::runtime::platform::Platform;
use crate::transport::messages as wire;

/// Interval at which a waiting step checks for cancellation.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(10);

pub(super) struct ClusterRunner {
    /// Request that opens a session on each task. The session's handle cannot be guessed.
    pub(super) asked: wire::Open,
    pub(super) platform: Arc<dyn Platform>,
    pub(super) engine: Engine,
    pub(super) options: SessionOptions,
    /// By number of the task.
    pub(super) links: Vec<TaskLink>,
    /// Remade when more devices are known.
    pub(super) partitioner: Mutex<Option<Arc<TaskPartitioner>>>,
    pub(super) plans: PlanCache<PlanKey, ClusterPlan>,
    pub(super) next: AtomicU64,
}

impl ClusterRunner {
    pub(super) async fn open(&self, link: &TaskLink) -> Result<Arc<OpenSession>, ClusterError> {
        link.open(&self.asked, self.platform.runtime()).await
    }

    /// Returns the partitioner of steps over the devices that are known now.
    pub(super) async fn partitioner(
        &self,
        data: &GraphData,
    ) -> Result<Arc<TaskPartitioner>, ClusterError> {
        // A task that was not asked yet is assumed to have a CPU; it is asked if a node needs more.
        for link in self.links.iter().filter(|l| !l.is_known()) {
            let (job, index) = link.name();
            let here = |d: &DeviceSpec| {
                let known = self.links.iter().filter(|l| l.is_known());
                let mut known = known.flat_map(|l| l.devices());
                known.any(|k| d.device_type.is_none() || k.device_type == d.device_type)
            };
            let more = |d: &DeviceSpec| {
                let job_fits = match d.job.as_deref() {
                    Some(named) => named == job,
                    None => !here(d),
                };
                job_fits
                    && d.task.is_none_or(|t| t == *index)
                    && (d.device_type.as_deref().is_some_and(|t| t != "CPU")
                        || d.index.is_some_and(|i| i > 0))
            };
            if data.nodes().any(|(_, n)| more(&n.device)) {
                self.open(link).await?;
            }
        }
        let mut kept = self.partitioner.lock().unpoisoned();
        // Numbers of devices never change: plans contain them, and variables lie on them.
        let known = kept.as_ref().map_or(&[][..], |c| c.devices());
        let mut more = Vec::new();
        for (number, link) in self.links.iter().enumerate() {
            let own = link.devices().into_iter();
            let new = own.filter(|d| !known.contains(d));
            more.extend(new.map(|d| (d, number as u32)));
        }
        let made = match &*kept {
            Some(partitioner) if more.is_empty() => return Ok(partitioner.clone()),
            Some(partitioner) => partitioner.with(more),
            None => TaskPartitioner::new(
                self.engine.machine().clone(),
                self.options.plan_options(),
                more,
            ),
        };
        let made = Arc::new(made);
        *kept = Some(made.clone());
        Ok(made)
    }

    /// Runs `run` until it is done, cancelled or out of time. A drop ends it too.
    pub(super) async fn run_limited<T>(
        &self,
        options: &RunOptions,
        run: impl Future<Output = Result<T, ClusterError>>,
    ) -> Result<T, ClusterError> {
        let cancelled = || ClusterError::new(Cause::Cancelled, "the step was cancelled");
        let late = |limit: Duration| {
            let text = format!("the step did not end within its {limit:?}");
            ClusterError::new(Cause::Deadline, text)
        };
        let stopped = async {
            let end = options
                .time_limit()
                .map(|t| tokio::time::Instant::now() + t);
            loop {
                let look = tokio::time::Instant::now() + CANCEL_POLL_INTERVAL;
                let next = match (options.cancel(), end) {
                    (None, None) => std::future::pending().await,
                    (None, Some(end)) => end,
                    (Some(_), None) => look,
                    (Some(_), Some(end)) => look.min(end),
                };
                tokio::time::sleep_until(next).await;
                if options.cancel().is_some_and(Cancel::is_cancelled) {
                    return cancelled();
                }
                if let (Some(limit), Some(end)) = (options.time_limit(), end)
                    && tokio::time::Instant::now() >= end
                {
                    return late(limit);
                }
            }
        };
        if options.cancel().is_some_and(Cancel::is_cancelled) {
            return Err(cancelled());
        }
        tokio::select! {
            biased;
            done = run => done,
            why = stopped => Err(why),
        }
    }
}
