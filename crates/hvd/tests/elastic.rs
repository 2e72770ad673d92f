//! Elastic jobs whose workers are threads. All ranks learn from the same data, so that the result does not depend on
//! the number of ranks: each job ends with the weights of one undisturbed rank, if no step is lost or done twice.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use thalweg_collective::elastic::{Change, Driver, ElasticLimits, Worker};
use thalweg_graph::Graph;
use thalweg_hvd::elastic::{self, Elastic};
use thalweg_ops::{MathOps, NewGraph, ReduceOps, SourceOps, StateOps};
use thalweg_optim::{Momentum, Optimizer, create_global_step};
use thalweg_session::{Session, SessionOptions};
use thalweg_train::hooks::StopAtStepHook;
use thalweg_train::{MonitoredTrainingSession, StepFailure, TrainError};

const STEPS: i64 = 40;

/// Disturbance of a worker after each step: it may fail, or wait.
type Disturb<'a> = dyn Fn(&Elastic, i64) -> Result<(), TrainError> + Sync + 'a;

/// Trains in one round. Returns the weights, and the number of ranks of the last round.
fn train(job: &mut Elastic, disturb: &Disturb<'_>) -> Result<(Vec<f32>, usize), TrainError> {
    let hvd = job.hvd().clone();
    let g = Graph::new();
    let step = create_global_step(&g);
    let w = g.variable("w", [3.0f32, -4.0, 0.5]);
    let loss = (w.value() - g.constant([1.0f32, 2.0, 3.0])).square().sum();
    let optimizer = hvd.distributed(Momentum::new(0.01, 0.9));
    let train = optimizer.minimize_counting(loss, step);
    let options = hvd.session(SessionOptions::new().threads(1));
    let mut session = MonitoredTrainingSession::new(&g)
        .quiet()
        .hook(job.hook(3))
        .hook(StopAtStepHook::last_step(STEPS))
        .start(|| Session::with_options(&g, options.clone()))?;
    while !session.should_stop() {
        let done = session.run::<((), i64)>((train, step.value()), [])?;
        if let Some(((), at)) = done {
            disturb(job, at)?;
        }
    }
    let weights = session.session().run::<Vec<f32>>(w.value(), [])?;
    session.close()?;
    Ok((weights, hvd.size()))
}

fn own_error() -> TrainError {
    TrainError::step(
        StepFailure::Other,
        std::io::Error::other("this worker fails"),
    )
}

fn driver(limits: ElasticLimits) -> Driver {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Driver::start(listener, "secret", limits, Duration::from_secs(5)).unwrap()
}

fn worker(
    address: SocketAddr,
    number: u64,
    disturb: &Disturb<'_>,
) -> Result<(Vec<f32>, usize), TrainError> {
    let worker = Worker::connect(address, number, "secret").unwrap();
    elastic::run_as(Some(worker), |job| train(job, disturb))
}

fn undisturbed() -> Vec<f32> {
    let alone = elastic::run_as(None, |job| train(job, &|_, _| Ok(())));
    alone.unwrap().0
}

#[test]
fn a_job_that_loses_a_rank_resumes_from_its_last_commit() {
    for victim in 0..3 {
        let driver = driver(ElasticLimits::of(3));
        let address = driver.address();
        let fails = |job: &Elastic, step: i64| match (job.round(), step) {
            (1, 20) => Err(own_error()),
            _ => Ok(()),
        };
        let results: Vec<_> = thread::scope(|scope| {
            let start = |number: u64| {
                let disturb: &Disturb<'_> = match number == victim {
                    true => &fails,
                    false => &|_, _| Ok(()),
                };
                scope.spawn(move || worker(address, number, disturb))
            };
            let all: Vec<_> = (0..3).map(start).collect();
            all.into_iter().map(|t| t.join().unwrap()).collect()
        });
        for (number, result) in results.into_iter().enumerate() {
            if number as u64 == victim {
                let error = result.unwrap_err().to_string();
                assert_eq!(error, "this worker fails");
            } else {
                assert_eq!(result.unwrap(), (undisturbed(), 2));
            }
        }
        let rounds = |c: &Change| matches!(c, Change::Round { .. });
        assert_eq!(driver.changes().iter().filter(|e| rounds(e)).count(), 2);
    }
}

