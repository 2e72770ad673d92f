//! Sets of ranks, and small values of all ranks.

use serde_json::{Value, json};

use super::Ranks;
use crate::collective::Set;
use crate::error::{CollectiveError, Result};
use crate::memory::SharedMemory;

impl Ranks {
    /// Place of this rank in a set, and the size of the set.
    ///
    /// # Errors
    /// [`CollectiveError::Argument`]: there is no such set, or this rank is not in it.
    pub fn place(&self, set: i32) -> Result<(usize, usize)> {
        let found = self.sets.get(&set);
        let members = &found.ok_or_else(|| unknown(set))?.members;
        let place = members.iter().position(|&m| m == self.rank);
        let place = place.ok_or_else(|| {
            CollectiveError::Argument(format!("rank {} is not in set {set} of ranks", self.rank))
        })?;
        Ok((place, members.len()))
    }

    /// Place of a rank in a set.
    ///
    /// # Errors
    /// As [`Ranks::place`].
    pub fn place_of(&self, set: i32, rank: usize) -> Result<usize> {
        let members = &self.sets.get(&set).ok_or_else(|| unknown(set))?.members;
        let place = members.iter().position(|&m| m == rank);
        place.ok_or_else(|| {
            CollectiveError::Argument(format!("rank {rank} is not in set {set} of ranks"))
        })
    }

    /// Adds a set of ranks, and returns its number. All ranks must do so, also those outside of the set.
    ///
    /// # Errors
    /// [`CollectiveError::Argument`], [`CollectiveError::Differs`], or the job has ended.
    pub fn add_set(&mut self, members: &[usize]) -> Result<i32> {
        let mut sorted = members.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.is_empty()
            || sorted.len() != members.len()
            || sorted.iter().any(|&m| m >= self.size())
        {
            return Err(CollectiveError::Argument(format!(
                "{members:?} is no set of ranks: name each of 0 to {} once at most",
                self.size() - 1
            )));
        }
        let set = self.sets.keys().max().map_or(1, |m| m + 1);
        self.check_equal(&format!("set {set}"), &json!(sorted))?;
        self.add(set, sorted)?;
        Ok(set)
    }

    /// Checks that a value is the same on all ranks.
    ///
    /// # Errors
    /// [`CollectiveError::Differs`], for the first rank with another value.
    pub fn check_equal(&mut self, name: &str, own: &Value) -> Result<()> {
        let all = self.gather(name, own)?;
        let other = all.iter().position(|v| v != own);
        let Some(rank) = other else {
            return Ok(());
        };
        let text = |value: &Value| format!("{name}: {value}");
        Err(CollectiveError::Differs {
            rank,
            theirs: text(&all[rank]),
            ours: text(own),
        })
    }

    /// Gathers small values of all ranks, by rank, through the coordinator.
    ///
    /// # Errors
    /// The job has ended, or a rank does not come in time.
    pub fn gather(&mut self, name: &str, own: &Value) -> Result<Vec<Value>> {
        match &self.control {
            Some(control) => control.gather(name, own),
            None => Ok(vec![own.clone()]),
        }
    }

    pub(super) fn add(&mut self, set: i32, members: Vec<usize>) -> Result<()> {
        let hosts: Vec<usize> = members.iter().map(|&m| self.hosts[m]).collect();
        let mut added = Set {
            members,
            hosts,
            shares: false,
            memory: None,
        };
        if self.memory && (0..added.members.len()).any(|p| added.local(p).len() > 1) {
            (added.shares, added.memory) = self.share_memory(set, &added)?;
        }
        self.sets.insert(set, added);
        Ok(())
    }

    /// Shares memory among the members of a set on this host. If one member of the set cannot map it, no member uses it.
    fn share_memory(&mut self, set: i32, added: &Set) -> Result<(bool, Option<SharedMemory>)> {
        let place = added.members.iter().position(|&m| m == self.rank);
        let local = place.map(|p| added.local(p)).unwrap_or_default();
        let local: Vec<usize> = local.iter().map(|&p| added.members[p]).collect();
        let several = local.len() > 1;
        let made = match several && local[0] == self.rank {
            true => SharedMemory::offer(local.len()).ok(),
            false => None,
        };
        let offer = made
            .as_ref()
            .map_or(Value::Null, |(_, offer)| offer.clone());
        let offers = self.gather(&format!("memory of set {set}"), &offer)?;
        let mut map = made.map(|(map, _)| map);
        if several && map.is_none() {
            map = SharedMemory::accept(&offers[local[0]], local.len()).ok();
        }
        let there = json!(!several || map.is_some());
        let all = self.gather(&format!("maps of set {set}"), &there)?;
        let all = all.iter().all(|there| *there == true);
        let (Some(map), Some(control), true) = (map, &self.control, all) else {
            return Ok((all, None));
        };
        let memory = SharedMemory::new(map, local, self.rank, control.clone(), self.timer.clone());
        Ok((true, Some(memory)))
    }
}

pub(super) fn unknown(set: i32) -> CollectiveError {
    CollectiveError::Argument(format!(
        "there is no set {set} of ranks: add it on all ranks first"
    ))
}
