//! Ranks of one job, which are threads here: over memory, over TCP, and over both.

mod support;

use std::time::{Duration, Instant};

use support::{Job, floats, value};
use thalweg_collective::{ALL_RANKS, CollectiveError, ReduceOp, Reduction};
use thalweg_tensor::DType;

/// The hosts of ranks, by rank, and whether those of one host share memory.
fn jobs() -> Vec<Job> {
    let mut all = Vec::new();
    for size in 1..=9 {
        all.push(Job::on_one_host(size));
        all.push(Job::on_one_host(size).without_memory());
    }
    let hosts: [&[&str]; 5] = [
        &["a", "b"],
        &["a", "a", "b", "b"],
        &["a", "b", "a", "b", "a", "b"],
        &["a", "a", "a", "b"],
        &["a", "b", "b", "c", "b", "c"],
    ];
    for hosts in hosts {
        all.push(Job::on(hosts));
        all.push(Job::on(hosts).without_memory());
    }
    all
}

const LENS: [usize; 7] = [0, 1, 2, 7, 1_000, 32_769, 100_003];

#[test]
fn every_reduction_of_every_length_is_exact_and_the_same_on_all_ranks() {
    let ops = [
        ReduceOp::Sum,
        ReduceOp::Average,
        ReduceOp::Min,
        ReduceOp::Max,
    ];
    for job in jobs() {
        let size = job.size();
        for op in ops {
            let found = job.run(|ranks| {
                LENS.map(|len| {
                    let mut data: Vec<f32> = (0..len).map(|i| value(ranks.rank(), i)).collect();
                    let reduction = Reduction::new(op, DType::F32);
                    let bytes = bytemuck::cast_slice_mut(&mut data);
                    ranks.all_reduce(ALL_RANKS, "x", bytes, reduction).unwrap();
                    data
                })
            });
            for (at, len) in LENS.into_iter().enumerate() {
                assert_eq!(found[0][at].len(), len);
                for (i, &element) in found[0][at].iter().enumerate() {
                    let all = (0..size).map(|r| value(r, i));
                    let expected = match op {
                        ReduceOp::Sum => all.sum(),
                        ReduceOp::Average => all.sum::<f32>() * (1.0 / size as f32),
                        ReduceOp::Min => all.fold(f32::INFINITY, f32::min),
                        _ => all.fold(f32::NEG_INFINITY, f32::max),
                    };
                    assert_eq!(element, expected, "{job:?}: {op:?}, element {i} of {len}");
                }
            }
            assert!(found.iter().all(|f| *f == found[0]), "{job:?}: {op:?}");
        }
    }
}

#[test]
fn sums_that_are_rounded_have_the_same_bits_on_all_ranks_and_in_every_run() {
    for job in jobs() {
        let run = || {
            job.run(|ranks| {
                let mut data: Vec<f32> = (0..20_011)
                    .map(|i| (value(ranks.rank(), i) + 0.1).sin())
                    .collect();
                let sum = Reduction::new(ReduceOp::Sum, DType::F32);
                let bytes = bytemuck::cast_slice_mut(&mut data);
                ranks.all_reduce(ALL_RANKS, "x", bytes, sum).unwrap();
                data.iter().map(|x| x.to_bits()).collect::<Vec<u32>>()
            })
        };
        let first = run();
        assert!(first.iter().all(|f| *f == first[0]), "{job:?}");
        assert_eq!(first, run(), "{job:?}");
    }
}

#[test]
fn every_dtype_with_numbers_is_reduced() {
    for job in [Job::on_one_host(3), Job::on_one_host(3).without_memory()] {
        for &dtype in DType::NUMBERS {
            let found = job.run(|ranks| {
                let ones = support::ones(dtype, 100);
                let mut words = support::aligned(&ones);
                let bytes = &mut bytemuck::cast_slice_mut(&mut words)[..ones.len()];
                let sum = Reduction {
                    postscale: 2.0,
                    ..Reduction::new(ReduceOp::Sum, dtype)
                };
                ranks.all_reduce(ALL_RANKS, "x", bytes, sum).unwrap();
                support::first(dtype, bytes)
            });
            assert_eq!(found, [6.0; 3], "{job:?}: {dtype}");
        }
    }
}

