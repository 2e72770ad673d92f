//! Ranks of a job: their variables, the coordinator at which they meet, and restarts of all of them.

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use thalweg_collective::{Coordinator, SILENCE_TIMEOUT, Secret};
use thalweg_launch_env::variables;

use super::job::HostedJob;
use super::plan::{Places, RankMeeting};
use crate::console::Console;
use crate::error::{LaunchError, Result};
use crate::job::{TasksEnd, restarts_text};
use crate::job_exit::JobExit;
use crate::layout::PlacedTask;
use crate::preflight::ReadyHost;
use crate::protocol::StartTask;
use crate::secret::job_secret;
use crate::trace::{merge_traces, rank_trace};

/// Time between two attempts to start ranks again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which signals are polled between two attempts.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Ranks that are ready to start, with a coordinator of their own.
struct ReadyRanks {
    places: Places,
    starts: Vec<StartTask>,
    hosts: Vec<ReadyHost>,
    coordinator: Coordinator,
    /// Warnings of the coordinator.
    notes: Receiver<String>,
}

impl ReadyRanks {
    /// Ends the agents, whose ranks have ended, after the last lines.
    fn close(&self) {
        std::thread::scope(|scope| {
            for link in self.hosts.iter().filter_map(|host| host.link.as_ref()) {
                // Without a thread, the agent ends when its connection is dropped.
                let thread = std::thread::Builder::new();
                let _ = thread.spawn_scoped(scope, || link.close_after_lines());
            }
        });
    }
}

impl HostedJob {
    /// Runs the ranks. When one of them fails, or its host is lost, all are started again, as often as the options allow: the others
    /// cannot go on without it.
    ///
    /// # Errors
    /// As [`HostedJob::run`].
    pub(super) fn run_ranks(&self, ranks: usize) -> Result<JobExit> {
        let mut console = Console::catch()?;
        let mut ready = self.ready_ranks(ranks, 0, &mut console)?;
        let mut restart = 0;
        let end = loop {
            let (code, text) = match self.run_ready(&ready, &mut console) {
                Ok(TasksEnd::Failed { code, text }) => (code, text),
                Ok(end) => break end,
                Err(error) if restart == 0 => return Err(error),
                Err(error) => {
                    let text = error.to_string();
                    break TasksEnd::Failed { code: 1, text };
                }
            };
            let most = self.options.restarts;
            if restart == most {
                let text = text + &restarts_text(restart);
                break TasksEnd::Failed { code, text };
            }
            restart += 1;
            console.note(format!(
                "{text}: all ranks are started again ({restart} of {most})"
            ));
            ready.close();
            ready = match self.ready_again(ranks, restart, &mut console) {
                Ok(ready) => {
                    (0..ranks).for_each(|rank| console.show_state(rank, "started again"));
                    ready
                }
                Err(LaunchError::Interrupted(signal)) => break TasksEnd::Signal(signal),
                Err(error) => {
                    let timeout = self.options.start_timeout;
                    let text = format!(
                        "{text}, and could not be started again within {timeout:?}: {error}"
                    );
                    break TasksEnd::Failed { code, text };
                }
            };
        };
        let mut exit = end.exit(console);
        if let Some(path) = &self.options.trace
            && let Err(error) = merge_traces(path, ranks, &mut exit.messages)
        {
            exit.messages.push(format!("error: {error}"));
            if exit.code == 0 {
                exit.code = 1;
            }
        }
        Ok(exit)
    }

    /// Makes hosts ready for ranks that were started so often before, with agents, a coordinator and a secret of their own.
    ///
    /// # Errors
    /// As [`HostedJob::run`].
    fn ready_ranks(&self, ranks: usize, restart: u32, console: &mut Console) -> Result<ReadyRanks> {
        let mut places = self.places()?;
        let own = self.own_address(&places.hosts)?;
        let (lines, notes) = channel();
        let (coordinator, meeting) = self.coordinator(ranks, own, lines)?;
        let hosts = self.ready_hosts(&mut places, own, console)?;
        let meeting = RankMeeting { restart, ..meeting };
        let starts = self.starts(&places, own, Some(&meeting))?;
        Ok(ReadyRanks {
            places,
            starts,
            hosts,
            coordinator,
            notes,
        })
    }

    /// The same for ranks that have failed. It is tried until the start timeout: a host that was lost may take a while to come back.
    ///
    /// # Errors
    /// The last attempt has failed; a signal has come.
    fn ready_again(&self, ranks: usize, restart: u32, console: &mut Console) -> Result<ReadyRanks> {
        let began = Instant::now();
        loop {
            let error = match self.ready_ranks(ranks, restart, console) {
                Err(error) if !matches!(error, LaunchError::Interrupted(_)) => error,
                ended => return ended,
            };
            if began.elapsed() > self.options.start_timeout {
                return Err(error);
            }
            let failed_at = Instant::now();
            while failed_at.elapsed() < RETRY_INTERVAL {
                if let Some(&signal) = console.signals.pending().first() {
                    return Err(LaunchError::Interrupted(signal));
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }

    /// Starts ranks, and returns when all have ended.
    ///
    /// # Errors
    /// A program cannot be started; a file of output cannot be written.
    fn run_ready(&self, ready: &ReadyRanks, console: &mut Console) -> Result<TasksEnd> {
        if let Some(path) = &self.options.trace {
            // Traces of an earlier start are not of this one.
            let ranks = 0..ready.starts.len();
            ranks.for_each(|rank| drop(std::fs::remove_file(rank_trace(path, rank))));
        }
        let first_failed = || ready.coordinator.first_failed();
        self.run_on(
            &ready.places,
            &ready.starts,
            &ready.hosts,
            console,
            &ready.notes,
            &first_failed,
        )
    }

    /// Starts the coordinator of so many ranks at an address of this host. Its warnings go to `notes`.
    ///
    /// # Errors
    /// The address is none of this host; the keys cannot be read.
    fn coordinator(
        &self,
        ranks: usize,
        address: IpAddr,
        notes: Sender<String>,
    ) -> Result<(Coordinator, RankMeeting)> {
        let listener = self.listener(address)?;
        let secret = job_secret()?;
        let mut shared = Secret::from(&secret);
        if let Some(folder) = &self.options.protection {
            shared = shared.protected(folder)?;
        }
        // An error is a launcher that has ended.
        let tell = Box::new(move |line| drop(notes.send(line)));
        let coordinator = Coordinator::start_with(listener, ranks, &shared, SILENCE_TIMEOUT, tell)?;
        let meeting = RankMeeting {
            address: coordinator.address().ip(),
            port: coordinator.address().port(),
            secret,
            restart: 0,
        };
        Ok((coordinator, meeting))
    }

    /// Variables of one of so many ranks.
    pub(super) fn rank_variables(
        &self,
        task: &PlacedTask,
        ranks: usize,
        meeting: Option<&RankMeeting>,
    ) -> Vec<(String, String)> {
        let mut set = vec![
            (variables::RANK, task.index.to_string()),
            (variables::SIZE, ranks.to_string()),
            (variables::LOCAL_RANK, task.local.to_string()),
            (variables::LOCAL_SIZE, task.local_size.to_string()),
        ];
        if let Some(meeting) = meeting {
            set.push((variables::ADDRESS, meeting.address.to_string()));
            set.push((variables::PORT, meeting.port.to_string()));
            set.push((variables::SECRET, meeting.secret.clone()));
            set.push((variables::RESTART, meeting.restart.to_string()));
        }
        if let Some(path) = &self.options.trace {
            set.push((variables::TRACE, path.display().to_string()));
        }
        set.into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}
