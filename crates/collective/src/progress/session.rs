//! Collectives of a session: its nodes request them, and wait for the results.

use std::sync::Arc;
use std::time::Instant;

use thalweg_device::GpuCollectives;
use thalweg_device::{
    CollectiveRequest, Collectives, KernelError, PlannedCollective, RankOf, Ticket,
};
use thalweg_tensor::{Memory, Tensor};

use super::handle::Progress;
use super::shared::{Command, NodeCollective, QueuedRequest, ReplyTo, kernel_error};
use crate::error::CollectiveError;

/// Collectives of a session of this rank.
pub(super) struct SessionCollectives {
    pub(super) progress: Arc<Progress>,
    /// Number of the session.
    pub(super) number: u64,
}

impl Progress {
    /// Collectives for a session, whose nodes wait apart from those of other sessions.
    pub fn session(self: &Arc<Progress>) -> Arc<dyn Collectives> {
        let mut state = self.shared.state();
        state.sessions += 1;
        Arc::new(SessionCollectives {
            progress: self.clone(),
            number: state.sessions,
        })
    }
}

impl Collectives for SessionCollectives {
    fn ranks(&self, set: i32) -> std::result::Result<RankOf, KernelError> {
        let state = self.progress.shared.state();
        let members = state.sets.get(&set).ok_or_else(|| {
            KernelError::Invalid(format!(
                "there is no set {set} of ranks: add it on all ranks first"
            ))
        })?;
        let rank = members.iter().position(|&m| m == self.progress.shared.rank);
        let size = members.len();
        let rank = rank.ok_or_else(|| {
            KernelError::Invalid(format!(
                "rank {} is not in set {set} of ranks",
                self.progress.shared.rank
            ))
        })?;
        Ok(RankOf { rank, size })
    }

    fn run(
        &self,
        ticket: &Ticket,
        memory: &Arc<Memory>,
        request: &mut dyn FnMut() -> std::result::Result<CollectiveRequest, KernelError>,
    ) -> std::result::Result<Option<Vec<Tensor>>, KernelError> {
        let number = (self.number, ticket.number());
        let mut state = self.progress.shared.state();
        match state.nodes.remove(&number) {
            Some(NodeCollective::Done(result)) => return result.map(Some).map_err(kernel_error),
            Some(NodeCollective::Pending { name, .. }) => {
                let ticket = ticket.clone();
                state
                    .nodes
                    .insert(number, NodeCollective::Pending { ticket, name });
                return Ok(None);
            }
            None => {}
        }
        drop(state);
        let request = request()?;
        let wait = NodeCollective::Pending {
            ticket: ticket.clone(),
            name: request.name.clone(),
        };
        self.progress.shared.state().nodes.insert(number, wait);
        let sent = self.progress.send(Command::Run(QueuedRequest {
            request,
            memory: Some(memory.clone()),
            queued_at: Instant::now(),
            reply_to: ReplyTo::Node(number),
        }));
        if let Err(error) = sent {
            self.progress.shared.state().nodes.remove(&number);
            return Err(kernel_error(error));
        }
        Ok(None)
    }

    fn abandon(&self, ticket: u64) {
        let wait = self
            .progress
            .shared
            .state()
            .nodes
            .remove(&(self.number, ticket));
        if let Some(NodeCollective::Pending { name, .. }) = wait {
            // The other ranks would wait for ever.
            let why = format!("its step ended while '{name}' waited");
            self.progress.shared.fail(&CollectiveError::Ended(why));
        }
    }

    fn agree(
        &self,
        planned: &[PlannedCollective],
        ended: &dyn Fn() -> bool,
    ) -> std::result::Result<(), KernelError> {
        if self.negotiates() {
            return Ok(());
        }
        let mut sets: Vec<i32> = planned.iter().map(|p| p.set).collect();
        sets.sort_unstable();
        sets.dedup();
        for set in sets {
            // A rank outside of a set compares nothing.
            self.ranks(set)?;
            let of_set = planned.iter().filter(|p| p.set == set);
            let lines: Vec<String> = of_set.map(ToString::to_string).collect();
            self.progress.shared.agree(set, &lines, ended)?;
        }
        Ok(())
    }

    fn negotiates(&self) -> bool {
        self.progress.shared.negotiates
    }

    fn for_gpus(&self) -> Option<&dyn GpuCollectives> {
        // GPUs begin collectives in the order of their commands.
        (!self.negotiates()).then_some(self)
    }
}
