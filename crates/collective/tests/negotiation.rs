//! Negotiated jobs: ranks run collectives in different orders, and some join before others.

mod support;

use std::net::TcpListener;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use support::TestJob;
use thalweg_collective::{
    ALL_RANKS, CollectiveError, Coordinator, Join, Progress, Ranks, ReduceOp,
};
use thalweg_device::{Collective, CollectiveRequest};
use thalweg_tensor::{DType, Tensor};

type Result<T> = std::result::Result<T, CollectiveError>;

/// Runs a closure on so many ranks that negotiate, and returns the results by rank.
fn job<R: Send>(size: usize, run: impl Fn(usize, Arc<Progress>) -> R + Sync) -> Vec<R> {
    job_of(TestJob::on_one_host(size), run)
}

fn job_of<R: Send>(job: TestJob, run: impl Fn(usize, Arc<Progress>) -> R + Sync) -> Vec<R> {
    job.negotiated().run_owned(|ranks| {
        let rank = ranks.rank();
        run(rank, Arc::new(Progress::start(ranks).unwrap()))
    })
}

fn request(name: &str, kind: Collective, input: Tensor) -> CollectiveRequest {
    CollectiveRequest {
        name: name.to_owned(),
        set: ALL_RANKS,
        kind,
        input,
    }
}

fn reduce(op: ReduceOp) -> Collective {
    Collective::Reduce(op.into())
}

fn sum(progress: &Progress, name: &str, input: Tensor) -> Result<Tensor> {
    let mut results = progress.call(request(name, reduce(ReduceOp::Sum), input))?;
    Ok(results.swap_remove(0))
}

/// Sums over all ranks and over pairs of them, which each rank requests in another order: in one order they would deadlock.
#[test]
fn ranks_run_collectives_of_several_sets_in_different_orders() {
    const SUMS: usize = 24;
    const PAIRS: [[usize; 2]; 3] = [[0, 1], [1, 2], [0, 2]];
    let found = job(3, |rank, progress| {
        let mut sets = vec![(ALL_RANKS, vec![0, 1, 2])];
        for pair in PAIRS {
            sets.push((progress.add_set(&pair).unwrap(), pair.to_vec()));
        }
        let of = |number: usize| &sets[number % sets.len()];
        thread::scope(|scope| {
            let numbers = (0..SUMS).map(|i| (i * 5 + 7 * rank) % SUMS);
            let requests = numbers.filter(|&n| of(n).1.contains(&rank)).map(|number| {
                let (set, members) = of(number);
                let progress = progress.clone();
                scope.spawn(move || {
                    let input = Tensor::vector(&vec![number as f32; number + 1]);
                    let request = CollectiveRequest {
                        set: *set,
                        ..request(&format!("sum {number}"), reduce(ReduceOp::Sum), input)
                    };
                    let sum = progress.call(request).unwrap().swap_remove(0);
                    let expected = vec![(members.len() * number) as f32; number + 1];
                    sum.to_vec::<f32>().unwrap() == expected
                })
            });
            let requests: Vec<_> = requests.collect();
            requests.into_iter().all(|a| a.join().unwrap())
        })
    });
    assert_eq!(found, [true; 3]);
}

#[test]
fn ranks_that_have_joined_contribute_zeros_and_no_rows_until_all_have_joined() {
    check_joins(TestJob::on_one_host(3));
    check_joins(TestJob::on_one_host(3).without_memory());
    check_joins(TestJob::on(&["a", "b", "a"]));
}

fn check_joins(job: TestJob) {
    let found = job_of(job, |rank, progress| {
        let mut seen = Vec::new();
        for round in 0..=rank {
            let input = Tensor::vector(&[1.0f32, (10 * rank + round) as f32]);
            let mean = progress.call(request("mean", reduce(ReduceOp::Average), input.clone()));
            let rows = progress.call(request("rows", Collective::Gather, input));
            let flags = Tensor::from(vec![true]);
            let flags = progress.call(request("flags", Collective::Gather, flags));
            let from = Collective::Broadcast { root: 2 };
            let value = progress.call(request("value", from, Tensor::scalar(rank as i64)));
            progress
                .call(request(
                    "all",
                    Collective::Barrier,
                    Tensor::vector::<f32>(&[]),
                ))
                .unwrap();
            let first = |r: Result<Vec<Tensor>>| r.unwrap().swap_remove(0);
            assert_eq!(first(value), Tensor::scalar(2i64));
            let flags = first(flags);
            assert_eq!(
                (flags.dtype(), flags.dims()),
                (DType::Bool, &[3 - round][..])
            );
            let numbers = |t: Tensor| t.to_vec::<f32>().unwrap();
            seen.push((numbers(first(mean)), numbers(first(rows))));
        }
        let last = progress.join().unwrap();
        // The next epoch: all ranks take part again.
        let again = sum(&progress, "mean", Tensor::scalar(1.0f32)).unwrap();
        let second = progress.join().unwrap();
        (seen, last, again.to_scalar::<f32>().unwrap(), second)
    });
    let mean = |of: &[f32]| vec![of.len() as f32 / 3.0, of.iter().sum::<f32>() / 3.0];
    let rows = |of: &[f32]| of.iter().flat_map(|&v| [1.0, v]).collect::<Vec<f32>>();
    let rounds = [&[0.0, 10.0, 20.0][..], &[11.0, 21.0], &[22.0]];
    let expected: Vec<_> = rounds.iter().map(|of| (mean(of), rows(of))).collect();
    let second = found[0].3;
    for (rank, (seen, last, again, last_again)) in found.into_iter().enumerate() {
        assert_eq!(seen, expected[..=rank]);
        assert_eq!((last, again, last_again), (2, 3.0, second));
    }
}

