//! Runs the part of a step on this task.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_graph::Fact;
use thalweg_session::{Cancel, RunOptions, TaskChannels, Trace};
use thalweg_tensor::Tensor;
use thalweg_tensor::text::counted;
use tokio::task::JoinSet;

use super::receive::receive;
use super::registered_part::RegisteredPart;
use super::state::{Worker, WorkerSession};
use super::step::{StepChannels, WorkerStep};
use crate::cluster::spec::task_label;
use crate::error::{Cause, ClusterError};
use crate::limits::settings::limit_name;
use crate::metrics::counters;
use crate::transport::messages as wire;

/// Request to run a part.
pub(crate) struct RunRequest {
    /// Number of the step.
    pub(crate) step: u64,
    pub(crate) feeds: Vec<Tensor>,
    pub(crate) limit: Option<Duration>,
    /// `true` to record a trace.
    pub(crate) trace: bool,
    /// Channels of the client in a partial run.
    pub(crate) client: Option<Arc<dyn TaskChannels>>,
    /// Stamp of a part that has to run exactly once, and to its end.
    pub(crate) once: Option<wire::Once>,
}

/// Outcome of a run.
pub(crate) struct RunOutcome {
    pub(crate) fetched: Vec<Tensor>,
    /// Empty unless it was requested.
    pub(crate) trace: Trace,
    /// Time from the request to the begin.
    pub(crate) began: Duration,
}

impl Worker {
    /// Runs a part of a step. Returns its fetches once the other tasks have received all its values. A drop ends the
    /// run.
    pub(crate) async fn run(
        self: &Arc<Self>,
        session: &Arc<WorkerSession>,
        handle: &str,
        part: Arc<RegisteredPart>,
        asked: RunRequest,
    ) -> Result<RunOutcome, ClusterError> {
        let (began, step) = (Instant::now(), asked.step);
        let done = self.run_here(session, handle, part, asked).await;
        let took = began.elapsed();
        match &done {
            Ok(_) => self.counts.parts.add(took),
            Err(e) => self.counts.part_failed(e.cause),
        }
        if took >= self.limits.slow_step {
            counters::increment(&self.counts.slow_parts);
            let (seconds, failed) = (took.as_secs_f64(), done.is_err());
            let of = session.master.as_ref().map(|(job, i)| task_label(job, *i));
            tracing::warn!(session = handle, of, step, seconds, failed, "slow part");
        }
        done.map_err(|e| self.counts.counted(e).at(&self.task))
    }

    async fn run_here(
        self: &Arc<Self>,
        session: &Arc<WorkerSession>,
        handle: &str,
        part: Arc<RegisteredPart>,
        asked: RunRequest,
    ) -> Result<RunOutcome, ClusterError> {
        let came = Instant::now();
        let RunRequest {
            step,
            feeds,
            limit,
            trace,
            client,
            once,
        } = asked;
        let room = self.steps.clone();
        if Arc::strong_count(&room) > self.limits.steps + 1 {
            let text = format!(
                "this task runs {} steps, as many as it may",
                self.limits.steps
            );
            return Err(ClusterError::limit_exceeded(
                const { limit_name("steps") },
                text,
            ));
        }
        check_feeds(&part.feeds, &feeds)?;
        if let Some(once) = once {
            self.run_once(session, &part, (feeds, room), &once).await?;
            return Ok(RunOutcome {
                fetched: Vec::new(),
                trace: Trace::default(),
                began: Duration::ZERO,
            });
        }
        let running = RunningPart {
            session: session.clone(),
            step: session.step(step)?,
            number: step,
            cancel: Cancel::new(),
        };
        running.step.begin(&part.routes, &running.cancel)?;
        // They end when this call is dropped.
        let mut receiving = JoinSet::new();
        for (from, peer) in &part.sources {
            let request = wire::Receive {
                session: handle.to_owned(),
                step,
                task: part.task,
                colocated: 0,
            };
            let (step, routes) = (running.step.clone(), part.routes.clone());
            let receive = receive(peer.clone(), *from, request, step, routes);
            receiving.spawn_on(receive, self.platform.runtime());
        }
        let mut options = RunOptions::new()
            .cancelled_by(&running.cancel)
            .timeout(limit);
        if trace {
            options = options.traced();
        }
        // An update that holds a lock would block a thread of the network.
        let inside = part.is_short().then(|| part.plan.try_enter()).flatten();
        let short = inside.is_some();
        let work = {
            let runner = session.runner.clone();
            let (step, routes) = (running.step.clone(), part.routes.clone());
            let (part, inside) = (part.clone(), inside);
            move |parker| {
                let channels = StepChannels::new(step, routes, client, parker);
                let began = Instant::now();
                let done = match &inside {
                    Some(inside) => runner.run_entered_part(inside, &feeds, &channels, &options),
                    None => runner.run_part(&part.plan, &feeds, &channels, &options),
                };
                drop(inside);
                part.took(began.elapsed());
                // Its values may be received after the step's slot is free.
                drop(room);
                done.map(|(fetched, trace)| RunOutcome {
                    fetched: fetched.into_values().flatten().collect(),
                    trace,
                    began: began.duration_since(came),
                })
            }
        };
        let cancel = &running.cancel;
        let done = self.platform.run_step(short, cancel, work).await?;
        match done {
            Ok(done) => {
                running.step.all_sent();
                running.step.taken().await?;
                Ok(done)
            }
            Err(error) => {
                let failure = running.step.failure();
                let own = || ClusterError::from(error).at(&self.task);
                let failure = failure.unwrap_or_else(own);
                running.step.fail(failure.clone());
                Err(failure)
            }
        }
    }
}

/// A running part. A drop ends it.
struct RunningPart {
    session: Arc<WorkerSession>,
    step: Arc<WorkerStep>,
    number: u64,
    cancel: Cancel,
}

impl Drop for RunningPart {
    fn drop(&mut self) {
        self.cancel.cancel();
        let ended = ClusterError::new(Cause::Cancelled, "the step was ended by its master");
        self.step.fail(ended.derived());
        self.session.forget(self.number, &self.step);
    }
}

fn check_feeds(facts: &[Fact], feeds: &[Tensor]) -> Result<(), ClusterError> {
    if facts.len() != feeds.len() {
        let text = format!(
            "the part takes {}, not {}",
            counted(facts.len(), "feed"),
            feeds.len()
        );
        return Err(ClusterError::invalid(text));
    }
    for (fact, feed) in facts.iter().zip(feeds) {
        if fact.dtype != feed.dtype() || !fact.shape.admits(feed.dims()) {
            let text = format!("a feed is {}{}, not {fact}", feed.dtype(), feed.shape());
            return Err(ClusterError::invalid(text));
        }
    }
    Ok(())
}
