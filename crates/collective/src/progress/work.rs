//! Runner: the loop of the progress thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use thalweg_device::Collective;
use thalweg_tensor::Tensor;
use thalweg_tensor::sync::Unpoisoned;

use super::negotiation::{self, Negotiation};
use super::requests;
use super::shared::{Command, NodeCollective, NodeKey, ProgressShared, QueuedRequest, ReplyTo};
use crate::control::{Announced, Control, Turn};
use crate::error::{CollectiveError, Result};
use crate::ranks::Ranks;
use crate::trace::CollectiveRecord;

/// Interval at which a wait for other ranks polls for the end of the job.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs collectives, one after another, in the order of requests or of negotiated turns.
pub(super) struct Runner {
    shared: Arc<ProgressShared>,
    ranks: Ranks,
    /// Collectives that this rank has announced.
    negotiation: Negotiation,
}

impl Runner {
    pub(super) fn new(shared: Arc<ProgressShared>, ranks: Ranks) -> Runner {
        Runner {
            shared,
            ranks,
            negotiation: Negotiation::default(),
        }
    }

    /// Runs commands until the handle is dropped.
    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        let mut polled = Instant::now();
        loop {
            // Also if there is always a command.
            if self.negotiation.waits() && polled.elapsed() >= POLL_INTERVAL {
                polled = Instant::now();
                self.poll_negotiation();
            }
            let command = match self.negotiation.waits() {
                false => commands.recv().unwrap_or(Command::End),
                true => match commands.recv_timeout(POLL_INTERVAL) {
                    Ok(command) => command,
                    Err(RecvTimeoutError::Disconnected) => Command::End,
                    Err(RecvTimeoutError::Timeout) => continue,
                },
            };
            match command {
                Command::Run(queued) => self.start(queued),
                Command::AddSet(members, sender) => self.add_set(members, &sender),
                Command::Join(sender) => self.join(sender),
                Command::Turn(Turn::Run(announced)) => self.turn(&announced),
                Command::Turn(Turn::Joined { last }) => self.negotiation.joined(last),
                Command::End => break,
            }
        }
        let why = CollectiveError::Ended("the rank has shut down".to_owned());
        self.cancel(&why);
    }

    /// Connection to the coordinator, if ranks negotiate and there are others.
    fn negotiating_control(&self) -> Option<Arc<Control>> {
        let control = self.shared.control.clone();
        control.filter(|_| self.shared.negotiates)
    }

    /// Runs a collective at once, or announces it.
    fn start(&mut self, queued: QueuedRequest) {
        let Some(control) = self.negotiating_control() else {
            return self.run_collective(queued);
        };
        let set = queued.request.set;
        let members = self.shared.state().sets.get(&set).cloned();
        let members = members.unwrap_or_default();
        let announced = match self.ranks.place(set) {
            Ok(_) => self.negotiation.announce(&control, &members, queued),
            Err(error) => Err((queued, error)),
        };
        if let Err((queued, error)) = announced {
            self.shared.fail(&error);
            self.shared.reply(queued.reply_to, Err(error));
        }
    }

    fn run_collective(&mut self, queued: QueuedRequest) {
        let QueuedRequest {
            request,
            memory,
            queued_at,
            reply_to,
        } = queued;
        let (name, kind) = (request.name.clone(), timeline_name(&request.kind));
        let bytes = request.input.bytes().len();
        let began = Instant::now();
        let ranks = &mut self.ranks;
        let run = AssertUnwindSafe(|| requests::run(ranks, request, memory.as_ref()));
        let result = catch_unwind(run).unwrap_or_else(|_| {
            let why = format!("'{name}' panicked: please report it");
            Err(CollectiveError::Ended(why))
        });
        // Any error ends the job: the other ranks wait for this one.
        if let Err(error) = &result {
            self.shared.fail(error);
        }
        self.shared.record(&CollectiveRecord {
            name: &name,
            kind,
            bytes,
            times: [queued_at, began, Instant::now()],
            spent: self.shared.timer.take(),
        });
        self.shared.reply(reply_to, result);
    }

    fn add_set(&mut self, members: Vec<usize>, sender: &Sender<Result<i32>>) {
        let added = match self.negotiation.first() {
            Some(name) => Err(CollectiveError::Argument(format!(
                "a set of ranks is added while '{name}' waits: add sets while no collective is under way"
            ))),
            None => self.ranks.add_set(&members),
        };
        if let (Err(error), true) = (&added, self.shared.negotiates) {
            self.shared.fail(error);
        }
        if let Ok(set) = added {
            let mut members = members;
            members.sort_unstable();
            self.shared.state().sets.insert(set, members);
        }
        let _ = sender.send(added);
    }

    fn join(&mut self, sender: Sender<Result<usize>>) {
        let alone = self.ranks.size() == 1;
        match self.negotiating_control() {
            Some(control) => self.negotiation.join(&control, sender),
            None if alone => drop(sender.send(Ok(0))),
            None => drop(sender.send(Err(negotiation::not_negotiated()))),
        }
    }

    /// Runs a negotiated turn: all members of a set are ready for a collective, or have joined.
    fn turn(&mut self, announced: &Announced) {
        let own = self.negotiation.take(&announced.key);
        let agreed = negotiation::agreed(announced);
        let discarded = |request| QueuedRequest {
            request,
            memory: None,
            queued_at: Instant::now(),
            reply_to: ReplyTo::Discard,
        };
        match (agreed, own) {
            (Ok(_), Some(queued)) => self.run_collective(queued),
            (Ok(of), None) => match negotiation::zeros(of) {
                Ok(request) => self.run_collective(discarded(request)),
                Err(error) => self.shared.fail(&error),
            },
            (Err(error), own) => {
                self.shared.fail(&error);
                if let Some(queued) = own {
                    self.shared.reply(queued.reply_to, Err(error));
                }
            }
        }
        if let Some(control) = &self.shared.control {
            self.negotiation.report_wait(control);
        }
    }

    /// Ends negotiations that may not wait any longer.
    fn poll_negotiation(&mut self) {
        let Some(control) = self.negotiating_control() else {
            return;
        };
        if let Err(error) = self.negotiation.may_wait(&control) {
            self.shared.fail(&error);
            self.cancel(&error);
        }
    }

    /// Ends all that waits for other ranks.
    fn cancel(&mut self, error: &CollectiveError) {
        for queued in self.negotiation.cancel(error) {
            self.shared.reply(queued.reply_to, Err(error.clone()));
        }
    }
}

