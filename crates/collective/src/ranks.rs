//! The ranks of a job, as one of them sees them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use thalweg_tensor::DType;

use crate::algorithm::{self, Algorithm};
use crate::collective::{Collective, Set};
use crate::control::{Control, Coordinator};
use crate::cost::Cost;
use crate::error::{CollectiveError, Result};
use crate::join::{Join, Patience, host};
use crate::links::Links;
use crate::links::tcp::{Listening, TcpLinks};
use crate::memory::SharedMemory;
use crate::reduce::Reducer;
use thalweg_device::ReduceOp;

/// The set of all ranks.
pub const ALL_RANKS: i32 = 0;

/// This process as one of the ranks of a job. All ranks must call the same methods in the same order.
pub struct Ranks {
    rank: usize,
    /// By rank: the number of its host.
    hosts: Vec<usize>,
    control: Option<Arc<Control>>,
    links: Box<dyn Links>,
    sets: BTreeMap<i32, Set>,
    cost: Cost,
    memory: bool,
    patience: Patience,
    /// Where the ranks meet, if it is in this process. It goes last.
    coordinator: Option<Coordinator>,
}

/// No other rank: nothing is sent.
struct Alone;

impl Links for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn exchange(
        &mut self,
        _: Option<crate::links::Outgoing<'_>>,
        _: Option<crate::links::Incoming<'_>>,
    ) -> Result<()> {
        Ok(())
    }
}

