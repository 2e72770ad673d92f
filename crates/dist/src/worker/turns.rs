//! Rounds of synchronous training, on the coordinator's task: the workers that may compute a gradient for the next
//! update (their turn), and the gradients that have come.
//!
//! A round is one turn of all workers: it has a token and a number of tickets, one for each gradient. A ticket
//! belongs to the worker of its number. Another worker gets it when that one is away for long.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use thalweg_tensor::sync::Unpoisoned;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::error::{Cause, ClusterError};
use crate::metrics::counters::GaugeGuard;
use crate::transport::messages::{Turn, TurnGiven};

/// Maximum number of trainings that a task coordinates.
const MAX_TRAININGS: usize = 1024;

/// Maximum number of workers of a training.
const MAX_WORKERS: u32 = 1 << 16;

/// Turns of all trainings of a task, by name.
#[derive(Default)]
pub(crate) struct TurnRegistry {
    all: Mutex<BTreeMap<String, Arc<TrainingTurns>>>,
    /// Number of workers that wait for a turn.
    pub(crate) waiting: AtomicU64,
}

impl TurnRegistry {
    /// Returns the turns of a training; the first call creates them.
    ///
    /// # Errors
    /// The limit of trainings is reached.
    pub(crate) fn of(&self, name: &str) -> Result<Arc<TrainingTurns>, ClusterError> {
        let mut all = self.all.lock().unpoisoned();
        if let Some(turns) = all.get(name) {
            return Ok(turns.clone());
        }
        if all.len() >= MAX_TRAININGS {
            let text = format!("a task coordinates {MAX_TRAININGS} synchronous trainings at most");
            return Err(ClusterError::new(Cause::Exhausted, text));
        }
        let turns: Arc<TrainingTurns> = Arc::default();
        all.insert(name.to_owned(), turns.clone());
        Ok(turns)
    }

    /// Notes a worker's gradient, and returns its next turn. The response has no token if there is no turn within
    /// `timeout`.
    ///
    /// # Errors
    /// [`Cause::OutOfRange`] if the training is over.
    pub(crate) async fn ask(
        &self,
        asked: &Turn,
        timeout: Duration,
    ) -> Result<TurnGiven, ClusterError> {
        let turns = self.of(&asked.name)?;
        turns.note(asked);
        if asked.only {
            return Ok(TurnGiven::default());
        }
        let _waits = GaugeGuard::begin(&self.waiting);
        let given = tokio::time::timeout(timeout, turns.given(asked.worker)).await;
        given.unwrap_or_else(|_| Ok(turns.no_turn()))
    }
}

/// Turns of one training.
#[derive(Default)]
pub(crate) struct TrainingTurns {
    state: Mutex<TurnState>,
    changed: Notify,
}

#[derive(Default)]
struct TurnState {
    round: Option<Round>,
    over: bool,
    /// Reason for the wait while there is no round.
    waits: String,
    /// Time of each worker's last request.
    asked: BTreeMap<u32, Instant>,
    /// Absent workers, whose tickets others may get.
    away: BTreeSet<u32>,
}

struct Round {
    token: i64,
    step: i64,
    wanted: RoundSize,
    tickets: Vec<GradientTicket>,
}

#[derive(Default)]
struct GradientTicket {
    holder: Option<u32>,
    given: bool,
}

/// Size of a round.
#[derive(Clone, Copy)]
pub(crate) struct RoundSize {
    pub(crate) workers: u32,
    /// Number of gradients of an update.
    pub(crate) aggregate: u32,
}

