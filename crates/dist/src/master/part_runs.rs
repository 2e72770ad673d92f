//! Runs the parts of a step on their tasks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use thalweg_graph::OutputId;
use thalweg_plan::TaskPart;
use thalweg_session::{Event, TaskChannels, Trace};
use thalweg_tensor::Tensor;
use tokio::task::JoinSet;

use super::link::TaskRoute;
use super::plan::{ClusterPlan, PartHandle};
use super::runner::ClusterRunner;
use crate::error::{Cause, ClusterError};
use crate::transport::frames::Frames;
use crate::transport::messages::header::Kind;
use crate::transport::responses::ResponseReader;
use crate::transport::{messages as wire, trace};
use crate::worker::run::RunRequest;

/// Inputs of a step.
pub(super) struct StepInputs<'a> {
    pub(super) feeds: &'a [(OutputId, Tensor)],
    pub(super) limit: Option<Duration>,
    pub(super) trace: bool,
    /// Channels of the client in a partial run.
    pub(super) client: Option<Arc<dyn TaskChannels>>,
    /// Stamp of a step whose parts have to run exactly once, and to their end.
    pub(super) once: Option<wire::Once>,
}

fn sorted_by_start(mut events: Vec<Event>) -> Trace {
    events.sort_by(|a, b| a.start_us.total_cmp(&b.start_us));
    Trace {
        events,
        ..Trace::default()
    }
}

impl ClusterRunner {
    /// Runs all parts. A drop ends them.
    pub(super) async fn run_parts(
        self: &Arc<Self>,
        plan: &Arc<ClusterPlan>,
        given: StepInputs<'_>,
    ) -> Result<(Vec<Option<Tensor>>, Trace), ClusterError> {
        let began = Instant::now();
        let mut values = vec![None; plan.fetches];
        let mut events = Vec::new();
        let mut registered = Vec::with_capacity(plan.parts.len());
        for index in 0..plan.parts.len() {
            registered.push(self.registered(plan, index).await?);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut give = |part: &TaskPart, (fetched, own): (Vec<Tensor>, Vec<Event>)| {
            for (&(fetch, _), value) in part.fetches.iter().zip(fetched) {
                values[fetch] = Some(value);
            }
            events.extend(own);
        };
        let own = |part: &TaskPart| RunRequest {
            step: number,
            feeds: (part.feeds.iter())
                .map(|&(i, _)| given.feeds[i].1.clone())
                .collect(),
            limit: given.limit,
            trace: given.trace,
            client: given.client.clone(),
            once: given.once.clone(),
        };
        if let [placed] = &plan.parts[..] {
            let asked = own(&placed.part);
            let done = self.run_part(&placed.part, &registered[0], asked, began);
            give(&placed.part, done.await?);
            return Ok((values, sorted_by_start(events)));
        }
        let mut running = JoinSet::new();
        for (index, registered) in registered.into_iter().enumerate() {
            let (this, plan) = (self.clone(), plan.clone());
            let asked = own(&plan.parts[index].part);
            let run = async move {
                let part = &plan.parts[index].part;
                (index, this.run_part(part, &registered, asked, began).await)
            };
            running.spawn_on(run, self.platform.runtime());
        }
        let mut derived: Option<ClusterError> = None;
        loop {
            let next = running.join_next();
            let done = match &derived {
                None => next.await,
                // The root cause is about to arrive.
                Some(known) => match tokio::time::timeout(self.heartbeat_timeout(), next).await {
                    Ok(done) => done,
                    Err(_) => return Err(known.clone()),
                },
            };
            match done {
                None => break,
                Some(Err(e)) => return Err(ClusterError::defect(&e)),
                Some(Ok((index, Ok(done)))) => give(&plan.parts[index].part, done),
                Some(Ok((_, Err(error)))) if error.derived => {
                    derived = Some(match derived {
                        Some(known) => known.or_more_specific(error),
                        None => error,
                    });
                }
                Some(Ok((_, Err(error)))) => return Err(error),
            }
        }
        match derived {
            Some(error) => Err(error),
            None => Ok((values, sorted_by_start(events))),
        }
    }

    fn heartbeat_timeout(&self) -> Duration {
        let mut all = self.links.iter().filter_map(|l| match &l.way {
            TaskRoute::Remote(peer) => Some(peer.timeouts().heartbeat),
            TaskRoute::Local(_) => None,
        });
        all.next().unwrap_or_default()
    }

    /// Runs a part of a step that began at `began`. Returns its fetches, and its events on the clock of the step.
    async fn run_part(
        &self,
        part: &TaskPart,
        registered: &PartHandle,
        asked: RunRequest,
        began: Instant,
    ) -> Result<(Vec<Tensor>, Vec<Event>), ClusterError> {
        if let (Some((worker, session)), Some(own)) = (&registered.open.here, &registered.here) {
            let at = began.elapsed();
            let run = worker.run(session, &self.asked.session, own.clone(), asked);
            let done = run.await?;
            let mut events: Vec<Event> = trace::moved(done.trace, at + done.began).collect();
            self.links[part.task as usize].rename(&mut events);
            return Ok((done.fetched, events));
        }
        let link = &self.links[part.task as usize];
        let TaskRoute::Remote(peer) = &link.way else {
            return Err(ClusterError::new(Cause::Internal, "a task has no session"));
        };
        let from = peer.colocated().await?;
        let mut frames = Frames::of(Kind::Run(wire::Run {
            session: self.asked.session.clone(),
            part: registered.number,
            step: asked.step,
            limit: asked
                .limit
                .map_or(0, |l| u64::try_from(l.as_micros()).unwrap_or(u64::MAX)),
            colocated: from.as_ref().map_or(0, |f| f.incarnation),
            trace: asked.trace,
            opening: registered.open.opening,
            once: asked.once,
        }));
        for (number, feed) in asked.feeds.iter().enumerate() {
            frames.push_value(number as i64, feed)?;
        }
        let at = began.elapsed();
        let mut answer = ResponseReader::call(peer, "Run", frames, from).await?;
        let mut fetched = Vec::with_capacity(part.fetches.len());
        let mut events = Vec::new();
        loop {
            match answer.next().await? {
                Kind::Value(header) if fetched.len() < part.fetches.len() => {
                    fetched.push(answer.tensor(&header).await?)
                }
                Kind::Traced(traced) if asked.trace && events.is_empty() => {
                    events.extend(trace::decoded(traced, at, began.elapsed()));
                    link.rename(&mut events);
                }
                Kind::End(_) if fetched.len() == part.fetches.len() => {
                    return Ok((fetched, events));
                }
                _ => return Err(peer.unreachable("its answer is not what was asked for")),
            }
        }
    }
}