impl ProgressShared {
    /// Delivers the results of a collective.
    fn reply(&self, to: ReplyTo, result: Result<Vec<Tensor>>) {
        match to {
            ReplyTo::Node(key) => self.wake(key, result),
            ReplyTo::Program(sender) => drop(sender.send(result)),
            ReplyTo::Discard => {}
        }
    }

    /// Writes the times of a collective to the timeline and the trace, if there are any. A file that cannot be written is given
    /// up.
    fn record(&self, record: &CollectiveRecord<'_>) {
        let mut open = self.trace.lock().unpoisoned();
        if let Some(trace) = &mut *open
            && let Err(e) = trace.add(record)
        {
            *open = None;
            self.timer.set_enabled(false);
            self.log(&format!("no more trace is written: {e}"));
        }
        drop(open);
        let mut open = self.timeline.lock().unpoisoned();
        let Some(timeline) = &mut *open else {
            return;
        };
        let [queued, began, ended] = record.times;
        let before = match self.negotiates {
            true => format!("NEGOTIATE_{}", record.kind),
            false => "QUEUE".to_owned(),
        };
        let written = timeline.span(record.name, &before, queued, began);
        let written = written.and_then(|()| timeline.span(record.name, record.kind, began, ended));
        if let Err(e) = written {
            *open = None;
            self.log(&format!("no more timeline is written: {e}"));
        }
    }

    /// Sends a line for the user to the coordinator.
    fn log(&self, text: &str) {
        if let Some(control) = &self.control {
            control.log(&format!("rank {}: {text}", self.rank));
        }
    }

    /// Keeps the result of a node, and wakes it. The node of a step that has ended is gone.
    fn wake(&self, key: NodeKey, result: Result<Vec<Tensor>>) {
        let mut state = self.state();
        let Some(node) = state.nodes.get_mut(&key) else {
            return;
        };
        if let NodeCollective::Pending { ticket, .. } =
            std::mem::replace(node, NodeCollective::Done(result))
        {
            drop(state);
            ticket.wake();
        }
    }
}

/// Name of a collective in Horovod's timeline.
fn timeline_name(kind: &Collective) -> &'static str {
    match kind {
        Collective::Reduce { .. } => "ALLREDUCE",
        Collective::Gather => "ALLGATHER",
        Collective::Broadcast { .. } => "BROADCAST",
        Collective::Scatter { .. } => "REDUCESCATTER",
        Collective::Exchange { .. } => "ALLTOALL",
        Collective::Barrier => "BARRIER",
    }
}
