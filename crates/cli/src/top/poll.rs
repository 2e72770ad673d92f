//! Polling of endpoints, by a thread for each, so that a slow one holds no other.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::http::request;
use super::limits::REQUEST_TIMEOUT;
use super::numbers::TaskNumbers;

/// Size of the stack of a polling thread, in bytes.
const STACK_BYTES: usize = 512 << 10;

/// Answer of an endpoint to one poll, or the message of its error.
pub(super) struct Report {
    /// Index of the endpoint.
    pub(super) endpoint: usize,
    pub(super) at: Instant,
    pub(super) answer: Result<TaskNumbers, String>,
}

/// Polling threads. They end after the drop, at their next report.
pub(super) struct Pollers {
    reports: Receiver<Report>,
}

impl Pollers {
    /// Polls each address at this interval, from now on.
    ///
    /// # Errors
    /// The system has no thread for an address.
    pub(super) fn start(addresses: &[String], interval: Duration) -> std::io::Result<Pollers> {
        let (sender, reports) = channel();
        for (endpoint, address) in addresses.iter().enumerate() {
            let (address, sender) = (address.clone(), sender.clone());
            std::thread::Builder::new()
                .name("thalweg-top".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || poll(endpoint, &address, interval, &sender))?;
        }
        Ok(Pollers { reports })
    }

    /// Returns the next report, if one comes within this time.
    pub(super) fn next(&self, limit: Duration) -> Option<Report> {
        match self.reports.recv_timeout(limit) {
            Ok(report) => Some(report),
            Err(RecvTimeoutError::Timeout) => None,
            // No threads are left, as without addresses.
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(limit);
                None
            }
        }
    }
}

/// Returns the time within which an endpoint reports again. An endpoint without a report for longer waits for the
/// address of its name, which has no time limit of its own.
pub(super) fn report_timeout(interval: Duration) -> Duration {
    interval + REQUEST_TIMEOUT + Duration::from_millis(500)
}

/// Polls an endpoint until nobody receives its reports.
fn poll(endpoint: usize, address: &str, interval: Duration, sender: &Sender<Report>) {
    loop {
        let began = Instant::now();
        let answer = request(address).map_err(|error| error.to_string());
        let at = Instant::now();
        let report = Report {
            endpoint,
            at,
            answer,
        };
        if sender.send(report).is_err() {
            return;
        }
        std::thread::sleep(interval.saturating_sub(began.elapsed()));
    }
}
