//! Predictions: the time of a step, and what it is spent on.

use serde_json::Value;

use crate::events::{ActivityId, Outcome, Work};

use super::hosts::ResourceUse;
use super::timeline::{Span, Timeline};

/// Ends of simulated steps.
pub(super) struct Steps {
    /// By step and worker.
    pub(super) ends: Vec<Vec<ActivityId>>,
    /// Images of a step of all workers.
    pub(super) images: f64,
    /// Bytes of a step that leave hosts.
    pub(super) bytes: f64,
}

/// Predicted step of a cluster.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Seconds of a step.
    pub seconds: f64,
    /// Images a second of all workers.
    pub images_per_second: f64,
    /// Seconds of the critical path by use, those with the most first: what the step is spent on.
    pub path: Vec<(ResourceUse, f64)>,
    /// Name of the resource that is busy for the largest share of the step, and that share.
    pub busiest: (String, f64),
    /// Bytes that leave hosts in a step.
    pub bytes: f64,
    /// Times of all activities; `None` of a step that was put together from several simulations.
    timeline: Option<Timeline>,
}

impl Prediction {
    pub(super) fn new(timeline: Timeline, steps: &Steps) -> Prediction {
        let (outcome, uses) = (&timeline.outcome, &timeline.uses);
        let end = |ends: &Vec<ActivityId>| {
            let all = ends.iter().map(|&e| outcome.end(e));
            all.fold(0.0, f64::max)
        };
        let first = steps.ends.first().map_or(0.0, end);
        let last = steps.ends.last().map_or(0.0, end);
        let seconds = match steps.ends.len() {
            0 | 1 => last,
            count => (last - first) / (count - 1) as f64,
        };
        let newest = steps.ends.iter().flatten().copied();
        let newest = newest.max_by(|a, b| outcome.end(*a).total_cmp(&outcome.end(*b)));
        let path = newest.map(|last| path(outcome, uses, last));
        let simulation = outcome.simulation();
        let busiest = simulation
            .resources()
            .max_by(|a, b| outcome.busy(*a).total_cmp(&outcome.busy(*b)))
            .map(|id| {
                (
                    simulation.name(id).to_owned(),
                    outcome.busy(id) / last.max(1e-12),
                )
            });
        Prediction {
            seconds,
            images_per_second: steps.images / seconds,
            path: path.unwrap_or_default(),
            busiest: busiest.unwrap_or_default(),
            bytes: steps.bytes,
            timeline: Some(timeline),
        }
    }

    /// Prediction of a step whose parts were simulated one by one.
    pub(super) fn of_parts(
        seconds: f64,
        images: f64,
        mut path: Vec<(ResourceUse, f64)>,
        busiest: (String, f64),
        bytes: f64,
    ) -> Prediction {
        path.retain(|(_, seconds)| *seconds > 0.0);
        path.sort_by(|a, b| b.1.total_cmp(&a.1));
        Prediction {
            seconds,
            images_per_second: images / seconds,
            path,
            busiest,
            bytes,
            timeline: None,
        }
    }

    /// Timeline in Chrome's trace format, for Perfetto: a row for each resource, the first [`TRACED_RESOURCES`] of those that are
    /// used. `None` of a step that was put together from several simulations.
    ///
    /// [`TRACED_RESOURCES`]: Prediction::TRACED_RESOURCES
    pub fn trace(&self) -> Option<Value> {
        let timeline = self.timeline.as_ref()?;
        Some(timeline.trace(Self::TRACED_RESOURCES))
    }

    /// Spans of the timeline, in no particular order; none of a step that was put together from several simulations.
    pub fn spans(&self) -> impl Iterator<Item = Span<'_>> {
        self.timeline.iter().flat_map(Timeline::spans)
    }

    /// Text of the uses of 2% of a step and more, such as `updating 74%, computing 25%`.
    pub fn spent_on(&self) -> String {
        let shares = self.path.iter();
        let shares = shares.map(|(of, seconds)| (of.name(), 100.0 * seconds / self.seconds));
        let large = shares.filter(|(_, percent)| *percent >= 2.0);
        let texts: Vec<String> = large
            .map(|(of, percent)| format!("{of} {percent:.0}%"))
            .collect();
        texts.join(", ")
    }

    /// `true` if [`Prediction::trace`] has a timeline.
    pub fn has_timeline(&self) -> bool {
        self.timeline.is_some()
    }

    /// Maximum number of rows of a timeline.
    pub const TRACED_RESOURCES: usize = 64;

    /// Use with the most seconds of the critical path.
    pub fn bound(&self) -> ResourceUse {
        self.path.first().map_or(ResourceUse::Compute, |(u, _)| *u)
    }
}

/// Seconds of the critical path to this activity, by use. Each activity counts from the end of the one before it.
fn path(outcome: &Outcome, uses: &[ResourceUse], last: ActivityId) -> Vec<(ResourceUse, f64)> {
    let mut sums = vec![0.0; ResourceUse::ALL.len()];
    let mut add = |what: ResourceUse, seconds: f64| sums[what as usize] += seconds.max(0.0);
    let mut before = 0.0;
    for activity in outcome.critical_path(last) {
        let end = outcome.end(activity);
        let own = end - before;
        match outcome.simulation().work(activity) {
            Work::Join => {}
            Work::Run { on, .. } => add(uses[on.index()], own),
            Work::Message {
                out,
                into,
                seconds,
                latency,
            } => {
                // The port at which it waited longer is the one that it depends on.
                let waited = outcome.end(activity) - outcome.begin(activity) - seconds - latency;
                let port = if waited > 0.0 { into } else { out };
                let flight = latency.min(own.max(0.0));
                add(ResourceUse::Latency, flight);
                add(uses[port.index()], own - flight);
            }
        }
        before = before.max(end);
    }
    let mut all: Vec<(ResourceUse, f64)> = ResourceUse::ALL.into_iter().zip(sums).collect();
    all.retain(|(_, seconds)| *seconds > 0.0);
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}
