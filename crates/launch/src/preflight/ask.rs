//! Questions to all hosts at the same time.

use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use super::ready_host::ReadyHost;
use crate::error::{LaunchError, Result};
use crate::protocol::{Answer, Request};
use crate::screen::ScreenEvent;
use crate::signals::Signals;

/// Interval at which answers and signals are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Time for the other hosts once one has failed, so that all that fail are named.
const OTHERS_TIMEOUT: Duration = Duration::from_secs(3);

/// Asks the hosts of a job, until a signal comes.
pub(crate) struct Asker<'a> {
    hosts: &'a [ReadyHost],
    signals: &'a mut Signals,
    events: &'a SyncSender<ScreenEvent>,
}

impl<'a> Asker<'a> {
    pub(crate) fn new(
        hosts: &'a [ReadyHost],
        signals: &'a mut Signals,
        events: &'a SyncSender<ScreenEvent>,
    ) -> Asker<'a> {
        Asker {
            hosts,
            signals,
            events,
        }
    }

    pub(super) fn hosts(&self) -> &'a [ReadyHost] {
        self.hosts
    }

    pub(super) fn events(&self) -> &SyncSender<ScreenEvent> {
        self.events
    }

    /// Sends a request to each other host.
    pub(super) fn send(&self, request: &dyn Fn(usize) -> Request) {
        for (number, host) in self.hosts.iter().enumerate() {
            if let Some(link) = &host.link {
                link.send(request(number));
            }
        }
    }

    /// Waits for an answer of each host; `local` answers for this one.
    ///
    /// # Errors
    /// Hosts do not answer in time, or are lost: the error names all. A signal has come.
    pub(super) fn answers(
        &mut self,
        timeout: Duration,
        local: &dyn Fn(usize) -> Option<Answer>,
    ) -> Result<Vec<Option<Answer>>> {
        let began = Instant::now();
        let mut answers: Vec<Option<Answer>> = (0..self.hosts.len())
            .map(|host| {
                self.hosts[host]
                    .link
                    .is_none()
                    .then(|| local(host))
                    .flatten()
            })
            .collect();
        let mut errors: Vec<Option<String>> = vec![None; self.hosts.len()];
        let mut failed_at = None;
        loop {
            let mut waits = Vec::new();
            for (number, host) in self.hosts.iter().enumerate() {
                let Some(link) = &host.link else { continue };
                if answers[number].is_some() || errors[number].is_some() {
                    continue;
                }
                match link.poll_answer() {
                    Ok(Some(answer)) => answers[number] = Some(answer),
                    Ok(None) => waits.push(number),
                    Err(reason) => {
                        let name = &host.name;
                        errors[number] =
                            Some(format!("the host '{name}' is not reached: {reason}"));
                        failed_at.get_or_insert_with(Instant::now);
                    }
                }
            }
            if let Some(&signal) = self.signals.pending().first() {
                return Err(LaunchError::Interrupted(signal));
            }
            let others_late = failed_at.is_some_and(|at| at.elapsed() > OTHERS_TIMEOUT);
            if waits.is_empty() || others_late || began.elapsed() > timeout {
                let late = |host: &usize| {
                    format!(
                        "the host '{}' has not answered within {:.0?}",
                        self.hosts[*host].name,
                        began.elapsed()
                    )
                };
                let late: Vec<String> = waits.iter().map(late).collect();
                let all: Vec<String> = errors.into_iter().flatten().chain(late).collect();
                return match all.is_empty() {
                    true => Ok(answers),
                    false => Err(all.join("\n").into()),
                };
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
