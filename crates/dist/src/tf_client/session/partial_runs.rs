//! Partial runs of a session.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use thalweg_graph::{Graph, OutputId};
use thalweg_session::{Cancel, Fetch, RunOptions};
use thalweg_tensor::Tensor;
use thalweg_tensor::sync::Unpoisoned;

use super::MasterSession;
use crate::tf_client::node_names;
use crate::tf_client::partial_run::{EndOnDrop, PartialRun};
use crate::tf_client::request::Request;
use crate::tf_client::status::Status;
use crate::tf_client::step_slot::StepSlot;

impl MasterSession {
    /// Starts a partial run. Returns its handle.
    ///
    /// # Errors
    /// A name is unknown.
    pub(crate) fn begin_partial(
        self: &Arc<Self>,
        feeds: &[String],
        fetches: &[String],
        targets: &[String],
        room: StepSlot,
    ) -> Result<String, Status> {
        let handle = {
            let mut partial = self.partial.lock().unpoisoned();
            partial.next += 1;
            (partial.next - 1).to_string()
        };
        node_names::check_disjoint(feeds.iter().map(|f| &**f), fetches.iter().map(|f| &**f))?;
        let named = fetches.iter().chain(targets).chain(feeds);
        self.add_needed(named.map(|n| &**n))?;
        let find = |all: &[String], find: fn(&Graph, &str) -> Result<OutputId, Status>| {
            let found = all.iter().map(|n| Ok((n.clone(), find(&self.graph, n)?)));
            found.collect::<Result<Vec<_>, Status>>()
        };
        let (fed, fetched) = (
            find(feeds, node_names::feed)?,
            find(fetches, node_names::fetch)?,
        );
        let mut wanted: Vec<Fetch> = fetched.iter().map(|(_, o)| Fetch::Value(*o)).collect();
        let targets = node_names::targets(&self.graph, targets)?;
        wanted.extend(targets.into_iter().map(Fetch::Run));
        let outputs: Vec<OutputId> = fed.iter().map(|(_, o)| *o).collect();
        let data = self.graph.snapshot();
        let pieces = self.runs.prepare_partial_run(&data, &wanted, &outputs)?;
        let cancel = Cancel::new();
        let platform = self.platform.clone();
        let run = PartialRun::new(fed, fetched, (cancel.clone(), platform), room);
        let run = Arc::new(run);
        let (session, client) = (self.clone(), run.client().clone());
        let work = move || {
            let _ends = EndOnDrop(client.clone());
            let options = RunOptions::new().cancelled_by(&cancel);
            let result = session.enter(&cancel).and_then(|running| {
                let done = session.runs.run_partial(&pieces, client.clone(), &options);
                drop(running);
                done.map_err(|e| session.failed(e, &cancel))
            });
            client.end(result);
        };
        // It goes on after a drop; a missing thread is reported at once.
        let mut under = self.platform.spawn_compute(Box::new(work));
        if let Poll::Ready(ended) = under.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            ended?;
        }
        self.partial
            .lock()
            .unpoisoned()
            .running
            .insert(handle.clone(), run);
        Ok(handle)
    }

    /// Feeds and fetches values of a partial run.
    ///
    /// # Errors
    /// See [`PartialRun::go_on`]; there is no such step.
    pub(crate) fn continue_partial_run(
        &self,
        handle: &str,
        request: Request,
    ) -> Result<Vec<Tensor>, Status> {
        let run = self
            .partial
            .lock()
            .unpoisoned()
            .running
            .get(handle)
            .cloned();
        let run = run.ok_or_else(|| {
            Status::invalid("Must run PartialRunSetup before performing partial runs")
        })?;
        let data = self.graph.snapshot();
        let result = run.continue_partial_run(&data, request.feeds, &request.fetches);
        let over = match &result {
            Ok((_, over)) => *over,
            // A mistake of the client does not change the run.
            Err(_) => run.has_failed(),
        };
        if over {
            self.partial.lock().unpoisoned().running.remove(handle);
        }
        result.map(|(values, _)| values)
    }

    /// Ends a partial run whose client has disconnected.
    pub(crate) fn abandon(&self, handle: &str) {
        if let Some(run) = self.partial.lock().unpoisoned().running.remove(handle) {
            run.cancel().cancel();
        }
    }
}
