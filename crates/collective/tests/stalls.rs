//! Ranks that live and do not come: people are told who, and what it does instead.

use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use thalweg_collective::{
    ALL_RANKS, CollectiveError, Coordinator, Join, Ranks, ReduceOp, Reduction, SILENCE,
};
use thalweg_tensor::DType;

/// Runs three ranks, of which the last does something else first; gives what people are told, and the results.
fn job(
    memory: bool,
    limit: Duration,
    instead: impl Fn(&mut Ranks) + Sync,
) -> (Vec<String>, Vec<Result<f32, CollectiveError>>) {
    let (sender, told) = channel();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tell = Box::new(move |line| sender.send(line).unwrap());
    let coordinator = Coordinator::telling(listener, 3, "secret", SILENCE, tell).unwrap();
    let address = coordinator.address();
    let results = thread::scope(|scope| {
        let rank = |rank: usize| {
            let instead = &instead;
            scope.spawn(move || {
                let join = Join::at(address, rank, 3, "secret").memory(memory);
                let join = join.patience(limit).warn_after(Duration::from_millis(50));
                let mut ranks = Ranks::join(&join)?;
                let pair = ranks.add_set(&[0, 2])?;
                assert_eq!(pair, 1);
                if rank == 2 {
                    instead(&mut ranks);
                }
                let mut data = [1.0f32];
                let sum = Reduction::new(ReduceOp::Sum, DType::F32);
                ranks.all_reduce(ALL_RANKS, "sum", bytemuck::cast_slice_mut(&mut data), sum)?;
                Ok(data[0])
            })
        };
        let ranks: Vec<_> = (0..3).map(rank).collect();
        ranks.into_iter().map(|r| r.join().unwrap()).collect()
    });
    drop(coordinator);
    (told.try_iter().collect(), results)
}

#[test]
fn people_are_told_which_rank_does_not_come_and_the_job_goes_on_when_it_does() {
    for memory in [true, false] {
        let sleeps = |_: &mut Ranks| thread::sleep(Duration::from_millis(700));
        let (told, results) = job(memory, Duration::from_secs(60), sleeps);
        assert!(results.iter().all(|r| *r == Ok(3.0)), "{results:?}");
        let line = "others wait for rank 2 in 'sum' for 0 s: it is in no collective";
        assert!(told.iter().any(|l| l == line), "{told:?}");
        // Each waiting rank tells it once.
        assert!(told.len() <= 2, "{told:?}");
    }
}

#[test]
fn a_rank_that_waits_in_another_collective_says_so() {
    let other = |ranks: &mut Ranks| assert!(ranks.barrier(1, "pair").is_err());
    let (told, results) = job(true, Duration::from_millis(1500), other);
    assert!(results.iter().all(Result::is_err), "{results:?}");
    let line = "in 'sum' for 0 s: it runs 'pair' for 0 s";
    assert!(told.iter().any(|l| l.contains(line)), "{told:?}");
}
