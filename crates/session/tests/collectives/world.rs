//! Ranks that are threads of this process, with collectives under one lock.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use thalweg_device::{
    Collective, CollectiveRequest, Collectives, KernelError, PlannedCollective, RankOf, ReduceOp,
    Reduction, Ticket,
};
use thalweg_session::SessionOptions;
use thalweg_tensor::{DType, Memory, Tensor};

/// State that all ranks share.
pub struct World {
    size: usize,
    /// The ranks of each set beside that of all.
    sets: HashMap<i32, Vec<usize>>,
    state: Mutex<WorldState>,
    changed: Condvar,
}

#[derive(Default)]
struct WorldState {
    /// By set and number in it.
    rounds: HashMap<(i32, usize), Round>,
    /// By set and rank: the number of its next round.
    next: HashMap<(i32, usize), usize>,
    /// By rank and ticket: the round that it waits for.
    waiting: HashMap<(usize, u64), (i32, usize)>,
    /// The plans of ranks, for each agreement.
    planned: Vec<HashMap<usize, Vec<String>>>,
    agreed: HashSet<Vec<String>>,
    /// The names of collectives that have begun, by rank.
    log: Vec<Vec<String>>,
    abandoned: usize,
    overlapping: usize,
}

#[derive(Default)]
struct Round {
    requests: HashMap<usize, (CollectiveRequest, Ticket)>,
    results: HashMap<usize, Vec<Tensor>>,
}

/// One of the ranks.
pub struct Rank {
    pub number: usize,
    pub world: Arc<World>,
}

impl World {
    pub fn new(size: usize) -> Arc<World> {
        World::with_sets(size, HashMap::new())
    }

    pub fn with_sets(size: usize, sets: HashMap<i32, Vec<usize>>) -> Arc<World> {
        Arc::new(World {
            size,
            sets,
            state: Mutex::new(WorldState {
                log: vec![Vec::new(); size],
                ..WorldState::default()
            }),
            changed: Condvar::new(),
        })
    }

    /// Runs this on every rank, with the options of its session, and returns the results.
    pub fn run<R: Send>(
        self: &Arc<World>,
        options: &SessionOptions,
        rank: impl Fn(usize, SessionOptions) -> R + Sync,
    ) -> Vec<R> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.size)
                .map(|number| {
                    let of = Rank {
                        number,
                        world: self.clone(),
                    };
                    let options = options.clone().collectives(Arc::new(of));
                    let rank = &rank;
                    scope.spawn(move || rank(number, options))
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        })
    }

    /// The names of the collectives that a rank has begun.
    pub fn log(&self, rank: usize) -> Vec<String> {
        self.lock().log[rank].clone()
    }

    pub fn abandoned(&self) -> usize {
        self.lock().abandoned
    }

    /// Number of times that a rank began a collective while another one of it was under way.
    pub fn overlapping(&self) -> usize {
        self.lock().overlapping
    }

    fn lock(&self) -> MutexGuard<'_, WorldState> {
        self.state.lock().unwrap()
    }

    fn members(&self, set: i32) -> Result<Vec<usize>, KernelError> {
        match self.sets.get(&set) {
            _ if set == 0 => Ok((0..self.size).collect()),
            Some(members) => Ok(members.clone()),
            None => Err(KernelError::Invalid(format!("there is no set {set}"))),
        }
    }
}

impl Collectives for Rank {
    fn ranks(&self, set: i32) -> Result<RankOf, KernelError> {
        let members = self.world.members(set)?;
        let rank = members.iter().position(|&m| m == self.number);
        let rank = rank.ok_or_else(|| KernelError::Invalid(format!("not in set {set}")))?;
        Ok(RankOf {
            rank,
            size: members.len(),
        })
    }

    fn run(
        &self,
        ticket: &Ticket,
        _: &Arc<Memory>,
        request: &mut dyn FnMut() -> Result<CollectiveRequest, KernelError>,
    ) -> Result<Option<Vec<Tensor>>, KernelError> {
        let mut state = self.world.lock();
        let own = (self.number, ticket.number());
        let at = match state.waiting.get(&own) {
            Some(&at) => at,
            None => {
                let request = request()?;
                let under_way = state.waiting.keys().any(|(rank, _)| *rank == self.number);
                state.overlapping += usize::from(under_way);
                let next = state.next.entry((request.set, self.number)).or_default();
                let at = (request.set, *next);
                *next += 1;
                state.log[self.number].push(request.name.clone());
                state.waiting.insert(own, at);
                let members = self.world.members(request.set)?;
                let round = state.rounds.entry(at).or_default();
                round
                    .requests
                    .insert(self.number, (request, ticket.clone()));
                if round.requests.len() == members.len() {
                    let all: Vec<&CollectiveRequest> =
                        members.iter().map(|m| &round.requests[m].0).collect();
                    assert!(all.iter().all(|r| r.name == all[0].name), "{all:?}");
                    let results = together(&all);
                    round.results = members.iter().copied().zip(results).collect();
                    for (_, ticket) in round.requests.values() {
                        ticket.wake();
                    }
                }
                at
            }
        };
        let round = state.rounds.get_mut(&at).unwrap();
        let results = round.results.remove(&self.number);
        if results.is_some() {
            state.waiting.remove(&own);
        }
        Ok(results)
    }

    fn abandon(&self, ticket: u64) {
        let mut state = self.world.lock();
        state.waiting.remove(&(self.number, ticket));
        state.abandoned += 1;
    }

