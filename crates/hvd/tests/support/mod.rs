//! Ranks that are threads.

// Each test uses some of it.
#![allow(dead_code)]

use std::net::TcpListener;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use thalweg_collective::Coordinator;
use thalweg_hvd::{Hvd, Join};

/// Runs a function on so many ranks.
pub fn on_ranks<R: Send>(size: usize, run: impl Fn(Hvd) -> R + Sync) -> Vec<R> {
    on_ranks_that(size, |join| join, run)
}

/// Runs a function on so many ranks, which join with the options of `how`.
pub fn on_ranks_that<R: Send>(
    size: usize,
    how: impl Fn(Join) -> Join,
    run: impl Fn(Hvd) -> R + Sync,
) -> Vec<R> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let coordinator = Coordinator::start(listener, size, "secret").unwrap();
    let address = coordinator.address();
    // A rank that fails immediately would otherwise end the job before the others have joined.
    let there = Barrier::new(size);
    thread::scope(|scope| {
        let rank = |rank: usize| {
            let (run, there) = (&run, &there);
            let join = Join::at(address, rank, size, "secret").timeout(Duration::from_secs(30));
            let join = how(join);
            scope.spawn(move || {
                let hvd = Hvd::meet(&join);
                there.wait();
                run(hvd.unwrap())
            })
        };
        let ranks: Vec<_> = (0..size).map(rank).collect();
        ranks.into_iter().map(|r| r.join().unwrap()).collect()
    })
}
