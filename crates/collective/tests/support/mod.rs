//! Jobs whose ranks are threads.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use thalweg_collective::{Coordinator, Join, Ranks};
use thalweg_tensor::{DType, dispatch};

/// A job: the host of each rank.
#[derive(Clone, Debug)]
pub struct Job {
    hosts: Vec<String>,
    memory: bool,
    patience: Duration,
}

impl Job {
    pub fn on(hosts: &[&str]) -> Job {
        Job {
            hosts: hosts.iter().map(|h| (*h).to_owned()).collect(),
            memory: true,
            patience: Duration::from_secs(30),
        }
    }

    pub fn on_one_host(size: usize) -> Job {
        Job::on(&vec!["host"; size])
    }

    pub fn without_memory(self) -> Job {
        Job {
            memory: false,
            ..self
        }
    }

    pub fn patience(self, patience: Duration) -> Job {
        Job { patience, ..self }
    }

    pub fn size(&self) -> usize {
        self.hosts.len()
    }

    /// Runs the same on all ranks; gives what each returns.
    pub fn run<R: Send>(&self, run: impl Fn(&mut Ranks) -> R + Sync) -> Vec<R> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let coordinator = Coordinator::start(listener, self.size(), "secret").unwrap();
        let address = coordinator.address();
        thread::scope(|scope| {
            let ranks = self.hosts.iter().enumerate().map(|(rank, host)| {
                let (run, memory, patience) = (&run, self.memory, self.patience);
                scope.spawn(move || {
                    let join = Join::at(address, rank, self.size(), "secret");
                    let join = join.host(host).memory(memory).patience(patience);
                    run(&mut Ranks::join(&join).unwrap())
                })
            });
            let ranks: Vec<_> = ranks.collect();
            ranks.into_iter().map(|r| r.join().unwrap()).collect()
        })
    }
}

/// Whole numbers, so that sums are exact in every order.
pub fn value(rank: usize, i: usize) -> f32 {
    ((rank * 31 + i * 17) % 101) as f32 - 50.0
}

pub fn floats(x: f32, len: usize) -> Vec<f32> {
    vec![x; len]
}

/// So many ones, as bytes.
pub fn ones(dtype: DType, len: usize) -> Vec<u8> {
    use thalweg_cpu::number::Number;
    dispatch!(dtype, NUMBERS, T => {
        let one: T = Number::from_f64(1.0);
        bytemuck::bytes_of(&one).repeat(len)
    }, else panic!("{dtype}"))
}

/// The same, aligned for every dtype.
pub fn aligned(bytes: &[u8]) -> Vec<u64> {
    let mut words = vec![0u64; bytes.len().div_ceil(8)];
    bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
    words
}

/// The first element.
pub fn first(dtype: DType, bytes: &[u8]) -> f64 {
    use thalweg_cpu::number::Number;
    dispatch!(dtype, NUMBERS, T => {
        let elements: &[T] = bytemuck::cast_slice(bytes);
        Number::to_f64(elements[0])
    }, else panic!("{dtype}"))
}
