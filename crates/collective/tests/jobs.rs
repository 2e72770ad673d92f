//! Jobs whose ranks are threads: over shared memory, over TCP, and over both.

mod support;

use std::time::{Duration, Instant};

use support::{TestJob, conformance};
use thalweg_collective::{ALL_RANKS, CollectiveError, ReduceOp, Reduction};
use thalweg_tensor::DType;

/// Jobs with one or several hosts, with and without shared memory.
fn jobs() -> Vec<TestJob> {
    let mut all = Vec::new();
    for size in 1..=9 {
        all.push(TestJob::on_one_host(size));
        all.push(TestJob::on_one_host(size).without_memory());
    }
    let hosts: [&[&str]; 5] = [
        &["a", "b"],
        &["a", "a", "b", "b"],
        &["a", "b", "a", "b", "a", "b"],
        &["a", "a", "a", "b"],
        &["a", "b", "b", "c", "b", "c"],
    ];
    for hosts in hosts {
        all.push(TestJob::on(hosts));
        all.push(TestJob::on(hosts).without_memory());
        all.push(TestJob::on(hosts).connections(3));
    }
    all
}

/// Values of many chunks over several connections, with short values between them.
#[test]
fn long_values_over_several_connections_arrive_complete() {
    for connections in [1, 2, 5] {
        let job = TestJob::on(&["a", "b", "c"]).connections(connections);
        let found = job.run(|ranks| {
            let sum = Reduction::of(ReduceOp::Sum);
            let mut right = true;
            for elements in [300_000, 1, 8_192, 0, 8_193, 100_000] {
                let own = |i: usize| (i * 3 + ranks.rank()) as i64;
                let mut data: Vec<i64> = (0..elements).map(own).collect();
                let bytes = bytemuck::cast_slice_mut(&mut data);
                ranks
                    .all_reduce(ALL_RANKS, "sum", bytes, DType::I64, sum)
                    .unwrap();
                let expected = |i: usize| (9 * i + 3) as i64;
                right &= data.iter().enumerate().all(|(i, &x)| x == expected(i));
                let bytes = bytemuck::cast_slice_mut(&mut data);
                ranks.broadcast(ALL_RANKS, "same", 1, bytes).unwrap();
            }
            right
        });
        assert_eq!(found, [true; 3], "{connections} connections");
    }
}

#[test]
fn all_collectives_are_exact_on_every_job() {
    for job in jobs() {
        println!("{job:?}");
        job.run(conformance::check_all);
    }
}

#[test]
fn prescale_and_postscale_are_applied() {
    let found = TestJob::on_one_host(2).run(|ranks| {
        let mut data = [3.0f32];
        let reduction = Reduction::of(ReduceOp::Product).scaled(0.5, 10.0);
        let bytes = bytemuck::cast_slice_mut(&mut data);
        ranks
            .all_reduce(ALL_RANKS, "x", bytes, DType::F32, reduction)
            .unwrap();
        data[0]
    });
    assert_eq!(found, [22.5, 22.5]);
}

#[test]
fn sets_that_differ_between_ranks_are_an_error_that_shows_both() {
    let found = TestJob::on_one_host(2).run(|ranks| {
        let members: &[usize] = if ranks.rank() == 0 { &[0, 1] } else { &[1] };
        ranks.add_set(members).unwrap_err().to_string()
    });
    assert!(
        found[0].contains("rank 1 runs set 1: [1], this rank set 1: [0,1]"),
        "{found:?}"
    );
    for wrong in [&[][..], &[2], &[0, 0]] {
        let found = TestJob::on_one_host(2).run(|ranks| ranks.add_set(wrong).unwrap_err());
        assert!(
            matches!(found[0], CollectiveError::Argument(_)),
            "{found:?}"
        );
    }
}

#[test]
fn local_and_cross_ranks_follow_horovod() {
    let found =
        TestJob::on(&["a", "b", "a", "a", "b"]).run(|r| (r.local(), r.cross(), r.is_homogeneous()));
    let expected = [
        ((0, 3), (0, 2), false),
        ((0, 2), (1, 2), false),
        ((1, 3), (0, 2), false),
        ((2, 3), (0, 1), false),
        ((1, 2), (1, 2), false),
    ];
    assert_eq!(found, expected);
    assert!(TestJob::on(&["a", "b"]).run(|r| r.is_homogeneous())[0]);
}