#[test]
fn factors_are_applied_before_and_after() {
    let found = Job::on_one_host(2).run(|ranks| {
        let mut data = [3.0f32];
        let reduction = Reduction {
            prescale: 0.5,
            postscale: 10.0,
            ..Reduction::new(ReduceOp::Product, DType::F32)
        };
        let bytes = bytemuck::cast_slice_mut(&mut data);
        ranks.all_reduce(ALL_RANKS, "x", bytes, reduction).unwrap();
        data[0]
    });
    assert_eq!(found, [22.5, 22.5]);
}

#[test]
fn broadcasts_gathers_and_barriers_work_on_every_job() {
    for job in jobs() {
        let size = job.size();
        job.run(|ranks| {
            for len in [0, 1, 5_000, 300_001] {
                let root = len % size;
                let mut data = floats(if ranks.rank() == root { 7.0 } else { 0.0 }, len);
                ranks
                    .broadcast(ALL_RANKS, "b", root, bytemuck::cast_slice_mut(&mut data))
                    .unwrap();
                assert!(data.iter().all(|&x| x == 7.0), "{job:?}: {len}");
            }
            for most in [0, 1, 150_000] {
                let lens: Vec<usize> = (0..size).map(|r| (r * 7 + 1) % (most + 1)).collect();
                let own = vec![ranks.rank() as u8; lens[ranks.rank()]];
                let mut output = vec![255; lens.iter().sum()];
                ranks
                    .all_gather(ALL_RANKS, "g", &own, &lens, &mut output)
                    .unwrap();
                let expected: Vec<u8> = (0..size).flat_map(|r| vec![r as u8; lens[r]]).collect();
                assert!(output == expected, "{job:?}: {lens:?}");
            }
            ranks.barrier(ALL_RANKS, "end").unwrap();
        });
    }
}

#[test]
fn parts_of_sums_and_values_for_each_rank_arrive() {
    for job in jobs() {
        let size = job.size();
        job.run(|ranks| {
            let own = ranks.rank();
            let lens: Vec<usize> = (0..size).map(|r| 4 * ((r * 3) % 5)).collect();
            let total: usize = lens.iter().sum();
            let mut data = floats(own as f32, total / 4);
            let sum = Reduction::new(ReduceOp::Sum, DType::F32);
            ranks
                .reduce_scatter(
                    ALL_RANKS,
                    "s",
                    bytemuck::cast_slice_mut(&mut data),
                    &lens,
                    sum,
                )
                .unwrap();
            let begin: usize = lens[..own].iter().sum::<usize>() / 4;
            let part = &data[begin..begin + lens[own] / 4];
            let whole = (0..size).sum::<usize>() as f32;
            assert!(part.iter().all(|&x| x == whole), "{job:?}: {part:?}");

            let to = |a: usize, b: usize| (a + 2 * b) % 4;
            let input: Vec<u8> = (0..size)
                .flat_map(|r| vec![(own * 10 + r) as u8; to(own, r)])
                .collect();
            let sent: Vec<usize> = (0..size).map(|r| to(own, r)).collect();
            let received: Vec<usize> = (0..size).map(|r| to(r, own)).collect();
            let mut output = vec![255; received.iter().sum()];
            ranks
                .all_to_all(ALL_RANKS, "e", (&input, &sent), (&mut output, &received))
                .unwrap();
            let expected: Vec<u8> = (0..size)
                .flat_map(|r| vec![(r * 10 + own) as u8; to(r, own)])
                .collect();
            assert_eq!(output, expected, "{job:?}");
        });
    }
}

#[test]
fn sets_of_ranks_reduce_alone() {
    for job in [
        Job::on_one_host(5),
        Job::on_one_host(5).without_memory(),
        Job::on(&["a", "b", "a", "b", "b"]),
    ] {
        let found = job.run(|ranks| {
            let odd = ranks.add_set(&[1, 3]).unwrap();
            let even = ranks.add_set(&[4, 0, 2]).unwrap();
            let own = if ranks.rank() % 2 == 1 { odd } else { even };
            let mut data = [ranks.rank() as f32];
            let sum = Reduction::new(ReduceOp::Sum, DType::F32);
            ranks
                .all_reduce(own, "x", bytemuck::cast_slice_mut(&mut data), sum)
                .unwrap();
            let mut whole = data;
            ranks
                .all_reduce(ALL_RANKS, "y", bytemuck::cast_slice_mut(&mut whole), sum)
                .unwrap();
            // Nobody reduces in a set that it is not in.
            let other = if own == odd { even } else { odd };
            let error = ranks.all_reduce(other, "z", &mut [], sum).unwrap_err();
            assert!(error.to_string().contains("not in set"), "{error}");
            (data[0], whole[0])
        });
        assert_eq!(
            found,
            [
                (6.0, 26.0),
                (4.0, 26.0),
                (6.0, 26.0),
                (4.0, 26.0),
                (6.0, 26.0)
            ],
            "{job:?}"
        );
    }
}

