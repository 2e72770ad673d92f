//! What the thread of the collectives does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use thalweg_device::Collective;
use thalweg_tensor::Tensor;

use super::negotiation::{self, Negotiation};
use super::{Answer, Asked, Command, Key, Shared, Wait, requests};
use crate::control::{Announced, Control, Turn};
use crate::error::{CollectiveError, Result};
use crate::ranks::Ranks;
use crate::trace::Ran;

/// How long a wait for other ranks lasts before it is looked whether the job has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Runs collectives, one after another.
pub(super) struct Runner {
    shared: Arc<Shared>,
    ranks: Ranks,
    /// What this rank has announced.
    negotiation: Negotiation,
}

impl Runner {
    pub(super) fn new(shared: Arc<Shared>, ranks: Ranks) -> Runner {
        Runner {
            shared,
            ranks,
            negotiation: Negotiation::default(),
        }
    }

    /// Runs what is asked for, until nobody asks any more.
    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        let mut looked = Instant::now();
        loop {
            // Also where there is always something to do.
            if self.negotiation.waits() && looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.look();
            }
            let command = match self.negotiation.waits() {
                false => commands.recv().unwrap_or(Command::End),
                true => match commands.recv_timeout(LOOK) {
                    Ok(command) => command,
                    Err(RecvTimeoutError::Disconnected) => Command::End,
                    Err(RecvTimeoutError::Timeout) => continue,
                },
            };
            match command {
                Command::Run(asked) => self.asked(asked),
                Command::AddSet(members, sender) => self.add_set(members, &sender),
                Command::Join(sender) => self.join(sender),
                Command::Turn(Turn::Run(announced)) => self.turn(&announced),
                Command::Turn(Turn::Joined { last }) => self.negotiation.joined(last),
                Command::End => break,
            }
        }
        let why = CollectiveError::Ended("the rank has shut down".to_owned());
        self.give_up(&why);
    }

    /// The connection to the coordinator, where ranks negotiate and there are others.
    fn negotiates(&self) -> Option<Arc<Control>> {
        let control = self.shared.control.clone();
        control.filter(|_| self.shared.negotiates)
    }

    /// Runs a collective at once, or announces it.
    fn asked(&mut self, asked: Asked) {
        let Some(control) = self.negotiates() else {
            return self.run_asked(asked);
        };
        let set = asked.request.set;
        let members = self.shared.state().sets.get(&set).cloned();
        let members = members.unwrap_or_default();
        let announced = match self.ranks.place(set) {
            Ok(_) => self.negotiation.announce(&control, &members, asked),
            Err(error) => Err((asked, error)),
        };
        if let Err((asked, error)) = announced {
            self.shared.fail(&error);
            self.shared.answer(asked.answer, Err(error));
        }
    }

    fn run_asked(&mut self, asked: Asked) {
        let Asked {
            request,
            memory,
            at,
            answer,
        } = asked;
        let (name, what) = (request.name.clone(), phase(&request.kind));
        let bytes = request.input.bytes().len();
        let began = Instant::now();
        let ranks = &mut self.ranks;
        let run = AssertUnwindSafe(|| requests::run(ranks, request, memory.as_ref()));
        let result = catch_unwind(run).unwrap_or_else(|_| {
            let why = format!("'{name}' panicked: please report it");
            Err(CollectiveError::Ended(why))
        });
        // Whatever goes wrong ends the job: the other ranks wait for this one.
        if let Err(error) = &result {
            self.shared.fail(error);
        }
        self.shared.note(&Ran {
            name: &name,
            what,
            bytes,
            times: [at, began, Instant::now()],
            spent: self.shared.watch.take(),
        });
        self.shared.answer(answer, result);
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
        match self.negotiates() {
            Some(control) => self.negotiation.join(&control, sender),
            None if alone => drop(sender.send(Ok(0))),
            None => drop(sender.send(Err(negotiation::is_needed()))),
        }
    }

    /// All members of a set are ready for a collective, or have joined: those that have not announced anything.
    fn turn(&mut self, announced: &Announced) {
        let own = self.negotiation.take(&announced.key);
        let agreed = negotiation::agreed(announced);
        let nobody = |request| Asked {
            request,
            memory: None,
            at: Instant::now(),
            answer: Answer::Nobody,
        };
        match (agreed, own) {
            (Ok(_), Some(asked)) => self.run_asked(asked),
            (Ok(of), None) => match negotiation::zeros(of) {
                Ok(request) => self.run_asked(nobody(request)),
                Err(error) => self.shared.fail(&error),
            },
            (Err(error), own) => {
                self.shared.fail(&error);
                if let Some(asked) = own {
                    self.shared.answer(asked.answer, Err(error));
                }
            }
        }
        if let Some(control) = &self.shared.control {
            self.negotiation.says_what_waits(control);
        }
    }

    /// Whether to wait any longer for other ranks.
    fn look(&mut self) {
        let Some(control) = self.negotiates() else {
            return;
        };
        if let Err(error) = self.negotiation.may_wait(&control) {
            self.shared.fail(&error);
            self.give_up(&error);
        }
    }

    fn give_up(&mut self, error: &CollectiveError) {
        for asked in self.negotiation.give_up(error) {
            self.shared.answer(asked.answer, Err(error.clone()));
        }
    }
}

impl Shared {
    fn answer(&self, answer: Answer, result: Result<Vec<Tensor>>) {
        match answer {
            Answer::Node(key) => self.done(key, result),
            Answer::Program(sender) => drop(sender.send(result)),
            Answer::Nobody => {}
        }
    }

    /// Writes the times of a collective to the timeline and to the trace, if there are any. One that cannot be written is given
    /// up.
    fn note(&self, ran: &Ran<'_>) {
        let mut open = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trace) = &mut *open
            && let Err(e) = trace.ran(ran)
        {
            *open = None;
            self.watch.turn(false);
            self.tell(&format!("no more trace is written: {e}"));
        }
        drop(open);
        let mut open = self.timeline.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(timeline) = &mut *open else {
            return;
        };
        let [asked, began, ended] = ran.times;
        let before = match self.negotiates {
            true => format!("NEGOTIATE_{}", ran.what),
            false => "QUEUE".to_owned(),
        };
        let written = timeline.span(ran.name, &before, asked, began);
        let written = written.and_then(|()| timeline.span(ran.name, ran.what, began, ended));
        if let Err(e) = written {
            *open = None;
            self.tell(&format!("no more timeline is written: {e}"));
        }
    }

    /// Tells people, through the coordinator.
    fn tell(&self, what: &str) {
        if let Some(control) = &self.control {
            control.tell(&format!("rank {}: {what}", self.rank));
        }
    }

    /// Keeps the result of a node, and wakes it; nobody waits for that of a step that has ended.
    fn done(&self, key: Key, result: Result<Vec<Tensor>>) {
        let mut state = self.state();
        let Some(wait) = state.waits.get_mut(&key) else {
            return;
        };
        if let Wait::Pending { ticket, .. } = std::mem::replace(wait, Wait::Done(result)) {
            drop(state);
            ticket.wake();
        }
    }
}

/// What Horovod's timeline calls a collective.
fn phase(kind: &Collective) -> &'static str {
    match kind {
        Collective::Reduce { .. } => "ALLREDUCE",
        Collective::Gather => "ALLGATHER",
        Collective::Broadcast { .. } => "BROADCAST",
        Collective::Scatter { .. } => "REDUCESCATTER",
        Collective::Exchange { .. } => "ALLTOALL",
        Collective::Barrier => "BARRIER",
    }
}