impl Drop for Ranks {
    /// The rank that has the coordinator stays until the others have left, or something ended the job. They say so before
    /// their links end: those of MPI end together.
    fn drop(&mut self) {
        if let Some(control) = &self.control {
            control.leave_job();
        }
        let Some(coordinator) = &self.coordinator else {
            return;
        };
        let began = std::time::Instant::now();
        while coordinator.ranks() > 0
            && self.failure().is_none()
            && began.elapsed() < self.patience.meet
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What is reduced, and how.
#[derive(Clone, Copy, Debug)]
pub struct Reduction {
    /// The reduction.
    pub op: ReduceOp,
    /// The dtype of the elements.
    pub dtype: DType,
    /// What each value is multiplied by first.
    pub prescale: f64,
    /// What the result is multiplied by.
    pub postscale: f64,
}

impl Reduction {
    /// One without factors.
    pub fn new(op: ReduceOp, dtype: DType) -> Reduction {
        Reduction {
            op,
            dtype,
            prescale: 1.0,
            postscale: 1.0,
        }
    }
}

impl Ranks {
    /// Meets the other ranks of the job.
    ///
    /// # Errors
    /// [`CollectiveError::Rendezvous`], [`CollectiveError::Late`].
    pub fn join(join: &Join) -> Result<Ranks> {
        #[cfg(feature = "mpi")]
        if join.mpi {
            return Ranks::join_by_mpi(join);
        }
        let Some(address) = join.coordinator else {
            return Ok(Ranks {
                rank: 0,
                hosts: vec![0],
                control: None,
                links: Box::new(Alone),
                sets: BTreeMap::from([(ALL_RANKS, Set::alone(0))]),
                cost: Cost::default(),
                memory: false,
                patience: join.patience,
                coordinator: None,
            });
        };
        let (rank, size) = (join.rank, join.size);
        let control = Control::join(address, (rank, size), &join.secret, join.patience)?;
        let control = Arc::new(control);
        let failed = |e: std::io::Error| CollectiveError::Rendezvous(e.to_string());
        let listening = Listening::start(control.own_address(), &join.secret).map_err(failed)?;
        let own = json!({
            "address": listening.address().to_string(),
            "host": join.host.clone().unwrap_or_else(host),
            "memory": join.memory,
        });
        let table = control.gather("ranks", &own)?;
        let addresses = table.iter().map(|v| v["address"].as_str()?.parse().ok());
        let addresses: Option<Vec<SocketAddr>> = addresses.collect();
        let unusable = || CollectiveError::Rendezvous("a rank has no usable address".to_owned());
        let links = TcpLinks::new(
            rank,
            addresses.ok_or_else(unusable)?,
            listening,
            control.clone(),
            &join.secret,
        );
        let mut ranks = Ranks {
            rank,
            hosts: numbers(&table, "host"),
            control: Some(control),
            links: Box::new(links),
            sets: BTreeMap::new(),
            cost: Cost::default(),
            memory: table.iter().all(|v| v["memory"] == true),
            patience: join.patience,
            coordinator: None,
        };
        ranks.add(ALL_RANKS, (0..size).collect())?;
        Ok(ranks)
    }

    /// Meets the other ranks that `mpirun` has started: the first one has the coordinator.
    #[cfg(feature = "mpi")]
    fn join_by_mpi(join: &Join) -> Result<Ranks> {
        let (met, coordinator) = crate::links::mpi::Met::begin()?;
        let ((rank, size), patience) = (met.place(), join.patience);
        let control = Control::join(met.address, (rank, size), &met.secret, patience)?;
        let control = Arc::new(control);
        let own = json!({ "host": join.host.clone().unwrap_or_else(host) });
        let table = control.gather("ranks", &own)?;
        let mut ranks = Ranks {
            rank,
            hosts: numbers(&table, "host"),
            links: Box::new(met.links(control.clone())),
            control: Some(control),
            sets: BTreeMap::new(),
            cost: Cost::default(),
            // MPI has memory of its own.
            memory: false,
            patience,
            coordinator,
        };
        ranks.add(ALL_RANKS, (0..size).collect())?;
        Ok(ranks)
    }

    /// The number of this rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.hosts.len()
    }

    /// The number of this rank among those of its host, and how many those are.
    pub fn local(&self) -> (usize, usize) {
        let own = self.hosts[self.rank];
        let local = self.hosts.iter().filter(|&&h| h == own).count();
        let before = self.hosts[..self.rank].iter().filter(|&&h| h == own);
        (before.count(), local)
    }

    /// The number of this rank's host among those that have a rank of this local number, and how many those are.
    pub fn cross(&self) -> (usize, usize) {
        let (local, _) = self.local();
        let count = |host: usize| self.hosts.iter().filter(|&&h| h == host).count();
        let hosts = self.hosts.iter().max().map_or(1, |m| m + 1);
        let with = (0..hosts).filter(|&h| count(h) > local);
        let with: Vec<usize> = with.collect();
        let own = self.hosts[self.rank];
        (with.iter().filter(|&&h| h < own).count(), with.len())
    }

    /// Whether all hosts have as many ranks.
    pub fn is_homogeneous(&self) -> bool {
        let hosts = self.hosts.iter().max().map_or(1, |m| m + 1);
        let count = |host: usize| self.hosts.iter().filter(|&&h| h == host).count();
        (0..hosts).all(|h| count(h) == count(0))
    }

    /// How values are reduced over links from now on: by this algorithm, or by the cheapest. All ranks must say the same.
    pub fn choose(&mut self, algorithm: Option<Algorithm>) {
        self.cost.only = algorithm;
    }

    /// The place of this rank in a set, and the size of the set.
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

    /// The place of a rank in a set.
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

    pub(crate) fn control(&self) -> Option<Arc<Control>> {
        self.control.clone()
    }

    /// Makes a set of ranks: all ranks must do so, those that are not in it too. Gives its number.
    ///
    /// # Errors
    /// [`CollectiveError::Argument`], [`CollectiveError::Differs`], and what ended the job.
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
        self.same(&format!("set {set}"), &json!(sorted))?;
        self.add(set, sorted)?;
        Ok(set)
    }

    /// Whether all ranks say the same.
    ///
    /// # Errors
    /// [`CollectiveError::Differs`], for the first rank that says something else.
    pub fn same(&mut self, what: &str, own: &Value) -> Result<()> {
        let all = self.gather(what, own)?;
        let other = all.iter().position(|v| v != own);
        let Some(rank) = other else {
            return Ok(());
        };
        let say = |value: &Value| format!("{what}: {value}");
        Err(CollectiveError::Differs {
            rank,
            theirs: say(&all[rank]),
            ours: say(own),
        })
    }