#[test]
fn sets_that_ranks_name_differently_are_an_error_that_shows_both() {
    let found = Job::on_one_host(2).run(|ranks| {
        let members: &[usize] = if ranks.rank() == 0 { &[0, 1] } else { &[1] };
        ranks.add_set(members).unwrap_err().to_string()
    });
    assert!(
        found[0].contains("rank 1 runs set 1: [1], this rank set 1: [0,1]"),
        "{found:?}"
    );
    for wrong in [&[][..], &[2], &[0, 0]] {
        let found = Job::on_one_host(2).run(|ranks| ranks.add_set(wrong).unwrap_err());
        assert!(
            matches!(found[0], CollectiveError::Argument(_)),
            "{found:?}"
        );
    }
}

#[test]
fn places_on_hosts_are_horovods_local_and_cross_ranks() {
    let found =
        Job::on(&["a", "b", "a", "a", "b"]).run(|r| (r.local(), r.cross(), r.is_homogeneous()));
    let expected = [
        ((0, 3), (0, 2), false),
        ((0, 2), (1, 2), false),
        ((1, 3), (0, 2), false),
        ((2, 3), (0, 1), false),
        ((1, 2), (1, 2), false),
    ];
    assert_eq!(found, expected);
    assert!(Job::on(&["a", "b"]).run(|r| r.is_homogeneous())[0]);
}

#[test]
fn ranks_that_run_something_else_are_told_and_all_others_too() {
    for job in [Job::on_one_host(3), Job::on_one_host(3).without_memory()] {
        let found = job.run(|ranks| {
            let name = if ranks.rank() == 1 { "b" } else { "a" };
            let mut data = floats(1.0, 10);
            let sum = Reduction::new(ReduceOp::Sum, DType::F32);
            ranks
                .all_reduce(ALL_RANKS, name, bytemuck::cast_slice_mut(&mut data), sum)
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
fn a_rank_that_is_lost_in_the_middle_is_named_by_all_others_within_seconds() {
    for job in [
        Job::on_one_host(4),
        Job::on_one_host(4).without_memory(),
        Job::on(&["a", "a", "b", "b"]),
    ] {
        let began = Instant::now();
        let found = job.run(|ranks| {
            let sum = Reduction::new(ReduceOp::Sum, DType::F32);
            for step in 0.. {
                if ranks.rank() == 2 && step == 3 {
                    // What the coordinator sees of a process that is killed is tested with processes.
                    ranks.fail(&CollectiveError::Ended("killed".to_owned()));
                    return String::new();
                }
                let mut data = floats(1.0, 5_000);
                if let Err(e) =
                    ranks.all_reduce(ALL_RANKS, "x", bytemuck::cast_slice_mut(&mut data), sum)
                {
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
fn a_rank_that_has_shut_down_is_named_by_who_needs_it() {
    for job in [Job::on_one_host(3), Job::on_one_host(3).without_memory()] {
        let found = job.run(|ranks| {
            if ranks.rank() == 1 {
                return String::new();
            }
            let sum = Reduction::new(ReduceOp::Sum, DType::F32);
            ranks
                .all_reduce(ALL_RANKS, "x", &mut [0; 4], sum)
                .unwrap_err()
                .to_string()
        });
        let told = |r: usize| found[r].contains("rank 1 is lost: it has shut down");
        assert!(told(0) && told(2), "{job:?}: {found:?}");
    }
}

#[test]
fn a_rank_that_does_not_come_is_named_when_patience_ends() {
    for job in [Job::on_one_host(2), Job::on_one_host(2).without_memory()] {
        let found = job.patience(Duration::from_millis(700)).run(|ranks| {
            if ranks.rank() == 1 {
                std::thread::sleep(Duration::from_secs(2));
                return String::new();
            }
            let sum = Reduction::new(ReduceOp::Sum, DType::F32);
            ranks
                .all_reduce(ALL_RANKS, "late", &mut [0; 4], sum)
                .unwrap_err()
                .to_string()
        });
        assert!(
            found[0].contains("'late': waited") && found[0].contains("for rank 1"),
            "{found:?}"
        );
    }
}
