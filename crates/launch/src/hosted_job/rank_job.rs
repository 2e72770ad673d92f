//! Ranks of a job: their variables, and the coordinator at which they meet.

use std::net::IpAddr;
use std::sync::mpsc::Sender;

use thalweg_collective::{Coordinator, SILENCE_TIMEOUT, Secret};
use thalweg_launch_env::variables;

use super::job::HostedJob;
use super::plan::RankMeeting;
use crate::error::Result;
use crate::layout::PlacedTask;
use crate::secret::job_secret;

impl HostedJob {
    /// Starts the coordinator of so many ranks at an address of this host. Its warnings go to `notes`.
    ///
    /// # Errors
    /// The address is none of this host; the keys cannot be read.
    pub(super) fn coordinator(
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
        }
        if let Some(path) = &self.options.trace {
            set.push((variables::TRACE, path.display().to_string()));
        }
        set.into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}