    /// Small values of all ranks, by rank: through the coordinator.
    ///
    /// # Errors
    /// What ended the job; ranks that do not come.
    pub fn gather(&mut self, name: &str, own: &Value) -> Result<Vec<Value>> {
        match &self.control {
            Some(control) => control.gather(name, own),
            None => Ok(vec![own.clone()]),
        }
    }

    fn add(&mut self, set: i32, members: Vec<usize>) -> Result<()> {
        let hosts: Vec<usize> = members.iter().map(|&m| self.hosts[m]).collect();
        let mut added = Set {
            members,
            hosts,
            shares: false,
            memory: None,
        };
        if self.memory && (0..added.members.len()).any(|p| added.local(p).len() > 1) {
            (added.shares, added.memory) = self.shared(set, &added)?;
        }
        self.sets.insert(set, added);
        Ok(())
    }

    /// Memory for the members of a set on this host: where one of them cannot map it, none of the set has it.
    fn shared(&mut self, set: i32, added: &Set) -> Result<(bool, Option<SharedMemory>)> {
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
        let memory = SharedMemory::new(map, local, self.rank, control.clone());
        Ok((true, Some(memory)))
    }

    /// What ended the job, if anything did.
    pub fn failure(&self) -> Option<CollectiveError> {
        self.control.as_ref()?.failure()
    }

    /// Ends the job for all ranks, for this reason.
    pub fn fail(&self, error: &CollectiveError) {
        if let Some(control) = &self.control {
            control.fail(error);
        }
    }

