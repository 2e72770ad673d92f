//! Tests of every algorithm, with threads as ranks, against a plain loop.

use std::thread;

use thalweg_cpu::number::Number;
use thalweg_tensor::{DType, dispatch};

use super::*;
use crate::error::CollectiveError;
use crate::links::threads::ThreadLinks;
use thalweg_device::ReduceOp;

/// Runs a closure on each rank, and returns the results by rank.
fn on_ranks<R: Send>(size: usize, run: impl Fn(&mut Channel<'_>) -> R + Sync) -> Vec<R> {
    let members: Vec<usize> = (0..size).collect();
    thread::scope(|scope| {
        let ranks = ThreadLinks::all(size).into_iter().map(|mut links| {
            let (run, members) = (&run, &members);
            scope.spawn(move || run(&mut Channel::new(&mut links, members, 7).unwrap()))
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|r| r.join().unwrap()).collect()
    })
}

/// Small integers, for which every order of additions and products is exact.
fn value<T: Number>(rank: usize, i: usize) -> T {
    T::from_f64(((rank * 7 + i * 3) % 5) as f64)
}

fn bytes<T: Number + bytemuck::Pod>(values: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(values).to_vec()
}

/// Result of a plain loop over ranks.
fn plain<T: Number>(op: ReduceOp, size: usize, len: usize, factor: f64) -> Vec<T> {
    let of = |i: usize| {
        let all = (0..size).map(|r| value::<T>(r, i).to_f64());
        let reduced = match op {
            ReduceOp::Sum => all.sum(),
            ReduceOp::Average => all.sum::<f64>() / size as f64,
            ReduceOp::Min => all.fold(f64::INFINITY, f64::min),
            ReduceOp::Max => all.fold(f64::NEG_INFINITY, f64::max),
            _ => all.product(),
        };
        T::from_f64(reduced * factor)
    };
    (0..len).map(of).collect()
}

fn assert_close<T: Number + bytemuck::Pod>(found: &[u8], expected: &[T], label: &str) {
    let found = crate::aligned::Aligned::of(found);
    let found: &[T] = bytemuck::cast_slice(found.bytes());
    assert_eq!(found.len(), expected.len(), "{label}");
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        let (a, b): (f64, f64) = (Number::to_f64(*a), Number::to_f64(*b));
        // An average is rounded once more.
        let near = (a - b).abs() <= 4e-3 * b.abs().max(1.0) && (b.fract() != 0.0 || a.round() == b);
        assert!(near, "{label}: element {i} is {a}, not {b}");
    }
}

#[test]
fn all_reduce_equals_a_loop_for_every_algorithm_dtype_size_and_number_of_ranks() {
    for size in 1..=9 {
        for algorithm in Algorithm::ALL {
            for &dtype in DType::NUMBERS {
                for (op, len) in [
                    (ReduceOp::Sum, 0),
                    (ReduceOp::Sum, 1),
                    (ReduceOp::Sum, 37),
                    (ReduceOp::Max, 5),
                ] {
                    dispatch!(dtype, NUMBERS, T => {
                        let found = on_ranks(size, |ch| {
                            let own: Vec<T> = (0..len).map(|i| value(ch.rank(), i)).collect();
                            let mut data = own;
                            let reducer = Reducer::new(op, dtype, size, 1.0).unwrap();
                            all_reduce(ch, algorithm, bytemuck::cast_slice_mut(&mut data), reducer).unwrap();
                            bytes(&data)
                        });
                        let label = format!("{algorithm} of {len} {dtype} on {size} ranks");
                        for rank in &found {
                            assert_close::<T>(rank, &plain::<T>(op, size, len, 1.0), &label);
                        }
                    }, else unreachable!());
                }
            }
        }
    }
}

#[test]
fn every_reduction_with_a_factor_equals_a_loop() {
    let ops = [
        ReduceOp::Sum,
        ReduceOp::Average,
        ReduceOp::Min,
        ReduceOp::Max,
        ReduceOp::Product,
    ];
    for op in ops {
        for algorithm in Algorithm::ALL {
            for size in [1, 3, 4] {
                for factor in [1.0, 0.5] {
                    let found = on_ranks(size, |ch| {
                        let mut data: Vec<f32> = (0..23).map(|i| value(ch.rank(), i)).collect();
                        let reducer = Reducer::new(op, DType::F32, size, factor).unwrap();
                        all_reduce(ch, algorithm, bytemuck::cast_slice_mut(&mut data), reducer)
                            .unwrap();
                        data
                    });
                    for rank in found {
                        assert_close::<f32>(&bytes(&rank), &plain(op, size, 23, factor), op.name());
                    }
                }
            }
        }
    }
}

/// Values whose sums depend on the order of additions in the last bits.
fn rounding(rank: usize, i: usize) -> f32 {
    (((rank + 1) * (i + 3)) as f32).sin() * 10f32.powi((rank + i) as i32 % 7 - 3)
}

#[test]
fn results_are_bitwise_equal_on_all_ranks_and_in_every_run() {
    for algorithm in Algorithm::ALL {
        for size in 2..=9 {
            let run = || {
                on_ranks(size, |ch| {
                    let mut data: Vec<f32> = (0..41).map(|i| rounding(ch.rank(), i)).collect();
                    let reducer = Reducer::new(ReduceOp::Average, DType::F32, size, 1.0).unwrap();
                    all_reduce(ch, algorithm, bytemuck::cast_slice_mut(&mut data), reducer)
                        .unwrap();
                    bytes(&data)
                })
            };
            let first = run();
            assert!(
                first.iter().all(|r| *r == first[0]),
                "{algorithm} on {size}"
            );
            assert_eq!(first, run(), "{algorithm} on {size}");
        }
    }
}

#[test]
fn all_gather_concatenates_values_of_unequal_lengths_in_rank_order() {
    for size in 1..=9 {
        let lens: Vec<usize> = (0..size).map(|r| (r * 5) % 7).collect();
        let whole: Vec<u8> = (0..size).flat_map(|r| vec![r as u8; lens[r]]).collect();
        let found = on_ranks(size, |ch| {
            let mut output = vec![255; whole.len()];
            all_gather(
                ch,
                &vec![ch.rank() as u8; lens[ch.rank()]],
                &lens,
                &mut output,
            )
            .unwrap();
            output
        });
        assert!(found.iter().all(|r| *r == whole), "{found:?}");
    }
}

#[test]
fn broadcast_sends_small_and_large_values_of_any_root() {
    for size in 1..=9 {
        for root in 0..size {
            for len in [0, 1, 1000, 70_001] {
                let value: Vec<u8> = (0..len).map(|i| (i * 7 + root) as u8).collect();
                let found = on_ranks(size, |ch| {
                    let mut data = if ch.rank() == root {
                        value.clone()
                    } else {
                        vec![0; len]
                    };
                    broadcast(ch, root, &mut data).unwrap();
                    data
                });
                assert!(
                    found.iter().all(|r| *r == value),
                    "{size} ranks, root {root}, {len} bytes"
                );
            }
        }
    }
}

#[test]
fn reduce_scatter_leaves_one_part_of_the_sum_on_each_rank() {
    for size in 1..=9 {
        for rows in [0, 1, 9, 20] {
            let parts = crate::channel::parts(4 * rows, 4, size);
            let found = on_ranks(size, |ch| {
                let mut data: Vec<f32> = (0..rows).map(|i| value(ch.rank(), i)).collect();
                let sum = Reducer::new(ReduceOp::Sum, DType::F32, size, 1.0).unwrap();
                let data: &mut [u8] = bytemuck::cast_slice_mut(&mut data);
                reduce_scatter(ch, data, &parts, sum).unwrap();
                data[parts[ch.rank()].clone()].to_vec()
            });
            let whole = bytes(&plain::<f32>(ReduceOp::Sum, size, rows, 1.0));
            assert_eq!(found.concat(), whole, "{size} ranks, {rows} rows");
        }
    }
}

#[test]
fn all_to_all_delivers_parts_of_unequal_lengths() {
    for size in 1..=9 {
        // Rank a sends (a + 2 b) mod 4 bytes to rank b.
        let bytes = |a: usize, b: usize| vec![(a * 16 + b) as u8; (a + 2 * b) % 4];
        let ranges = |lens: Vec<usize>| {
            let mut at = 0;
            let range = |len: usize| {
                at += len;
                at - len..at
            };
            lens.into_iter().map(range).collect::<Vec<_>>()
        };
        let found = on_ranks(size, |ch| {
            let rank = ch.rank();
            let input: Vec<u8> = (0..size).flat_map(|to| bytes(rank, to)).collect();
            let sent = ranges((0..size).map(|to| bytes(rank, to).len()).collect());
            let received = ranges((0..size).map(|from| bytes(from, rank).len()).collect());
            let mut output = vec![255; received.last().map_or(0, |r| r.end)];
            all_to_all(ch, &input, &sent, &mut output, &received).unwrap();
            output
        });
        for (rank, found) in found.iter().enumerate() {
            let expected: Vec<u8> = (0..size).flat_map(|from| bytes(from, rank)).collect();
            assert_eq!(*found, expected, "rank {rank} of {size}");
        }
    }
}

#[test]
fn a_barrier_returns_after_all_ranks_have_entered() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    for size in 1..=9 {
        let come = AtomicUsize::new(0);
        let seen = on_ranks(size, |ch| {
            come.fetch_add(1, Ordering::SeqCst);
            barrier(ch).unwrap();
            come.load(Ordering::SeqCst)
        });
        assert!(seen.iter().all(|&s| s == size), "{seen:?}");
    }
}

