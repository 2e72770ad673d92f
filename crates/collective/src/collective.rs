//! One collective of a set of ranks: through shared memory, over links, or both.

use thalweg_estimate::LinkCost;

use crate::algorithm;
use crate::channel::{Channel, parts};
use crate::error::Result;
use crate::links::Links;
use crate::memory::SharedMemory;
use crate::reduce::Reducer;

/// Set of ranks.
pub(crate) struct Set {
    /// Ranks of the members, in order.
    pub(crate) members: Vec<usize>,
    /// Host numbers by member.
    pub(crate) hosts: Vec<usize>,
    /// `true` if members of one host share memory: all of them do, or none.
    pub(crate) shares: bool,
    /// Shared memory of the members on this host, if there are several.
    pub(crate) memory: Option<SharedMemory>,
}

impl Set {
    pub(crate) fn alone(rank: usize) -> Set {
        Set {
            members: vec![rank],
            hosts: vec![0],
            shares: false,
            memory: None,
        }
    }

    /// Places of the members on the host of the member at `place`.
    pub(crate) fn local(&self, place: usize) -> Vec<usize> {
        let own = self.hosts[place];
        (0..self.hosts.len())
            .filter(|&p| self.hosts[p] == own)
            .collect()
    }
}

/// Running collective.
pub(crate) struct Collective<'a> {
    pub(crate) links: &'a mut dyn Links,
    pub(crate) set: &'a mut Set,
    /// Place of this rank in the set.
    pub(crate) place: usize,
    pub(crate) tag: u64,
    pub(crate) cost: &'a LinkCost,
}

impl Collective<'_> {
    /// Channel of all members over links.
    pub(crate) fn channel(&mut self) -> Result<Channel<'_>> {
        Channel::new(&mut *self.links, &self.set.members, self.tag)
    }

    /// Shared memory of all members; `None` if they are on several hosts.
    pub(crate) fn memory(&mut self) -> Option<&mut SharedMemory> {
        let first = self.set.hosts[0];
        let one_host = self.set.hosts.iter().all(|&h| h == first);
        self.set.memory.as_mut().filter(|_| one_host)
    }

    /// Reduces the values of all members; each gets the result.
    pub(crate) fn all_reduce(&mut self, data: &mut [u8], reducer: Reducer) -> Result<()> {
        let tag = self.tag;
        if let Some(memory) = self.memory() {
            return memory.all_reduce(tag, data, reducer);
        }
        if self.set.shares {
            return self.over_hosts(data, reducer);
        }
        if self.set.members.len() == self.links.size() && self.links.all_reduce(data, reducer)? {
            return Ok(());
        }
        let algorithm = self.cost.choose(self.set.members.len(), data.len());
        algorithm::all_reduce(&mut self.channel()?, algorithm, data, reducer)
    }

    /// Reduces within each host through memory, and across hosts over links: each member of a host a part of the value, or the
    /// first member all of it if hosts have different numbers of members.
    fn over_hosts(&mut self, data: &mut [u8], reducer: Reducer) -> Result<()> {
        let tag = self.tag;
        let local = self.set.local(self.place);
        let own = local.iter().position(|&p| p == self.place).unwrap_or(0);
        let mut hosts = self.set.hosts.clone();
        hosts.sort_unstable();
        hosts.dedup();
        let of = |host: usize, nth: usize| {
            let mut all = (0..self.set.hosts.len()).filter(|&p| self.set.hosts[p] == host);
            all.nth(nth)
        };
        let count = |host: &usize| self.set.hosts.iter().filter(|h| *h == host).count();
        let even = hosts.iter().all(|h| count(h) == local.len());
        // Ranks with which this one reduces across hosts.
        let nth = if even { own } else { 0 };
        let across = hosts.iter().filter_map(|&h| of(h, nth));
        let across: Vec<usize> = across.map(|p| self.set.members[p]).collect();
        if let Some(memory) = &mut self.set.memory {
            memory.all_reduce(tag, data, reducer.unfinished())?;
        }
        let shares = if even { local.len() } else { 1 };
        let parts = parts(data.len(), reducer.size(), shares);
        if even || own == 0 {
            let part = &mut data[parts[nth].clone()];
            let algorithm = self.cost.choose(across.len(), part.len());
            let mut channel = Channel::new(&mut *self.links, &across, tag)?;
            algorithm::all_reduce(&mut channel, algorithm, part, reducer)?;
        }
        let Some(memory) = &mut self.set.memory else {
            return Ok(());
        };
        if !even {
            return memory.broadcast(tag, 0, data);
        }
        let own = data[parts[own].clone()].to_vec();
        let lens: Vec<usize> = parts.iter().map(|p| p.len()).collect();
        memory.all_gather(tag, &own, &lens, data)
    }
}
