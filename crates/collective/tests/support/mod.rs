//! Jobs whose ranks are threads.

// Each test uses some of it.
#![allow(dead_code)]

pub mod table;

use std::net::TcpListener;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use thalweg_collective::{Coordinator, Join, Ranks, Secret};

/// A job: the host of each rank.
#[derive(Clone, Debug)]
pub struct Job {
    hosts: Vec<String>,
    memory: bool,
    connections: usize,
    negotiated: bool,
    patience: Duration,
    secret: Secret,
}

impl Job {
    pub fn on(hosts: &[&str]) -> Job {
        Job {
            hosts: hosts.iter().map(|h| (*h).to_owned()).collect(),
            memory: true,
            connections: 1,
            negotiated: false,
            patience: Duration::from_secs(30),
            secret: Secret::from("secret"),
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

    pub fn secret(self, secret: Secret) -> Job {
        Job { secret, ..self }
    }

    pub fn connections(self, connections: usize) -> Job {
        Job {
            connections,
            ..self
        }
    }

    pub fn negotiated(self) -> Job {
        Job {
            negotiated: true,
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
        self.give(|mut ranks| run(&mut ranks))
    }

    /// As [`Job::run`], of ranks that become something else.
    pub fn give<R: Send>(&self, run: impl Fn(Ranks) -> R + Sync) -> Vec<R> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let coordinator = Coordinator::start(listener, self.size(), &self.secret).unwrap();
        let address = coordinator.address();
        // One that fails at once would otherwise end the job before the others have joined it.
        let there = Barrier::new(self.size());
        thread::scope(|scope| {
            let ranks = self.hosts.iter().enumerate().map(|(rank, host)| {
                let (run, there) = (&run, &there);
                let (memory, connections) = (self.memory, self.connections);
                let patience = self.patience;
                scope.spawn(move || {
                    let join = Join::at(address, rank, self.size(), &self.secret);
                    let join = join.host(host).memory(memory).connections(connections);
                    let join = join.negotiated(self.negotiated).patience(patience);
                    let ranks = Ranks::join(&join);
                    there.wait();
                    run(ranks.unwrap())
                })
            });
            let ranks: Vec<_> = ranks.collect();
            ranks.into_iter().map(|r| r.join().unwrap()).collect()
        })
    }
}