    /// Runs a collective of a set: what goes wrong ends the job for all.
    fn run<R>(
        &mut self,
        set: i32,
        name: &str,
        run: impl FnOnce(&mut Collective<'_>) -> Result<R>,
    ) -> Result<R> {
        let (place, _) = self.place(set)?;
        if let Some(failure) = self.failure() {
            // What the others have posted before may still be there.
            return Err(failure);
        }
        let found = self.sets.get_mut(&set).ok_or_else(|| unknown(set))?;
        let mut collective = Collective {
            links: &mut *self.links,
            set: found,
            place,
            tag: tag(set, name),
            cost: &self.cost,
        };
        if let Some(control) = &self.control {
            control.enter(name);
        }
        let result = run(&mut collective);
        if let Some(control) = &self.control {
            control.leave();
        }
        result.map_err(|error| {
            let error = named(error, name);
            if let Some(control) = &self.control {
                control.fail(&error);
            }
            error
        })
    }

    /// Reduces the values of all ranks of a set, to all of them.
    ///
    /// # Errors
    /// What ended the job, ranks that do not come, and ranks that run something else under this name.
    pub fn all_reduce(
        &mut self,
        set: i32,
        name: &str,
        data: &mut [u8],
        reduction: Reduction,
    ) -> Result<()> {
        let (_, size) = self.place(set)?;
        let factor = reduction.postscale;
        let adasum = reduction.op == ReduceOp::Adasum;
        let op = if adasum { ReduceOp::Sum } else { reduction.op };
        let reducer = Reducer::new(op, reduction.dtype, size, factor)?;
        let pre = Reducer::new(ReduceOp::Sum, reduction.dtype, 1, reduction.prescale)?;
        self.run(set, name, |collective| {
            pre.finish(data);
            if adasum {
                algorithm::adasum(&mut collective.channel()?, data, reduction.dtype)?;
                reducer.finish(data);
                return Ok(());
            }
            collective.all_reduce(data, reducer)
        })
    }

    /// Gives the value of the member of a set at this place to all of the set.
    ///
    /// # Errors
    /// As [`Ranks::all_reduce`]; [`CollectiveError::Argument`] where there is no such place.
    pub fn broadcast(&mut self, set: i32, name: &str, root: usize, data: &mut [u8]) -> Result<()> {
        let (_, size) = self.place(set)?;
        if root >= size {
            let text = format!("{name}: root {root} is not among the {size} ranks of set {set}");
            return Err(CollectiveError::Argument(text));
        }
        let tag = tag(set, name);
        self.run(set, name, |c| match c.memory() {
            Some(memory) => memory.broadcast(tag, root, data),
            _ => algorithm::broadcast(&mut c.channel()?, root, data),
        })
    }

    /// Puts the values of all ranks of a set one after another: `lens` has the bytes of each, `output` room for all.
    ///
    /// # Errors
    /// As [`Ranks::all_reduce`].
    pub fn all_gather(
        &mut self,
        set: i32,
        name: &str,
        own: &[u8],
        lens: &[usize],
        output: &mut [u8],
    ) -> Result<()> {
        let tag = tag(set, name);
        self.run(set, name, |c| match c.memory() {
            Some(memory) => memory.all_gather(tag, own, lens, output),
            _ => algorithm::all_gather(&mut c.channel()?, own, lens, output),
        })
    }

    /// Reduces the values of all ranks of a set, in parts: the member at place p has part p afterwards, and nothing else has
    /// a meaning. `parts` has the bytes of each.
    ///
    /// # Errors
    /// As [`Ranks::all_reduce`].
    pub fn reduce_scatter(
        &mut self,
        set: i32,
        name: &str,
        data: &mut [u8],
        lens: &[usize],
        reduction: Reduction,
    ) -> Result<()> {
        let (_, size) = self.place(set)?;
        let reducer = Reducer::new(reduction.op, reduction.dtype, size, reduction.postscale)?;
        let pre = Reducer::new(ReduceOp::Sum, reduction.dtype, 1, reduction.prescale)?;
        self.run(set, name, |c| {
            pre.finish(data);
            algorithm::reduce_scatter(&mut c.channel()?, data, &ranges(lens), reducer)
        })
    }

    /// Sends each rank of a set its part of the input, and receives parts of theirs: `sent` and `received` have the bytes.
    ///
    /// # Errors
    /// As [`Ranks::all_reduce`].
    pub fn all_to_all(
        &mut self,
        set: i32,
        name: &str,
        (input, sent): (&[u8], &[usize]),
        (output, received): (&mut [u8], &[usize]),
    ) -> Result<()> {
        self.run(set, name, |c| {
            let (sent, received) = (ranges(sent), ranges(received));
            algorithm::all_to_all(&mut c.channel()?, input, &sent, output, &received)
        })
    }

    /// Returns once all ranks of a set have called it.
    ///
    /// # Errors
    /// As [`Ranks::all_reduce`].
    pub fn barrier(&mut self, set: i32, name: &str) -> Result<()> {
        let tag = tag(set, name);
        self.run(set, name, |c| match c.memory() {
            Some(memory) => memory.barrier(tag),
            _ => algorithm::barrier(&mut c.channel()?),
        })
    }
}

fn unknown(set: i32) -> CollectiveError {
    CollectiveError::Argument(format!(
        "there is no set {set} of ranks: add it on all ranks first"
    ))
}

/// Tells messages of a collective from those of others: FNV-1a of its set and name.
pub(crate) fn tag(set: i32, name: &str) -> u64 {
    let bytes = set.to_le_bytes().into_iter().chain(name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// An error with the name of the collective that met it.
fn named(error: CollectiveError, name: &str) -> CollectiveError {
    match error {
        CollectiveError::Differs { rank, theirs, ours } => CollectiveError::Differs {
            rank,
            theirs,
            ours: format!("'{name}', {ours}"),
        },
        CollectiveError::Late { rank, what, waited } => CollectiveError::Late {
            rank,
            what: format!("{what} of '{name}'"),
            waited,
        },
        other => other,
    }
}

/// By rank: the number of the text that its entry has under this key, in the order in which they first come.
fn numbers(table: &[Value], key: &str) -> Vec<usize> {
    let mut known: Vec<&Value> = Vec::new();
    let number = |entry: &'_ Value| entry[key].clone();
    let all: Vec<Value> = table.iter().map(number).collect();
    let mut of = Vec::new();
    for value in &all {
        let at = known.iter().position(|k| *k == value);
        of.push(at.unwrap_or_else(|| {
            known.push(value);
            known.len() - 1
        }));
    }
    of
}

/// Ranges of these lengths, one after another.
fn ranges(lens: &[usize]) -> Vec<std::ops::Range<usize>> {
    let mut at = 0;
    let range = |&len: &usize| {
        at += len;
        at - len..at
    };
    lens.iter().map(range).collect()
}
