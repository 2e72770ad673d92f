//! Timelines: the time and the resource of each activity of a simulation.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::events::{ActivityId, Outcome, ResourceId, Work};

use super::hosts::ResourceUse;

/// Times of all activities, and the items of a template that they stand for.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    pub(super) outcome: Outcome,
    /// By resource.
    pub(super) uses: Vec<ResourceUse>,
    /// Activities of items in ascending order, and the number of each item.
    pub(super) items: Vec<(ActivityId, u32)>,
    /// By item: the names of its nodes.
    pub(super) nodes: Vec<Vec<Arc<str>>>,
}

/// Time for which an activity has a resource. A message has two: at the sender's port, and at the receiver's.
#[derive(Clone, Debug)]
pub struct Span<'t> {
    /// Name of the resource, such as `host 0, processor`.
    pub resource: &'t str,
    /// Use of the resource.
    pub of: ResourceUse,
    /// Second of the step at which it begins.
    pub begin: f64,
    /// Second at which it ends.
    pub end: f64,
    /// Names of the nodes that it computes, in the order of the plan; of a copy, the node whose value it is; of a message, the
    /// node that sends. None for input and for barriers.
    pub nodes: &'t [Arc<str>],
    on: ResourceId,
}

impl Span<'_> {
    /// Name in viewers: the first node, or the use.
    fn label(&self) -> String {
        match self.nodes {
            [] => self.of.name().to_owned(),
            [one] => one.to_string(),
            [first, others @ ..] => format!("{first} and {} more", others.len()),
        }
    }
}

impl Timeline {
    /// All spans that take time, in the order in which activities were added.
    pub(super) fn spans(&self) -> impl Iterator<Item = Span<'_>> {
        let spans = self.outcome.simulation().activities();
        let spans = spans.flat_map(|activity| self.spans_of(activity));
        spans.filter(|span| span.end > span.begin)
    }

    fn spans_of(&self, activity: ActivityId) -> impl Iterator<Item = Span<'_>> {
        let (begin, end) = (self.outcome.begin(activity), self.outcome.end(activity));
        let simulation = self.outcome.simulation();
        let span = |on: ResourceId, begin: f64, end: f64| Span {
            resource: simulation.name(on),
            of: self.uses[on.index()],
            begin,
            end,
            nodes: self.nodes(activity),
            on,
        };
        let spans = match simulation.work(activity) {
            Work::Run { on, .. } => [Some(span(on, begin, end)), None],
            Work::Message {
                out, into, seconds, ..
            } => [
                Some(span(out, begin, begin + seconds)),
                Some(span(into, end - seconds, end)),
            ],
            Work::Join => [None, None],
        };
        spans.into_iter().flatten()
    }

    fn nodes(&self, activity: ActivityId) -> &[Arc<str>] {
        let found = self.items.binary_search_by_key(&activity, |(id, _)| *id);
        found.map_or(&[], |at| &self.nodes[self.items[at].1 as usize])
    }

    /// Timeline in Chrome's trace format, with a row for each of the first `rows` resources that are used.
    pub(super) fn trace(&self, rows: usize) -> Value {
        let (outcome, simulation) = (&self.outcome, self.outcome.simulation());
        let used = simulation.resources().filter(|r| outcome.busy(*r) > 0.0);
        let rows: BTreeMap<ResourceId, usize> = used
            .take(rows)
            .enumerate()
            .map(|(row, id)| (id, row))
            .collect();
        let names = rows.iter().map(|(id, row)| {
            json!({"ph": "M", "name": "thread_name", "pid": 1, "tid": row, "args": {"name": simulation.name(*id)}})
        });
        let mut events: Vec<Value> = names.collect();
        for span in self.spans() {
            let Some(row) = rows.get(&span.on) else {
                continue;
            };
            let nodes: Vec<&str> = span.nodes.iter().map(|name| &**name).collect();
            events.push(json!({
                "ph": "X", "name": span.label(), "cat": span.of.name(), "pid": 1, "tid": row, "ts": span.begin * 1e6,
                "dur": (span.end - span.begin) * 1e6, "args": {"nodes": nodes},
            }));
        }
        json!({"traceEvents": events, "displayTimeUnit": "ms"})
    }
}
