//! Test jobs whose ranks are threads.

// Each test uses a part of it.
#![allow(dead_code)]

pub mod conformance;

use std::net::TcpListener;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use thalweg_collective::{Coordinator, Join, Ranks, Secret};

/// Test job: the host of each rank, and settings.
#[derive(Clone, Debug)]
pub struct TestJob {
    hosts: Vec<String>,
    memory: bool,
    connections: usize,
    negotiated: bool,
    timeout: Duration,
    secret: Secret,
}

impl TestJob {
    pub fn on(hosts: &[&str]) -> TestJob {
        TestJob {
            hosts: hosts.iter().map(|h| (*h).to_owned()).collect(),
            memory: true,
            connections: 1,
            negotiated: false,
            timeout: Duration::from_secs(30),
            secret: Secret::from("secret"),
        }
    }

    pub fn on_one_host(size: usize) -> TestJob {
        TestJob::on(&vec!["host"; size])
    }

    pub fn without_memory(self) -> TestJob {
        TestJob {
            memory: false,
            ..self
        }
    }

    pub fn secret(self, secret: Secret) -> TestJob {
        TestJob { secret, ..self }
    }

    pub fn connections(self, connections: usize) -> TestJob {
        TestJob {
            connections,
            ..self
        }
    }

    pub fn negotiated(self) -> TestJob {
        TestJob {
            negotiated: true,
            ..self
        }
    }

    pub fn timeout(self, timeout: Duration) -> TestJob {
        TestJob { timeout, ..self }
    }

    pub fn size(&self) -> usize {
        self.hosts.len()
    }

    /// Runs a closure on all ranks, and returns the results by rank.
    pub fn run<R: Send>(&self, run: impl Fn(&mut Ranks) -> R + Sync) -> Vec<R> {
        self.run_owned(|mut ranks| run(&mut ranks))
    }

    /// Runs as [`TestJob::run`] does, a closure that takes the ranks by value.
    pub fn run_owned<R: Send>(&self, run: impl Fn(Ranks) -> R + Sync) -> Vec<R> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let coordinator = Coordinator::start(listener, self.size(), &self.secret).unwrap();
        let address = coordinator.address();
        // Without it, a rank that fails at once would end the job before the others have joined.
        let joined = Barrier::new(self.size());
        thread::scope(|scope| {
            let ranks = self.hosts.iter().enumerate().map(|(rank, host)| {
                let (run, joined) = (&run, &joined);
                let (memory, connections) = (self.memory, self.connections);
                let timeout = self.timeout;
                scope.spawn(move || {
                    let join = Join::at(address, rank, self.size(), &self.secret);
                    let join = join.host(host).memory(memory).connections(connections);
                    let join = join.negotiated(self.negotiated).timeout(timeout);
                    let ranks = Ranks::join(&join);
                    joined.wait();
                    run(ranks.unwrap())
                })
            });
            let ranks: Vec<_> = ranks.collect();
            ranks.into_iter().map(|r| r.join().unwrap()).collect()
        })
    }
}
