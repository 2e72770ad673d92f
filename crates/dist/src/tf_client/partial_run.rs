//! Partial runs: a client feeds and fetches in several calls, while one step runs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thalweg_device::{KernelError, Ticket};
use thalweg_graph::{Fact, GraphData, OutputId};
use thalweg_plan::client_channel;
use thalweg_session::{Cancel, TaskChannels};
use thalweg_tensor::Tensor;
use thalweg_tensor::sync::Unpoisoned;
use tokio::sync::Notify;
use tonic::Code;

use super::node_names;
use super::status::Status;
use super::step_slot::StepSlot;
use crate::runtime::blocking;
use crate::runtime::platform::Platform;

/// Interval at which a waiting call checks for cancellation.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A feed or a fetch of a partial run.
#[derive(Clone, Copy)]
struct PartialRunTensor {
    channel: i64,
    output: OutputId,
    /// `true` once it was fed or fetched.
    done: bool,
}

/// A running partial run.
pub(super) struct PartialRun {
    pieces: Mutex<PartialRunTensors>,
    client: Arc<ClientChannels>,
    cancel: Cancel,
    platform: Arc<dyn Platform>,
    /// Slot among the steps of the server.
    _room: StepSlot,
}

struct PartialRunTensors {
    feeds: BTreeMap<String, PartialRunTensor>,
    fetches: BTreeMap<String, PartialRunTensor>,
}

/// Channels of the client.
#[derive(Default)]
pub(super) struct ClientChannels {
    state: Mutex<PartialRunState>,
    changed: Notify,
}

#[derive(Default)]
struct PartialRunState {
    given: HashMap<i64, Tensor>,
    waiting: HashMap<i64, Ticket>,
    results: HashMap<i64, Tensor>,
    ended: Option<Result<(), Status>>,
}

impl TaskChannels for ClientChannels {
    fn send(&self, channel: i64, value: Tensor) -> Result<(), KernelError> {
        self.state
            .lock()
            .unpoisoned()
            .results
            .insert(channel, value);
        self.changed.notify_waiters();
        Ok(())
    }

    fn receive(&self, channel: i64, ticket: &Ticket) -> Result<Option<Tensor>, KernelError> {
        let mut state = self.state.lock().unpoisoned();
        let value = state.given.remove(&channel);
        if value.is_none() {
            state.waiting.insert(channel, ticket.clone());
        }
        Ok(value)
    }
}

impl ClientChannels {
    fn give(&self, channel: i64, value: Tensor) {
        let mut state = self.state.lock().unpoisoned();
        state.given.insert(channel, value);
        if let Some(ticket) = state.waiting.remove(&channel) {
            ticket.wake();
        }
    }

    /// Waits for the value of a fetch, or until the step is cancelled: a long kernel may be slow to end.
    async fn take(&self, channel: i64, cancel: &Cancel) -> Result<Tensor, Status> {
        self.once(cancel, |state| {
            if let Some(value) = state.results.remove(&channel) {
                return Some(Ok(value));
            }
            state.ended.as_ref().map(|ended| match ended {
                Err(status) => Err(status.clone()),
                Ok(()) => Err(Status::invalid("the step has ended without it")),
            })
        })
        .await
    }

    /// Waits until `look` returns a value.
    async fn once<T>(
        &self,
        cancel: &Cancel,
        mut look: impl FnMut(&mut PartialRunState) -> Option<Result<T, Status>>,
    ) -> Result<T, Status> {
        loop {
            let cancelled = cancel.is_cancelled();
            let changed = self.changed.notified();
            if let Some(found) = look(&mut self.state.lock().unpoisoned()) {
                return found;
            }
            let late = tokio::time::timeout(CANCEL_POLL_INTERVAL, changed)
                .await
                .is_err();
            // A cancelled step that ends soon reports its own result.
            if cancelled && late {
                return Err(Status::new(Code::Cancelled, "the step was cancelled"));
            }
        }
    }

