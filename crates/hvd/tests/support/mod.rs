//! Ranks that are threads.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use thalweg_collective::Coordinator;
use thalweg_hvd::{Hvd, Join};

/// Runs the same on so many ranks.
pub fn on_ranks<R: Send>(size: usize, run: impl Fn(Hvd) -> R + Sync) -> Vec<R> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let coordinator = Coordinator::start(listener, size, "secret").unwrap();
    let address = coordinator.address();
    thread::scope(|scope| {
        let rank = |rank: usize| {
            let run = &run;
            let join = Join::at(address, rank, size, "secret").patience(Duration::from_secs(30));
            scope.spawn(move || run(Hvd::join(&join).unwrap()))
        };
        let ranks: Vec<_> = (0..size).map(rank).collect();
        ranks.into_iter().map(|r| r.join().unwrap()).collect()
    })
}