/// Requests a collective on rank 0 while rank 1 has joined: both ranks get the same error.
fn check_error_beside_joined_rank(kind: &Collective, text: &str) {
    let found = job(2, |rank, progress| match rank {
        0 => {
            let input = Tensor::vector(&[1.0f32, 2.0]);
            progress.call(request("x", kind.clone(), input)).map(|_| ())
        }
        _ => progress.join().map(|_| ()),
    });
    for result in found {
        let error = result.unwrap_err().to_string();
        let expected = format!("x = {text} f32[");
        assert!(error.contains(&expected), "{error}");
        assert!(
            error.contains("needs a value of rank 1, which has joined"),
            "{error}"
        );
    }
}

#[test]
fn a_collective_that_needs_a_value_of_a_joined_rank_ends_the_job_with_its_name() {
    check_error_beside_joined_rank(&reduce(ReduceOp::Max), "reduce max");
    check_error_beside_joined_rank(&Collective::Broadcast { root: 1 }, "broadcast from 1");
    let splits = vec![1, 1];
    check_error_beside_joined_rank(&Collective::Exchange { splits }, "exchange");
    let scatter = Collective::Scatter(ReduceOp::Sum.into());
    check_error_beside_joined_rank(&scatter, "scatter sum");
}

#[test]
fn different_collectives_under_one_name_are_an_error_that_shows_both() {
    let found = job(3, |rank, progress| {
        let len = if rank == 2 { 4 } else { 3 };
        sum(&progress, "x", Tensor::zeros(DType::F32, &[len]).unwrap())
    });
    let text = |r: Result<Tensor>| r.unwrap_err().to_string();
    let found: Vec<String> = found.into_iter().map(text).collect();
    let differs = "rank 2 runs x = reduce sum f32[4], this rank as rank 0 x = reduce sum f32[3]";
    // Other ranks may get the error from the first rank that has noticed.
    assert!(found.iter().all(|t| t.contains(differs)), "{found:?}");
}

#[test]
fn a_second_collective_of_a_pending_name_is_an_error() {
    let done = Barrier::new(2);
    let found = job(2, |rank, progress| {
        if rank == 1 {
            done.wait();
            return progress.join().map(|_| ()).unwrap_err().to_string();
        }
        let both: [_; 2] = thread::scope(|scope| {
            let start = || scope.spawn(|| sum(&progress, "x", Tensor::scalar(1.0f32)));
            [start(), start()].map(|t| t.join().unwrap().unwrap_err().to_string())
        });
        done.wait();
        both.join(", ")
    });
    for errors in found {
        assert!(errors.contains("'x' waits already"), "{errors}");
    }
}

#[test]
fn a_lost_rank_ends_the_waits_of_ranks_that_wait_or_have_joined() {
    let found = job(3, |rank, progress| match rank {
        0 => sum(&progress, "x", Tensor::scalar(1.0f32)).map(|_| ()),
        1 => progress.join().map(|_| ()),
        // The rank leaves without joining.
        _ => Ok(()),
    });
    for result in &found[..2] {
        let error = result.as_ref().unwrap_err().to_string();
        assert!(error.contains("rank 2"), "{error}");
    }
}

#[test]
fn a_missing_rank_is_named_and_ends_the_job_after_the_timeout() {
    let done = Barrier::new(2);
    let job = TestJob::on_one_host(2).timeout(Duration::from_secs(2));
    let found = job_of(job, |rank, progress| {
        if rank == 1 {
            done.wait();
            return progress.failure().map(|e| e.to_string());
        }
        let error = sum(&progress, "x", Tensor::scalar(1.0f32)).unwrap_err();
        done.wait();
        Some(error.to_string())
    });
    for error in found.into_iter().flatten() {
        assert!(error.contains("until all are ready: waited"), "{error}");
        assert!(error.contains("for rank 1"), "{error}");
    }
}