    /// Sets the result of the step.
    pub(super) fn end(&self, result: Result<(), Status>) {
        self.state.lock().unpoisoned().ended = Some(result);
        self.changed.notify_waiters();
    }

    /// Waits for the result of the step.
    async fn ended(&self, cancel: &Cancel) -> Result<(), Status> {
        self.once(cancel, |state| state.ended.clone()).await
    }
}

/// Ends a step for its client if its thread has panicked.
pub(super) struct EndOnDrop(pub(super) Arc<ClientChannels>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if self.0.state.lock().unpoisoned().ended.is_none() {
            self.0.end(Err(Status::defect(&"a step has panicked")));
        }
    }
}

impl PartialRun {
    /// Returns a run with these feeds and fetches. Their channels are numbered in this order.
    pub(super) fn new(
        feeds: Vec<(String, OutputId)>,
        fetches: Vec<(String, OutputId)>,
        (cancel, platform): (Cancel, Arc<dyn Platform>),
        room: StepSlot,
    ) -> PartialRun {
        let first = feeds.len();
        let pieces = |all: Vec<(String, OutputId)>, first: usize| {
            let piece = |(i, (name, output))| {
                let channel = client_channel(first + i);
                let piece = PartialRunTensor {
                    channel,
                    output,
                    done: false,
                };
                (name, piece)
            };
            all.into_iter().enumerate().map(piece).collect()
        };
        PartialRun {
            pieces: Mutex::new(PartialRunTensors {
                feeds: pieces(feeds, 0),
                fetches: pieces(fetches, first),
            }),
            client: Arc::default(),
            cancel,
            platform,
            _room: room,
        }
    }

    pub(super) fn client(&self) -> &Arc<ClientChannels> {
        &self.client
    }

    /// `true` if the step has failed.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.client.state.lock().unpoisoned().ended, Some(Err(_)))
    }

    pub(super) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Feeds and fetches. Also returns `true` if all are done by now, and the step is over.
    ///
    /// # Errors
    /// A feed or fetch is unknown or repeated, or a fetch needs other feeds: nothing has happened then. Or the step
    /// has failed.
    pub(super) fn continue_partial_run(
        &self,
        data: &GraphData,
        feeds: Vec<(String, Tensor)>,
        fetches: &[String],
    ) -> Result<(Vec<Tensor>, bool), Status> {
        let mut taken = Vec::with_capacity(fetches.len());
        let done = {
            let mut pieces = self.pieces.lock().unpoisoned();
            node_names::check_disjoint(feeds.iter().map(|(n, _)| &**n), std::iter::empty())?;
            for (name, value) in &feeds {
                check(&pieces.feeds, name, "feed", "fed")?;
                let fact = data.fact(pieces.feeds[name].output);
                let fits = |f: &Fact| f.dtype == value.dtype() && f.shape.admits(value.dims());
                if let Some(fact) = fact.filter(|f| !fits(f)) {
                    return Err(Status::invalid(format!(
                        "The feed {name} is {}{}, but {fact} is expected.",
                        value.dtype(),
                        value.shape()
                    )));
                }
            }
            for name in fetches {
                check(&pieces.fetches, name, "fetch", "fetched")?;
            }
            let now: HashSet<&str> = feeds.iter().map(|(n, _)| &**n).collect();
            let missing = pieces.feeds.iter();
            let missing = missing.filter(|(n, p)| !p.done && !now.contains(&***n));
            let missing: HashMap<OutputId, &String> = missing.map(|(n, p)| (p.output, n)).collect();
            let wanted = fetches.iter().map(|n| pieces.fetches[n].output);
            let known = pieces.feeds.values().map(|p| p.output).collect();
            if let Some(feed) = needs(data, wanted, &known, &missing) {
                return Err(Status::invalid(format!(
                    "Fetch {feed} can't be computed from the feeds that have been fed so far."
                )));
            }
            for (name, value) in feeds {
                if let Some(piece) = pieces.feeds.get_mut(&name) {
                    piece.done = true;
                    self.client.give(piece.channel, value);
                }
            }
            for name in fetches {
                if let Some(piece) = pieces.fetches.get_mut(name) {
                    piece.done = true;
                    taken.push(piece.channel);
                }
            }
            let mut all = pieces.feeds.values().chain(pieces.fetches.values());
            all.all(|p| p.done)
        };
        let all = async { Ok(self.all(&taken, done).await) };
        let values = blocking::block_on(&*self.platform, all)??;
        Ok((values, done))
    }

    /// Waits for these values; if the step is `done`, also for its end.
    async fn all(&self, channels: &[i64], done: bool) -> Result<Vec<Tensor>, Status> {
        let mut values = Vec::with_capacity(channels.len());
        for &channel in channels {
            values.push(self.client.take(channel, &self.cancel).await?);
        }
        if done {
            self.client.ended(&self.cancel).await?;
        }
        Ok(values)
    }
}

