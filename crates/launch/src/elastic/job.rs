//! Run of an elastic job: checks its options, and supervises its workers until all have ended.

use std::net::TcpListener;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use thalweg_collective::Secret;
use thalweg_collective::elastic::{Driver, ElasticLimits};

use super::hosts::Hosts;
use super::options::ElasticJob;
use super::running::RunningJob;
use crate::error::Result;
use crate::job::{EVENT_QUEUE, POLL_INTERVAL};
use crate::job_exit::JobExit;
use crate::screen::Screen;
use crate::secret::job_secret;
use crate::signals::Signals;

/// Silence after which a worker is lost: less than in other jobs, as the others can go on without it.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(3);

impl ElasticJob {
    /// Runs the job until all of its workers have ended.
    ///
    /// # Errors
    /// The numbers of ranks contradict each other; the discovery script fails; a worker cannot be started.
    pub fn run(&self) -> Result<JobExit> {
        let (start, min) = (self.ranks, self.min_ranks.unwrap_or(1));
        let hosts = match &self.discovery_script {
            Some(script) => Hosts::of_script(script, self.cooldown)?,
            None => Hosts::local(start, self.cooldown),
        };
        let max = match (self.max_ranks, &self.discovery_script) {
            (Some(max), Some(_)) => max,
            (None, Some(_)) => usize::MAX,
            (Some(max), None) if max > start => {
                return Err(format!(
                    "--max-np {max} needs --host-discovery-script: without one there are slots for --np {start} workers"
                )
                .into());
            }
            (max, None) => max.unwrap_or(start),
        };
        if min > start {
            return Err(format!("--min-np {min} is more than --np {start}").into());
        }
        if start > max {
            return Err(format!("--np {start} is more than --max-np {max}").into());
        }
        let limits = ElasticLimits {
            start,
            min,
            max,
            timeout: self.timeout,
            resets: self.reset_limit,
            ..ElasticLimits::of(start)
        };
        let secret = job_secret()?;
        let mut shared = Secret::from(&secret);
        if let Some(folder) = &self.protection {
            shared = shared.protected(folder)?;
        }
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let driver = Driver::start(listener, &shared, limits, SILENCE_TIMEOUT)?;
        let mut signals = Signals::catch()?;
        let (events, shown) = sync_channel(EVENT_QUEUE);
        let screen = Screen::start(Vec::new(), Vec::new(), shown)?;
        let mut job = RunningJob::new(self, (driver, secret), hosts, max, events);
        job.start_workers()?;
        while job.goes_on() {
            std::thread::sleep(POLL_INTERVAL);
            for signal in signals.pending() {
                job.take_signal(signal);
            }
            job.poll()?;
        }
        // The screen ends when all senders of events are dropped.
        let failure = job.end();
        let lost = screen.end();
        Ok(failure.unwrap_or_else(|| JobExit::success(lost)))
    }
}