#[test]
fn ranks_of_several_hosts_share_one_measured_cost() {
    use thalweg_collective::LinkCost;
    let assumed = LinkCost::default();
    let found = TestJob::on(&["a", "b", "a", "c"]).run(|r| r.cost());
    assert!(found.iter().all(|c| *c == found[0]), "{found:?}");
    assert_ne!(
        (found[0].message, found[0].byte),
        (assumed.message, assumed.byte)
    );
    assert!(found[0].message > 0.0 && found[0].byte > 0.0, "{found:?}");
    let within = TestJob::on_one_host(3).run(|r| r.cost());
    assert!(within.iter().all(|c| *c == assumed), "{within:?}");
    let links = TestJob::on_one_host(3).run(|r| (r.measured_link().unwrap(), r.cost()));
    assert!(
        links.iter().all(|l| *l == links[0] && l.1 == assumed),
        "{links:?}"
    );
    assert_ne!(links[0].0.message, assumed.message);
    let alone = TestJob::on_one_host(1).run(|r| r.measured_link().unwrap_err().to_string());
    assert!(alone[0].contains("between two ranks"), "{alone:?}");
}

#[test]
fn a_collective_that_differs_on_one_rank_is_an_error_on_all_ranks() {
    for job in [
        TestJob::on_one_host(3),
        TestJob::on_one_host(3).without_memory(),
    ] {
        let found = job.run(|ranks| {
            let name = if ranks.rank() == 1 { "b" } else { "a" };
            let mut data = vec![1.0f32; 10];
            let sum = Reduction::of(ReduceOp::Sum);
            ranks
                .all_reduce(
                    ALL_RANKS,
                    name,
                    bytemuck::cast_slice_mut(&mut data),
                    DType::F32,
                    sum,
                )
                .unwrap_err()
        });
        let texts: Vec<String> = found.iter().map(|e| e.to_string()).collect();
        assert!(
            texts.iter().all(|t| t.contains("same graph")),
            "{job:?}: {texts:?}"
        );
    }
}

#[test]
fn a_rank_that_fails_in_the_middle_is_named_by_all_others_within_seconds() {
    for job in [
        TestJob::on_one_host(4),
        TestJob::on_one_host(4).without_memory(),
        TestJob::on(&["a", "a", "b", "b"]),
    ] {
        let began = Instant::now();
        let found = job.run(|ranks| {
            let sum = Reduction::of(ReduceOp::Sum);
            for step in 0.. {
                if ranks.rank() == 2 && step == 3 {
                    // Killed processes are tested in `processes.rs`.
                    ranks.fail(&CollectiveError::Ended("killed".to_owned()));
                    return String::new();
                }
                let mut data = vec![1.0f32; 5_000];
                if let Err(e) = ranks.all_reduce(
                    ALL_RANKS,
                    "x",
                    bytemuck::cast_slice_mut(&mut data),
                    DType::F32,
                    sum,
                ) {
                    return e.to_string();
                }
            }
            unreachable!()
        });
        let others = [0, 1, 3].map(|r| &found[r]);
        assert!(
            others.iter().all(|t| t.contains("rank 2: ended: killed")),
            "{job:?}: {found:?}"
        );
        assert!(began.elapsed() < Duration::from_secs(20), "{job:?}");
    }
}

#[test]
fn a_rank_that_has_shut_down_is_named_by_ranks_that_wait_for_it() {
    for job in [
        TestJob::on_one_host(3),
        TestJob::on_one_host(3).without_memory(),
    ] {
        let found = job.run(|ranks| {
            if ranks.rank() == 1 {
                return String::new();
            }
            let sum = Reduction::of(ReduceOp::Sum);
            ranks
                .all_reduce(ALL_RANKS, "x", &mut [0; 4], DType::F32, sum)
                .unwrap_err()
                .to_string()
        });
        let names_it = |r: usize| found[r].contains("rank 1 is lost: it has shut down");
        assert!(names_it(0) && names_it(2), "{job:?}: {found:?}");
    }
}

#[test]
fn a_late_rank_is_named_after_the_timeout() {
    for job in [
        TestJob::on_one_host(2),
        TestJob::on_one_host(2).without_memory(),
    ] {
        let found = job.timeout(Duration::from_millis(700)).run(|ranks| {
            if ranks.rank() == 1 {
                std::thread::sleep(Duration::from_secs(2));
                return String::new();
            }
            let sum = Reduction::of(ReduceOp::Sum);
            ranks
                .all_reduce(ALL_RANKS, "late", &mut [0; 4], DType::F32, sum)
                .unwrap_err()
                .to_string()
        });
        assert!(
            found[0].contains("'late': waited") && found[0].contains("for rank 1"),
            "{found:?}"
        );
    }
}