#[test]
fn new_ranks_join_at_a_commit_and_receive_its_values() {
    let driver = driver(ElasticLimits {
        max: 4,
        ..ElasticLimits::of(2)
    });
    let address = driver.address();
    // From a step on, ranks wait until all four have joined.
    let reached = AtomicBool::new(false);
    let waits = |job: &Elastic, step: i64| {
        reached.fetch_or(step >= 10, Ordering::Release);
        while step >= 10 && job.hvd().size() < 4 {
            job.check()?;
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    };
    let results: Vec<_> = thread::scope(|scope| {
        let (reached, waits) = (&reached, &waits);
        let start = |number: u64| {
            scope.spawn(move || {
                while number > 1 && !reached.load(Ordering::Acquire) {
                    thread::sleep(Duration::from_millis(5));
                }
                worker(address, number, waits)
            })
        };
        let all: Vec<_> = (0..4).map(start).collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    for result in results {
        assert_eq!(result.unwrap(), (undisturbed(), 4));
    }
}

#[test]
fn a_job_that_has_lost_all_commits_ends_with_an_error() {
    let driver = driver(ElasticLimits {
        timeout: Duration::from_secs(30),
        max: 2,
        ..ElasticLimits::of(1)
    });
    let address = driver.address();
    let fails = |_: &Elastic, step: i64| if step == 10 { Err(own_error()) } else { Ok(()) };
    assert!(worker(address, 0, &fails).is_err());
    let error = worker(address, 1, &|_, _| Ok(())).unwrap_err().to_string();
    assert!(
        error.contains("start it again from its last checkpoint"),
        "{error}"
    );
}

#[test]
fn numbers_of_the_program_are_restored_from_the_last_commit() {
    let driver = driver(ElasticLimits::of(2));
    let address = driver.address();
    let results: Vec<_> = thread::scope(|scope| {
        let start = |number: u64| {
            scope.spawn(move || {
                let worker = Worker::connect(address, number, "secret").unwrap();
                elastic::run_as(Some(worker), |job| {
                    let g = Graph::new();
                    let w = g.variable("w", 1.0f32);
                    let options = job.hvd().session(SessionOptions::new().threads(1));
                    let session = Session::with_options(&g, options)?;
                    session.run(g.initializers(), [])?;
                    job.begin(&session)?;
                    let from = job.number("row").unwrap_or(0);
                    for row in from..20 {
                        session.run(w.assign_add(1.0f32), [])?;
                        job.set_number("row", row + 1);
                        if (job.round(), number, row) == (1, 1, 13) {
                            return Err(own_error());
                        }
                        if row % 5 == 4 {
                            job.commit(&session)?;
                        }
                    }
                    let w = session.run::<f32>(w.value(), [])?;
                    Ok((from, w, job.commits()))
                })
            })
        };
        let all: Vec<_> = (0..2).map(start).collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    // It restarted after its own third commit, or the second: each row has counted once.
    let (from, w, commits) = *results[0].as_ref().unwrap();
    assert!([10, 15].contains(&from), "{from}");
    assert_eq!((w, commits), (21.0, 5));
    assert!(results[1].is_err());
}

#[test]
fn a_rank_lost_before_meeting_delays_the_others_only_briefly() {
    let driver = driver(ElasticLimits::of(3));
    let address = driver.address();
    let began = std::time::Instant::now();
    let results: Vec<_> = thread::scope(|scope| {
        let start = |number: u64| scope.spawn(move || worker(address, number, &|_, _| Ok(())));
        let all: Vec<_> = (0..2).map(start).collect();
        let lost = Worker::connect(address, 2, "secret").unwrap();
        // It has a place in the round, and leaves before it takes it.
        lost.ready(0).unwrap();
        drop(lost);
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    for result in results {
        assert_eq!(result.unwrap(), (undisturbed(), 2));
    }
    // Ranks wait 60 s for a rank whose loss is not known.
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
}