    fn agree(
        &self,
        planned: &[PlannedCollective],
        ended: &dyn Fn() -> bool,
    ) -> Result<(), KernelError> {
        let lines: Vec<String> = planned.iter().map(ToString::to_string).collect();
        let mut state = self.world.lock();
        if state.agreed.contains(&lines) {
            return Ok(());
        }
        let own = |said: &HashMap<usize, Vec<String>>| said.contains_key(&self.number);
        let at = state.planned.iter().take_while(|said| own(said)).count();
        if at == state.planned.len() {
            state.planned.push(HashMap::new());
        }
        state.planned[at].insert(self.number, lines.clone());
        self.world.changed.notify_all();
        while state.planned[at].len() < self.world.size {
            if ended() {
                state.planned[at].remove(&self.number);
                return Err(KernelError::Stopped);
            }
            let look = Duration::from_millis(2);
            state = self.world.changed.wait_timeout(state, look).unwrap().0;
        }
        let differs = state.planned[at].values().find(|other| **other != lines);
        match differs {
            None => {
                state.agreed.insert(lines);
                Ok(())
            }
            Some(other) => Err(KernelError::Invalid(format!(
                "here {lines:?}, elsewhere {other:?}"
            ))),
        }
    }
}

/// The results of each rank.
fn together(all: &[&CollectiveRequest]) -> Vec<Vec<Tensor>> {
    let first = all[0];
    let tail = first.input.dims().get(1..).unwrap_or(&[]).to_vec();
    let dtype = first.input.dtype();
    let rows = |t: &Tensor| t.dims().first().copied().unwrap_or(0);
    let of_rows = |bytes: &[u8], rows: usize| {
        let dims: Vec<usize> = std::iter::once(rows).chain(tail.iter().copied()).collect();
        Tensor::from_bytes_in(dtype, &dims, bytes, None).unwrap()
    };
    let row = tail.iter().product::<usize>() * dtype.size();
    match &first.kind {
        Collective::Reduce(reduction) => {
            let sum = reduced(all, *reduction);
            vec![vec![sum]; all.len()]
        }
        Collective::Scatter(reduction) => {
            let sum = reduced(all, *reduction);
            let (share, more) = (rows(&sum) / all.len(), rows(&sum) % all.len());
            let mut start = 0;
            let part = |rank: usize| {
                let own = share + usize::from(rank < more);
                let bytes = &sum.bytes()[start * row..(start + own) * row];
                start += own;
                vec![of_rows(bytes, own)]
            };
            (0..all.len()).map(part).collect()
        }
        Collective::Gather => {
            let bytes: Vec<u8> = all.iter().flat_map(|r| r.input.bytes().to_vec()).collect();
            let total = all.iter().map(|r| rows(&r.input)).sum();
            vec![vec![of_rows(&bytes, total)]; all.len()]
        }
        Collective::Broadcast { root } => vec![vec![all[*root].input.clone()]; all.len()],
        Collective::Exchange { .. } => {
            let splits: Vec<&Vec<usize>> = all
                .iter()
                .map(|r| match &r.kind {
                    Collective::Exchange { splits } => splits,
                    other => panic!("{other:?}"),
                })
                .collect();
            let of = |to: usize| {
                let (mut bytes, mut from) = (Vec::new(), Vec::new());
                for (rank, request) in all.iter().enumerate() {
                    let start: usize = splits[rank][..to].iter().sum();
                    let end = start + splits[rank][to];
                    bytes.extend_from_slice(&request.input.bytes()[start * row..end * row]);
                    from.push(splits[rank][to] as i32);
                }
                let total = from.iter().sum::<i32>() as usize;
                vec![of_rows(&bytes, total), Tensor::from(from)]
            };
            (0..all.len()).map(of).collect()
        }
        Collective::Barrier => vec![Vec::new(); all.len()],
    }
}

fn reduced(all: &[&CollectiveRequest], reduction: Reduction) -> Tensor {
    let Reduction {
        op,
        prescale,
        postscale,
    } = reduction;
    let numbers = |t: &Tensor| -> Vec<f64> {
        match t.dtype() {
            DType::F32 => t
                .as_slice::<f32>()
                .unwrap()
                .iter()
                .map(|&x| x.into())
                .collect(),
            DType::I32 => t
                .as_slice::<i32>()
                .unwrap()
                .iter()
                .map(|&x| x.into())
                .collect(),
            other => panic!("{other}"),
        }
    };
    let values: Vec<Vec<f64>> = all.iter().map(|r| numbers(&r.input)).collect();
    let of = |i: usize| {
        let own = values.iter().map(|v| v[i] * prescale);
        let value = match op {
            ReduceOp::Sum => own.sum(),
            ReduceOp::Average => own.sum::<f64>() / all.len() as f64,
            ReduceOp::Min => own.fold(f64::INFINITY, f64::min),
            ReduceOp::Max => own.fold(f64::NEG_INFINITY, f64::max),
            ReduceOp::Product => own.product(),
            ReduceOp::Adasum => panic!("this world has no Adasum"),
        };
        value * postscale
    };
    let input = &all[0].input;
    let result = (0..input.len()).map(of);
    let flat = match input.dtype() {
        DType::F32 => Tensor::from(result.map(|x| x as f32).collect::<Vec<f32>>()),
        _ => Tensor::from(result.map(|x| x as i32).collect::<Vec<i32>>()),
    };
    flat.reshaped(input.dims()).unwrap()
}
