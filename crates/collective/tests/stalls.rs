//! Stalls: a live rank that does not come to a collective is reported with its activity.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use thalweg_collective::{
    ALL_RANKS, CollectiveError, Coordinator, Join, Ranks, ReduceOp, Reduction, SILENCE_TIMEOUT,
};
use thalweg_tensor::DType;

/// `true` if a line that matches was logged.
type WasLogged<'a> = dyn Fn(&dyn Fn(&String) -> bool) -> bool + 'a;

/// Runs three ranks, of which the last calls `instead` first. Returns the logged lines, and the results.
fn job(
    memory: bool,
    limit: Duration,
    instead: impl Fn(&mut Ranks, &WasLogged) + Sync,
) -> (Vec<String>, Vec<Result<f32, CollectiveError>>) {
    let logged = Arc::<Mutex<Vec<String>>>::default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let lines = logged.clone();
    let log = Box::new(move |line| lines.lock().unwrap().push(line));
    let coordinator = Coordinator::start_with(listener, 3, "secret", SILENCE_TIMEOUT, log).unwrap();
    let address = coordinator.address();
    let results = thread::scope(|scope| {
        let rank = |rank: usize| {
            let (instead, logged) = (&instead, &logged);
            scope.spawn(move || {
                let join = Join::at(address, rank, 3, "secret").memory(memory);
                let join = join.timeout(limit).warn_after(Duration::from_millis(50));
                let mut ranks = Ranks::join(&join)?;
                let pair = ranks.add_set(&[0, 2])?;
                assert_eq!(pair, 1);
                if rank == 2 {
                    instead(&mut ranks, &|line| logged.lock().unwrap().iter().any(line));
                }
                let mut data = [1.0f32];
                let sum = Reduction::of(ReduceOp::Sum);
                ranks.all_reduce(
                    ALL_RANKS,
                    "sum",
                    bytemuck::cast_slice_mut(&mut data),
                    DType::F32,
                    sum,
                )?;
                Ok(data[0])
            })
        };
        let ranks: Vec<_> = (0..3).map(rank).collect();
        ranks.into_iter().map(|r| r.join().unwrap()).collect()
    });
    drop(coordinator);
    let logged = logged.lock().unwrap().clone();
    (logged, results)
}

#[test]
fn a_late_rank_is_reported_and_the_job_goes_on_when_it_comes() {
    for memory in [true, false] {
        let late = |l: &String| l.contains("wait for rank 2 in 'sum' for ");
        let waits = |_: &mut Ranks, was_logged: &WasLogged| {
            while !was_logged(&late) {
                thread::sleep(Duration::from_millis(5));
            }
        };
        let (logged, results) = job(memory, Duration::from_secs(60), waits);
        assert!(results.iter().all(|r| *r == Ok(3.0)), "{results:?}");
        // A rank that waits in the same collective is not named; a rank that has not come to it yet may be.
        let idle = |l: &String| l.ends_with(" s: it is in no collective");
        assert!(logged.iter().all(idle), "{logged:?}");
        // Each waiting rank reports the stall once.
        assert!(logged.iter().filter(|l| late(l)).count() <= 2, "{logged:?}");
    }
}

#[test]
fn a_rank_that_waits_in_another_collective_is_reported_with_its_name() {
    let other = |ranks: &mut Ranks, _: &WasLogged| {
        assert!(ranks.barrier(1, "pair").is_err());
    };
    let (logged, results) = job(true, Duration::from_millis(1500), other);
    assert!(results.iter().all(Result::is_err), "{results:?}");
    let names_both = |l: &String| l.contains("in 'sum' for ") && l.contains("it runs 'pair' for ");
    assert!(logged.iter().any(names_both), "{logged:?}");
}