#[test]
fn joining_needs_negotiation() {
    let alone = |negotiated: bool| {
        let join = Join::alone().negotiated(negotiated);
        Progress::start(Ranks::join(&join).unwrap()).unwrap()
    };
    assert_eq!(alone(true).join().unwrap(), 0);
    assert_eq!(alone(false).join().unwrap(), 0);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let coordinator = Coordinator::start(listener, 2, "secret").unwrap();
    let address = coordinator.address();
    let rank = move |rank: usize, negotiated: bool| {
        thread::spawn(move || {
            let join = Join::at(address, rank, 2, "secret").negotiated(negotiated);
            let ranks = Ranks::join(&join).map_err(|e| e.to_string())?;
            let progress = Progress::start(ranks).unwrap();
            progress.join().map_err(|e| e.to_string())
        })
    };
    let both = [rank(0, false), rank(1, false)].map(|t| t.join().unwrap().unwrap_err());
    assert!(
        both.iter().all(|e| e.contains("Hvd::init_negotiated")),
        "{both:?}"
    );
}

#[test]
fn a_job_with_and_without_negotiation_does_not_begin() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let coordinator = Coordinator::start(listener, 2, "secret").unwrap();
    let address = coordinator.address();
    let rank = move |rank: usize| {
        thread::spawn(move || {
            let join = Join::at(address, rank, 2, "secret").negotiated(rank == 1);
            Ranks::join(&join).map(|_| ()).unwrap_err().to_string()
        })
    };
    let found = [rank(0), rank(1)].map(|t| t.join().unwrap());
    let expected = "rank 1 runs negotiated collectives, this rank collectives in one order";
    assert!(found[0].contains(expected), "{found:?}");
}

#[test]
fn a_rank_that_leaves_without_joining_ends_the_waits_of_joined_ranks() {
    let found = job(3, |rank, progress| match rank {
        2 => Ok(0),
        _ => progress.join(),
    });
    for result in &found[..2] {
        let error = result.as_ref().unwrap_err().to_string();
        assert!(
            error.contains("rank 2 is lost: it has shut down"),
            "{error}"
        );
    }
}

#[test]
fn a_rank_that_reconnects_gets_turns_from_the_first_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let coordinator = Coordinator::start(listener, 1, "secret").unwrap();
    for _ in 0..3 {
        let join = Join::at(coordinator.address(), 0, 1, "secret").negotiated(true);
        let progress = Progress::start(Ranks::join(&join).unwrap()).unwrap();
        for _ in 0..2 {
            let one = sum(&progress, "x", Tensor::scalar(1.0f32)).unwrap();
            assert_eq!(one, Tensor::scalar(1.0f32));
        }
    }
}

#[test]
fn a_rank_that_joins_again_waits_until_its_earlier_connection_has_ended() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let coordinator = Coordinator::start(listener, 1, "secret").unwrap();
    let join = Join::at(coordinator.address(), 0, 1, "secret").negotiated(true);
    let earlier = Ranks::join(&join).unwrap();
    let again = thread::spawn(move || Ranks::join(&join).map(|_| ()));
    thread::sleep(Duration::from_millis(200));
    drop(earlier);
    again.join().unwrap().unwrap();
}

#[test]
fn a_rank_that_is_connected_does_not_join_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let coordinator = Coordinator::start(listener, 1, "secret").unwrap();
    let join = Join::at(coordinator.address(), 0, 1, "secret").negotiated(true);
    let _connected = Ranks::join(&join).unwrap();
    let refused = Ranks::join(&join).map(|_| ()).unwrap_err().to_string();
    assert!(
        refused.contains("there is a rank 0 already: start each rank once"),
        "{refused}"
    );
}

#[test]
fn an_unknown_set_or_one_without_this_rank_is_an_error() {
    let found = job(2, |rank, progress| {
        let pair = progress.add_set(&[0]).unwrap();
        let set = if rank == 0 { 7 } else { pair };
        let request = CollectiveRequest {
            set,
            ..request("x", reduce(ReduceOp::Sum), Tensor::scalar(1.0f32))
        };
        progress.call(request).unwrap_err().to_string()
    });
    let known = [
        "there is no set 7 of ranks",
        "rank 1 is not in set 1 of ranks",
    ];
    // The first error ends the job, so each rank gets one of them.
    for error in &found {
        assert!(known.iter().any(|text| error.contains(text)), "{error}");
    }
}
