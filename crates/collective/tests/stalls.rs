//! Ranks that live and do not come: people are told who, and what it does instead.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use thalweg_collective::{
    ALL_RANKS, CollectiveError, Coordinator, Join, Ranks, ReduceOp, Reduction, SILENCE_TIMEOUT,
};
use thalweg_tensor::DType;

/// Whether people have been told such a line.
type Told<'a> = dyn Fn(&dyn Fn(&String) -> bool) -> bool + 'a;

/// Runs three ranks, of which the last does something else first; gives what people are told, and the results.
fn job(
    memory: bool,
    limit: Duration,
    instead: impl Fn(&mut Ranks, &Told) + Sync,
) -> (Vec<String>, Vec<Result<f32, CollectiveError>>) {
    let told = Arc::<Mutex<Vec<String>>>::default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let lines = told.clone();
    let tell = Box::new(move |line| lines.lock().unwrap().push(line));
    let coordinator = Coordinator::telling(listener, 3, "secret", SILENCE_TIMEOUT, tell).unwrap();
    let address = coordinator.address();
    let results = thread::scope(|scope| {
        let rank = |rank: usize| {
            let (instead, told) = (&instead, &told);
            scope.spawn(move || {
                let join = Join::at(address, rank, 3, "secret").memory(memory);
                let join = join.patience(limit).warn_after(Duration::from_millis(50));
                let mut ranks = Ranks::join(&join)?;
                let pair = ranks.add_set(&[0, 2])?;
                assert_eq!(pair, 1);
                if rank == 2 {
                    instead(&mut ranks, &|line| told.lock().unwrap().iter().any(line));
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
    let told = told.lock().unwrap().clone();
    (told, results)
}

#[test]
fn people_are_told_which_rank_does_not_come_and_the_job_goes_on_when_it_does() {
    for memory in [true, false] {
        let late = |l: &String| l.contains("wait for rank 2 in 'sum' for ");
        let waits = |_: &mut Ranks, told: &Told| {
            while !told(&late) {
                thread::sleep(Duration::from_millis(5));
            }
        };
        let (told, results) = job(memory, Duration::from_secs(60), waits);
        assert!(results.iter().all(|r| *r == Ok(3.0)), "{results:?}");
        // A rank that waits in the same collective is not named; one that has not come to it yet may be.
        let idle = |l: &String| l.ends_with(" s: it is in no collective");
        assert!(told.iter().all(idle), "{told:?}");
        // Each waiting rank tells it once.
        assert!(told.iter().filter(|l| late(l)).count() <= 2, "{told:?}");
    }
}

#[test]
fn a_rank_that_waits_in_another_collective_says_so() {
    let other = |ranks: &mut Ranks, _: &Told| {
        assert!(ranks.barrier(1, "pair").is_err());
    };
    let (told, results) = job(true, Duration::from_millis(1500), other);
    assert!(results.iter().all(Result::is_err), "{results:?}");
    let says = |l: &String| l.contains("in 'sum' for ") && l.contains("it runs 'pair' for ");
    assert!(told.iter().any(says), "{told:?}");
}