impl TrainingTurns {
    fn state(&self) -> MutexGuard<'_, TurnState> {
        self.state.lock().unpoisoned()
    }

    /// Starts a round.
    pub(crate) fn begin(&self, token: i64, step: i64, wanted: RoundSize) {
        let tickets = wanted.aggregate.max(wanted.workers);
        let mut state = self.state();
        state.over = false;
        state.round = Some(Round {
            token,
            step,
            wanted,
            tickets: (0..tickets).map(|_| GradientTicket::default()).collect(),
        });
        drop(state);
        self.changed.notify_waiters();
    }

    /// Ends the round: no worker gets a turn until the next one.
    pub(crate) fn end(&self, waits: impl Into<String>) {
        let mut state = self.state();
        state.round = None;
        state.waits = waits.into();
    }

    /// Ends the training.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.round = None;
        state.over = true;
        drop(state);
        self.changed.notify_waiters();
    }

    /// Sets the absent workers, whose tickets others may get.
    pub(crate) fn away(&self, away: BTreeSet<u32>) {
        let mut state = self.state();
        if state.away != away {
            state.away = away;
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Returns the absent workers.
    #[cfg(test)]
    pub(crate) fn absent(&self) -> BTreeSet<u32> {
        self.state().away.clone()
    }

    /// Returns the time of each worker's last request.
    pub(crate) fn asked(&self) -> BTreeMap<u32, Instant> {
        self.state().asked.clone()
    }

    /// Waits until the round has all gradients of the update.
    pub(crate) async fn full(&self) {
        self.until(|state| {
            let round = state.round.as_ref();
            round.is_none_or(Round::is_full).then_some(())
        })
        .await;
    }

    async fn until<T>(&self, mut look: impl FnMut(&mut TurnState) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = look(&mut self.state()) {
                return found;
            }
            changed.await;
        }
    }

    /// Notes a worker's gradient.
    fn note(&self, asked: &Turn) {
        let mut state = self.state();
        if asked.worker < MAX_WORKERS {
            state.asked.insert(asked.worker, Instant::now());
        }
        let Some(round) = state.round.as_mut().filter(|r| r.token == asked.token) else {
            return;
        };
        let ticket = usize::try_from(asked.ticket).ok();
        if let Some(ticket) = ticket.and_then(|t| round.tickets.get_mut(t)) {
            ticket.given = true;
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Waits for a turn of this worker.
    async fn given(&self, worker: u32) -> Result<TurnGiven, ClusterError> {
        self.until(|state| {
            if state.over {
                let text = "the training is over";
                return Some(Err(ClusterError::new(Cause::OutOfRange, text)));
            }
            state.turn(worker).map(Ok)
        })
        .await
    }

    /// Returns the response without a turn, with the reason.
    fn no_turn(&self) -> TurnGiven {
        let state = self.state();
        let waits = match &state.round {
            None if state.waits.is_empty() => "nobody coordinates the training yet".to_owned(),
            None => state.waits.clone(),
            Some(round) => round.waits(),
        };
        TurnGiven {
            waits,
            ..TurnGiven::default()
        }
    }
}

impl TurnState {
    /// Returns a ticket for this worker.
    fn turn(&mut self, worker: u32) -> Option<TurnGiven> {
        let away = &self.away;
        let round = self.round.as_mut()?;
        let left = || round.tickets.iter().enumerate().filter(|(_, t)| !t.given);
        let held = left().find(|(_, t)| t.holder == Some(worker));
        let fresh = || left().find(|&(i, t)| t.holder.is_none() && round.owner(i) == worker);
        let lost = || left().find(|&(i, t)| away.contains(&t.holder.unwrap_or(round.owner(i))));
        let (ticket, _) = held.or_else(fresh).or_else(lost)?;
        round.tickets[ticket].holder = Some(worker);
        Some(TurnGiven {
            token: round.token,
            ticket: ticket as i64,
            step: round.step,
            waits: String::new(),
        })
    }
}

impl Round {
    /// Returns the worker that a ticket belongs to.
    fn owner(&self, ticket: usize) -> u32 {
        ticket as u32 % self.wanted.workers.max(1)
    }

    /// Returns the number of gradients that have arrived.
    fn given(&self) -> usize {
        self.tickets.iter().filter(|t| t.given).count()
    }

    fn is_full(&self) -> bool {
        self.given() >= self.wanted.aggregate as usize
    }

    /// Describes the missing gradients.
    fn waits(&self) -> String {
        let missing = self.tickets.iter().enumerate().filter(|(_, t)| !t.given);
        let of = missing.map(|(i, t)| format!("worker {}", t.holder.unwrap_or(self.owner(i))));
        let of: Vec<String> = of.take(8).collect();
        format!(
            "step {} has {} of {} gradients, and waits for {}",
            self.step,
            self.given(),
            self.wanted.aggregate,
            of.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: RoundSize = RoundSize {
        workers: 2,
        aggregate: 2,
    };

    fn asks(worker: u32, given: Option<&TurnGiven>) -> Turn {
        Turn {
            name: "t".to_owned(),
            worker,
            token: given.map_or(0, |g| g.token),
            ticket: given.map_or(0, |g| g.ticket),
            only: false,
        }
    }

    async fn turn(all: &TurnRegistry, worker: u32, given: Option<&TurnGiven>) -> TurnGiven {
        let timeout = Duration::from_secs(1);
        all.ask(&asks(worker, given), timeout).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_handed_out_until_its_gradient_arrives() {
        let all = TurnRegistry::default();
        let turns = all.of("t").unwrap();
        assert_eq!(
            turn(&all, 0, None).await.waits,
            "nobody coordinates the training yet"
        );
        turns.begin(7, 3, WANTED);
        let first = turn(&all, 0, None).await;
        assert_eq!((first.token, first.ticket, first.step), (7, 0, 3));
        // The worker failed, and asks again.
        assert_eq!(turn(&all, 0, None).await, first);
        let waits = turn(&all, 0, Some(&first)).await;
        assert_eq!(waits.token, 0);
        assert!(waits.waits.contains("1 of 2 gradients"), "{}", waits.waits);
        let second = turn(&all, 1, None).await;
        assert_eq!(second.ticket, 1);
        let full = async {
            turns.full().await;
            turns.begin(8, 4, WANTED);
        };
        let (next, ()) = tokio::join!(turn(&all, 1, Some(&second)), full);
        assert_eq!((next.token, next.step), (8, 4));
        // A late gradient does not count for the new round.
        assert_eq!(turn(&all, 0, Some(&first)).await.token, 8);
    }

    #[tokio::test(start_paused = true)]
    async fn a_ticket_of_an_absent_worker_goes_to_another() {
        let all = TurnRegistry::default();
        let turns = all.of("t").unwrap();
        turns.begin(7, 0, WANTED);
        let lost = turn(&all, 1, None).await;
        let own = turn(&all, 0, None).await;
        assert_eq!(turn(&all, 0, Some(&own)).await.token, 0);
        turns.away([1].into());
        assert_eq!(turn(&all, 0, Some(&own)).await.ticket, lost.ticket);
    }

    #[tokio::test(start_paused = true)]
    async fn with_more_gradients_than_workers_a_worker_gives_several() {
        let all = TurnRegistry::default();
        let wanted = RoundSize {
            workers: 2,
            aggregate: 4,
        };
        all.of("t").unwrap().begin(1, 0, wanted);
        let first = turn(&all, 1, None).await;
        let second = turn(&all, 1, Some(&first)).await;
        assert_eq!((first.ticket, second.ticket), (1, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_asks_after_the_end_gets_out_of_range() {
        let all = TurnRegistry::default();
        let turns = all.of("t").unwrap();
        let asked = asks(0, None);
        let waits = all.ask(&asked, Duration::from_secs(9));
        let (told, ()) = tokio::join!(waits, async { turns.close() });
        assert_eq!(told.unwrap_err().cause, Cause::OutOfRange);
    }

    #[test]
    fn gradients_of_other_turns_and_unknown_tickets_do_not_count() {
        let turns = TrainingTurns::default();
        turns.begin(7, 3, WANTED);
        let given = || turns.state().round.as_ref().map(Round::given);
        for (token, ticket, expected) in [
            (6, 0, 0),
            (8, 0, 0),
            (7, -1, 0),
            (7, 2, 0),
            (7, 1, 1),
            // Again.
            (7, 1, 1),
            (7, 0, 2),
        ] {
            turns.note(&Turn {
                token,
                ticket,
                ..asks(0, None)
            });
            assert_eq!(given(), Some(expected), "{token} {ticket}");
        }
        turns.end("the variables are being updated");
        assert_eq!(turns.no_turn().waits, "the variables are being updated");
        assert_eq!(given(), None);
    }

    #[test]
    fn requests_of_impossible_workers_are_not_remembered() {
        let turns = TrainingTurns::default();
        for worker in [3, MAX_WORKERS - 1, MAX_WORKERS, u32::MAX] {
            turns.note(&asks(worker, None));
        }
        let known: Vec<u32> = turns.asked().into_keys().collect();
        assert_eq!(known, [3, MAX_WORKERS - 1]);
    }

    #[test]
    fn the_trainings_of_a_task_are_bounded() {
        let all = TurnRegistry::default();
        for number in 0..MAX_TRAININGS {
            all.of(&number.to_string()).unwrap();
        }
        let full = all.of("more").map(|_| ()).unwrap_err();
        assert_eq!(full.cause, Cause::Exhausted);
        all.of("0").unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_note_of_a_gradient_does_not_wait_for_a_turn() {
        let all = TurnRegistry::default();
        let note = Turn {
            only: true,
            ..asks(0, None)
        };
        let began = Instant::now();
        let answer = all.ask(&note, Duration::from_secs(3600)).await.unwrap();
        assert_eq!(
            (answer, began.elapsed()),
            (TurnGiven::default(), Duration::ZERO)
        );
    }
}