fn check(
    pieces: &BTreeMap<String, PartialRunTensor>,
    name: &str,
    what: &str,
    past: &str,
) -> Result<(), Status> {
    match pieces.get(name) {
        None => Err(Status::invalid(format!(
            "The {what} {name} was not specified in partial_run_setup."
        ))),
        Some(piece) if piece.done => Err(Status::invalid(format!(
            "The {what} {name} has already been {past}."
        ))),
        Some(_) => Ok(()),
    }
}

/// Returns a missing feed that one of these outputs needs.
fn needs<'n>(
    data: &GraphData,
    wanted: impl Iterator<Item = OutputId>,
    feeds: &HashSet<OutputId>,
    missing: &HashMap<OutputId, &'n String>,
) -> Option<&'n String> {
    let mut seen = HashSet::new();
    let mut stack: Vec<OutputId> = wanted.collect();
    let mut nodes = Vec::new();
    loop {
        while let Some(output) = stack.pop() {
            if let Some(name) = missing.get(&output) {
                return Some(name);
            }
            if !feeds.contains(&output) {
                nodes.push(output.node);
            }
        }
        let id = nodes.pop()?;
        if !seen.insert(id) {
            continue;
        }
        if let Some(node) = data.get(id) {
            stack.extend(node.inputs.iter().copied());
            nodes.extend(node.controls.iter().copied());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::runtime::platform::system;
    use std::slice::from_ref;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use thalweg_graph::Graph;
    use thalweg_ops::{NewGraph, SourceOps};
    use thalweg_tensor::DType;
    use tokio::runtime::{Builder, Runtime};

    use super::*;

    /// A partial run that feeds `x` and `y` and fetches their sum.
    fn sum() -> (Runtime, Arc<GraphData>, PartialRun) {
        let g = Graph::new();
        let [x, y] = ["x", "y"].map(|name| g.placeholder(name, DType::F32, [2]));
        let z = (x + y).id();
        let named = |name: &str, output| (name.to_owned(), output);
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let run = PartialRun::new(
            vec![named("x:0", x.id()), named("y:0", y.id())],
            vec![named("z:0", z)],
            (Cancel::new(), system(runtime.handle().clone())),
            StepSlot(Arc::new(AtomicUsize::new(1))),
        );
        (runtime, g.snapshot(), run)
    }

    fn value() -> Tensor {
        Tensor::vector(&[1.0f32, 2.0])
    }

    /// Calls with values for these feeds, and this fetch.
    fn call(
        (data, run): (&GraphData, &PartialRun),
        feeds: &[(&str, Tensor)],
        fetches: &[&str],
    ) -> Result<(usize, bool), Status> {
        let feeds = feeds.iter().map(|(n, v)| ((*n).to_owned(), v.clone()));
        let fetches: Vec<String> = fetches.iter().map(|&n| n.to_owned()).collect();
        let done = run.continue_partial_run(data, feeds.collect(), &fetches);
        done.map(|(values, over)| (values.len(), over))
    }

    #[test]
    fn a_refused_call_of_a_partial_run_changes_nothing() {
        let (_runtime, data, run) = sum();
        let of = (&*data, &run);
        let wrong = Tensor::vector(&[1.0f32, 2.0, 3.0]);
        let (x, y) = (("x:0", value()), ("y:0", value()));
        for (feeds, fetches, expected) in [
            (
                vec![("w:0", value())],
                &[][..],
                "feed w:0 was not specified",
            ),
            (vec![x.clone(), x.clone()], &[], "fed more than once"),
            (vec![x.clone(), ("y:0", wrong)], &[], "is expected"),
            (vec![x.clone()], &["x:0"], "fetch x:0 was not specified"),
            (vec![x.clone()], &["z:0"], "Fetch y:0 can't be computed"),
        ] {
            let error = call(of, &feeds, fetches).unwrap_err();
            assert_eq!(error.code, Code::InvalidArgument);
            assert!(error.message.contains(expected), "{error}");
        }
        assert_eq!(call(of, from_ref(&x), &[]), Ok((0, false)));
        let again = call(of, &[x, y], &[]).unwrap_err();
        assert!(again.message.contains("already been fed"), "{again}");
    }

    #[test]
    fn a_partial_run_is_over_once_everything_is_fed_and_fetched() {
        let (_runtime, data, run) = sum();
        let of = (&*data, &run);
        let woken = Arc::new(AtomicUsize::new(0));
        let count = woken.clone();
        let ticket = Ticket::new(0, move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        let channels = run.client().clone();
        let [x, y, z] = [0, 1, 2].map(client_channel);
        // The step waits for `x`, and not yet for `y`.
        assert!(channels.receive(x, &ticket).unwrap().is_none());
        assert_eq!(call(of, &[("x:0", value())], &[]), Ok((0, false)));
        assert_eq!(woken.load(Ordering::SeqCst), 1);
        assert!(channels.receive(x, &ticket).unwrap().is_some());
        channels.send(z, value()).unwrap();
        channels.end(Ok(()));
        let last = call(of, &[("y:0", value())], &["z:0"]);
        assert_eq!(last, Ok((1, true)));
        assert!(channels.receive(y, &ticket).unwrap().is_some());
        assert_eq!(woken.load(Ordering::SeqCst), 1);
        assert!(!run.has_failed());
    }

    #[test]
    fn a_fetch_of_a_step_that_has_ended_is_an_error() {
        for (ended, expected) in [
            (Ok(()), "has ended without it"),
            (Err(Status::invalid("division by zero")), "division by zero"),
        ] {
            let (_runtime, data, run) = sum();
            let failed = ended.is_err();
            run.client().end(ended);
            let feeds = [("x:0", value()), ("y:0", value())];
            let error = call((&data, &run), &feeds, &["z:0"]).unwrap_err();
            assert!(error.message.contains(expected), "{error}");
            assert_eq!(run.has_failed(), failed);
        }
    }

    #[test]
    fn a_step_that_panics_ends_with_a_defect_unless_it_has_ended() {
        let (_runtime, _, run) = sum();
        drop(EndOnDrop(run.client().clone()));
        assert!(run.has_failed());
        let (_runtime, _, run) = sum();
        run.client().end(Ok(()));
        drop(EndOnDrop(run.client().clone()));
        assert!(!run.has_failed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_step_does_not_hold_its_client() {
        let (channels, cancel) = (ClientChannels::default(), Cancel::new());
        cancel.cancel();
        let cancelled = channels.take(0, &cancel).await.unwrap_err();
        assert_eq!(cancelled.code, Code::Cancelled);
        // A result that is there is given.
        channels.send(0, value()).unwrap();
        assert!(channels.take(0, &cancel).await.is_ok());
    }
}