#[test]
fn adasum_sums_orthogonal_values_and_averages_equal_ones() {
    for size in [1, 2, 4, 8] {
        let orthogonal = on_ranks(size, |ch| {
            let mut data = vec![0.0f32; 8];
            data[ch.rank()] = 3.0;
            adasum(ch, bytemuck::cast_slice_mut(&mut data), DType::F32).unwrap();
            data
        });
        let sum: Vec<f32> = (0..8).map(|i| if i < size { 3.0 } else { 0.0 }).collect();
        assert!(orthogonal.iter().all(|r| *r == sum), "{orthogonal:?}");
        let equal = on_ranks(size, |ch| {
            let mut data = [1.0f64, -2.0];
            adasum(ch, bytemuck::cast_slice_mut(&mut data), DType::F64).unwrap();
            data
        });
        assert!(equal.iter().all(|r| *r == [1.0, -2.0]), "{equal:?}");
    }
}

#[test]
fn adasum_rejects_three_ranks_and_integers() {
    let three = on_ranks(3, |ch| {
        adasum(ch, &mut [0; 8], DType::F32).unwrap_err().to_string()
    });
    assert!(three[0].contains("power of two"), "{three:?}");
    let ints = on_ranks(2, |ch| {
        adasum(ch, &mut [0; 8], DType::I32).unwrap_err().to_string()
    });
    assert!(ints[0].contains("not defined"), "{ints:?}");
}

#[test]
fn a_lost_rank_ends_the_waits_of_the_others() {
    for algorithm in Algorithm::ALL {
        let found = on_ranks(4, |ch| {
            if ch.rank() == 2 {
                return Err(CollectiveError::Ended("it goes".to_owned()));
            }
            let mut data = [0u8; 64];
            let sum = Reducer::new(ReduceOp::Sum, DType::F32, 4, 1.0).unwrap();
            all_reduce(ch, algorithm, &mut data, sum)
        });
        assert!(found.iter().all(|r| r.is_err()), "{algorithm}: {found:?}");
    }
}

#[test]
fn different_collectives_are_an_error_on_both_ranks() {
    let found = on_ranks(2, |ch| {
        let mut data = vec![0u8; if ch.rank() == 0 { 8 } else { 16 }];
        let sum = Reducer::new(ReduceOp::Sum, DType::F32, 2, 1.0).unwrap();
        all_reduce(ch, Algorithm::Doubling, &mut data, sum)
    });
    for rank in found {
        let error = rank.unwrap_err();
        assert!(matches!(error, CollectiveError::Differs { .. }), "{error}");
    }
}
