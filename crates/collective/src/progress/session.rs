//! A session that is a rank: its nodes ask for collectives, and wait for them.

use std::sync::Arc;
use std::time::Instant;

use thalweg_device::GpuCollectives;
use thalweg_device::{
    CollectiveRequest, Collectives, KernelError, PlannedCollective, RankOf, Ticket,
};
use thalweg_tensor::{Memory, Tensor};

use super::{Answer, Asked, Command, Progress, Wait};
use crate::error::CollectiveError;

/// A session that is this rank.
pub(super) struct OfSession {
    pub(super) progress: Arc<Progress>,
    /// Tells its nodes from those of other sessions.
    pub(super) number: u64,
}

impl Collectives for OfSession {
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
        match state.waits.remove(&number) {
            Some(Wait::Done(result)) => return result.map(Some).map_err(super::kernel),
            Some(Wait::Pending { name, .. }) => {
                let ticket = ticket.clone();
                state.waits.insert(number, Wait::Pending { ticket, name });
                return Ok(None);
            }
            None => {}
        }
        drop(state);
        let request = request()?;
        let wait = Wait::Pending {
            ticket: ticket.clone(),
            name: request.name.clone(),
        };
        self.progress.shared.state().waits.insert(number, wait);
        let sent = self.progress.send(Command::Run(Asked {
            request,
            memory: Some(memory.clone()),
            at: Instant::now(),
            answer: Answer::Node(number),
        }));
        if let Err(error) = sent {
            self.progress.shared.state().waits.remove(&number);
            return Err(super::kernel(error));
        }
        Ok(None)
    }

    fn abandon(&self, ticket: u64) {
        let wait = self
            .progress
            .shared
            .state()
            .waits
            .remove(&(self.number, ticket));
        if let Some(Wait::Pending { name, .. }) = wait {
            // The others would wait for ever.
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
            // Who is not in it waits for nobody.
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
