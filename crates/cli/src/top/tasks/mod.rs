//! State of the tasks: the last two polls of each endpoint, and the rows that follow from them.

use std::time::{Duration, Instant};

use super::metrics::printable;
use super::numbers::{PeerNumbers, TaskNumbers};
use super::poll::Report;

/// State of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    NotReached,
    /// No poll has ended yet.
    Pending,
    Draining,
    Up,
}

impl State {
    /// Returns its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            State::NotReached => "not reached",
            State::Pending => "pending",
            State::Draining => "draining",
            State::Up => "up",
        }
    }
}

/// Numbers of a task between two polls. Rates are per second, and `None` before the second poll.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) address: String,
    /// Name of the task, or its address while the name is unknown.
    pub(super) name: String,
    pub(super) state: State,
    /// Steps of clients of its server.
    pub(super) client_steps: Option<f64>,
    /// Parts of steps over several tasks.
    pub(super) parts: Option<f64>,
    pub(super) link: LinkRates,
    /// Loss of its newest training step, which may be NaN, and the global step before it.
    pub(super) loss: Option<f64>,
    pub(super) global_step: Option<f64>,
    /// Bytes.
    pub(super) memory: Option<f64>,
    pub(super) memory_limit: Option<f64>,
    /// Time since the last answer of the endpoint.
    pub(super) contact: Option<Duration>,
    pub(super) peers: Vec<PeerRow>,
    pub(super) error: Option<String>,
}

/// Bytes per second of one peer, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct LinkRates {
    pub(super) sent: Option<f64>,
    pub(super) received: Option<f64>,
    pub(super) shared: Option<f64>,
}

/// Numbers of a peer of a task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PeerRow {
    pub(super) name: String,
    pub(super) link: LinkRates,
    /// Seconds since something last came from it.
    pub(super) silent: Option<f64>,
    /// Receives that wait for it.
    pub(super) waiting: f64,
}

impl Row {
    /// Returns the steps per second that the task has a part in. A step of a client over several tasks counts as both.
    pub(super) fn steps(&self) -> Option<f64> {
        self.client_steps.zip(self.parts).map(|(a, b)| a.max(b))
    }

    /// Returns the peer that most receives wait for.
    pub(super) fn waits_for(&self) -> Option<&PeerRow> {
        let waited = self.peers.iter().filter(|p| p.waiting > 0.0);
        waited.max_by(|a, b| a.waiting.total_cmp(&b.waiting))
    }
}

/// Task behind an endpoint.
pub(super) struct Task {
    address: String,
    /// The last two answers.
    last: Option<(Instant, TaskNumbers)>,
    before: Option<(Instant, TaskNumbers)>,
    /// Time of the last report, or of the begin.
    reported: Instant,
    error: Option<String>,
}

impl Task {
    pub(super) fn new(address: &str, now: Instant) -> Task {
        Task {
            address: printable(address),
            last: None,
            before: None,
            reported: now,
            error: None,
        }
    }

    /// Takes a report of its endpoint.
    pub(super) fn record(&mut self, report: Report) {
        self.reported = report.at;
        match report.answer {
            Ok(numbers) => {
                // Over a time without answers, a rate would be none of now.
                self.before = self.last.take().filter(|_| self.error.is_none());
                self.last = Some((report.at, numbers));
                self.error = None;
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// Returns the number of answers that rates follow from: at most 2.
    pub(super) fn answers(&self) -> usize {
        usize::from(self.last.is_some()) + usize::from(self.before.is_some())
    }

    /// Returns its row. A task without a report for `timeout` is not reached.
    pub(super) fn row(&self, now: Instant, timeout: Duration) -> Row {
        let late = now.saturating_duration_since(self.reported) > timeout;
        let silent = late.then(|| "its name gets no address, or it does not answer".to_owned());
        let error = self.error.clone().or(silent);
        let last = self.last.as_ref();
        let name = last.and_then(|(_, numbers)| numbers.name.clone());
        let mut row = Row {
            address: self.address.clone(),
            name: name.unwrap_or_else(|| self.address.clone()),
            state: State::Pending,
            client_steps: None,
            parts: None,
            link: LinkRates::default(),
            loss: None,
            global_step: None,
            memory: None,
            memory_limit: None,
            contact: last.map(|(at, _)| now.saturating_duration_since(*at)),
            peers: Vec::new(),
            error,
        };
        match last {
            _ if row.error.is_some() => row.state = State::NotReached,
            Some((at, numbers)) => self.fill(&mut row, *at, numbers),
            None => {}
        }
        row
    }

    fn fill(&self, row: &mut Row, at: Instant, numbers: &TaskNumbers) {
        row.state = match numbers.draining {
            true => State::Draining,
            false => State::Up,
        };
        (row.loss, row.global_step) = (numbers.loss, numbers.global_step);
        row.memory = Some(numbers.memory);
        row.memory_limit = numbers.memory_limit;
        let before = self.before.as_ref();
        let seconds = before.map(|(then, _)| at.saturating_duration_since(*then).as_secs_f64());
        let before = before.map(|(_, numbers)| numbers);
        let rate = |now: f64, then: Option<f64>| rate(now, then, seconds);
        row.client_steps = rate(numbers.steps, before.map(|b| b.steps));
        row.parts = rate(numbers.parts, before.map(|b| b.parts));
        let rows = numbers.peers.iter().map(|(name, peer)| {
            // A peer that was not there before has sent nothing then.
            let then = before.map(|b| b.peers.get(name).cloned().unwrap_or_default());
            let count = |of: fn(&PeerNumbers) -> f64| rate(of(peer), then.as_ref().map(of));
            PeerRow {
                name: name.clone(),
                link: LinkRates {
                    sent: count(|p| p.sent),
                    received: count(|p| p.received),
                    shared: count(|p| p.shared),
                },
                silent: peer.silent,
                waiting: peer.waiting,
            }
        });
        row.peers = rows.collect();
        let sum = |of: fn(&LinkRates) -> Option<f64>| {
            let mut links = row.peers.iter().map(|p| of(&p.link));
            before.and_then(|_| links.try_fold(0.0, |sum, rate| Some(sum + rate?)))
        };
        row.link = LinkRates {
            sent: sum(|l| l.sent),
            received: sum(|l| l.received),
            shared: sum(|l| l.shared),
        };
    }
}

/// Returns the growth of a counter per second. `None` without an earlier value, and if the counter has begun again.
fn rate(now: f64, then: Option<f64>, seconds: Option<f64>) -> Option<f64> {
    let (then, seconds) = (then?, seconds?);
    (seconds > 0.0 && now >= then).then(|| (now - then) / seconds)
}

#[cfg(test)]
mod tests;
