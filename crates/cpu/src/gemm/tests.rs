//! Tests of GEMMs against a plain loop: shapes, dtypes, threads, epilogues.

use super::*;
use crate::Activation;
use crate::thread_pool::ThreadPool;
use half::{bf16, f16};
use thalweg_tensor::DType;

/// Small whole numbers: GEMMs and sums of them are exact in every type here.
fn numbers(len: usize, salt: usize) -> Vec<f64> {
    (0..len)
        .map(|i| ((i * 7 + salt * 13 + i / 5) % 9) as f64 - 4.0)
        .collect()
}

fn naive(p: &Gemm, a: &[f64], b: &[f64]) -> Vec<f64> {
    let at = |i: usize, q: usize| {
        if p.transpose_a {
            a[q * p.m + i]
        } else {
            a[i * p.k + q]
        }
    };
    let bt = |q: usize, j: usize| {
        if p.transpose_b {
            b[j * p.k + q]
        } else {
            b[q * p.n + j]
        }
    };
    let mut c = Vec::new();
    for i in 0..p.m {
        for j in 0..p.n {
            c.push((0..p.k).map(|q| at(i, q) * bt(q, j)).sum());
        }
    }
    c
}

fn run<T: Element>(isa: Isa, threads: usize, p: &Gemm, a: &[T], b: &[T]) -> Vec<T> {
    let pool = ThreadPool::new(threads);
    let mut c = a
        .iter()
        .chain(b)
        .copied()
        .cycle()
        .take(p.m * p.n)
        .collect::<Vec<_>>();
    c.resize(p.m * p.n, T::zeroed());
    let mut scratch = vec![0xff; gemm_scratch::<T>(isa, threads, p)];
    let cpu = Cpu { pool: &pool, isa };
    gemm(
        cpu,
        p,
        [a, b],
        None,
        Epilogue::default(),
        &mut c,
        &mut scratch,
    );
    c
}

fn shapes() -> impl Iterator<Item = Gemm> {
    let sizes = [
        (1, 1, 1),
        (3, 5, 7),
        (14, 32, 160),
        (15, 33, 161),
        (50, 10, 40),
        (113, 70, 3),
        (29, 300, 33),
        (5, 16, 330),
        (1, 300, 370),
        (3, 1024, 203),
        (4, 48, 16),
        (8, 521, 33),
        (2, 9, 5),
        (230, 17, 9),
        (40, 33, 1),
        // Several blocks of the inner dimension, whose rows are near each other, and far apart: for a single tile, and for
        // many.
        (37, 137, 530),
        (9, 5, 1050),
        (37, 70, 1111),
        (19, 1060, 300),
        (1030, 40, 300),
    ];
    let flags = [(false, false), (true, false), (false, true), (true, true)];
    sizes.into_iter().flat_map(move |(m, n, k)| {
        flags.map(|(transpose_a, transpose_b)| Gemm {
            m,
            n,
            k,
            transpose_a,
            transpose_b,
        })
    })
}

fn check<T: Element + PartialEq + std::fmt::Debug>(convert: impl Fn(f64) -> T) {
    for isa in Isa::available() {
        for p in shapes() {
            let (a, b) = (numbers(p.m * p.k, 1), numbers(p.k * p.n, 2));
            let wanted: Vec<T> = naive(&p, &a, &b).into_iter().map(&convert).collect();
            let a: Vec<T> = a.into_iter().map(&convert).collect();
            let b: Vec<T> = b.into_iter().map(&convert).collect();
            assert_eq!(run(isa, 2, &p, &a, &b), wanted, "{isa:?} {p:?}");
        }
    }
}

#[test]
fn products_of_whole_numbers_are_exact() {
    check(|x| x as f32);
    check(|x| x);
}

#[test]
fn half_types_are_summed_wide_and_rounded_once() {
    check(f16::from_f64);
    check(bf16::from_f64);
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for isa in Isa::available() {
        for p in shapes() {
            let a: Vec<f32> = numbers(p.m * p.k, 1)
                .iter()
                .map(|x| (x * 0.37).sin() as f32)
                .collect();
            let b: Vec<f32> = numbers(p.k * p.n, 2)
                .iter()
                .map(|x| (x * 0.73).sin() as f32)
                .collect();
            let bits = |threads| {
                run(isa, threads, &p, &a, &b)
                    .into_iter()
                    .map(f32::to_bits)
                    .collect::<Vec<_>>()
            };
            let one = bits(1);
            assert_eq!(bits(2), one, "{isa:?} {p:?}");
            assert_eq!(bits(3), one, "{isa:?} {p:?}");
        }
    }
}

#[test]
fn a_scale_a_bias_and_an_activation_follow_the_whole_sum() {
    for (p, isa) in shapes().flat_map(|p| Isa::available().map(move |isa| (p, isa))) {
        let (a, b) = (numbers(p.m * p.k, 1), numbers(p.k * p.n, 2));
        let (bias, scale) = (numbers(p.n, 3), numbers(p.n, 4));
        let activations = Activation::ALL.iter().copied();
        let cases = activations.flat_map(|activation| {
            let lists = [
                (None, Some(&bias)),
                (Some(&scale), None),
                (Some(&scale), Some(&bias)),
            ];
            lists.map(|(scale, bias)| (activation, scale, bias))
        });
        for (activation, scale, bias) in cases {
            let of = |list: Option<&Vec<f64>>, i: usize, none| list.map_or(none, |l| l[i % p.n]);
            let followed = |(i, c): (usize, f64)| {
                let scaled = c * of(scale, i, 1.0);
                scaled + of(bias, i, 0.0)
            };
            let wanted = naive(&p, &a, &b).into_iter().enumerate().map(followed);
            let pool = ThreadPool::new(2);
            let mut c = vec![7.0; p.m * p.n];
            let mut scratch = vec![0xff; gemm_scratch::<f64>(isa, 2, &p)];
            let epilogue = Epilogue {
                scale: scale.map(Vec::as_slice),
                bias: bias.map(Vec::as_slice),
                activation,
                ..Epilogue::NONE
            };
            let cpu = Cpu { pool: &pool, isa };
            gemm(cpu, &p, [&a, &b], None, epilogue, &mut c, &mut scratch);
            for (&found, x) in c.iter().zip(wanted) {
                let same = activation.gives(x, found);
                assert!(same, "{x}: {found}, {isa:?} {p:?} {activation:?}");
            }
        }
    }
}

#[test]
fn activations_of_infinite_numbers_and_nan_are_as_defined() {
    let values = [f64::NEG_INFINITY, -2.5, 0.0, 3.0, f64::INFINITY, f64::NAN];
    let b: Vec<f64> = values.into_iter().cycle().take(33).collect();
    let pool = ThreadPool::new(2);
    // GEMMs of few rows and packed ones.
    for (m, isa) in [1, 64]
        .into_iter()
        .flat_map(|m| Isa::available().map(move |isa| (m, isa)))
    {
        for &activation in Activation::ALL {
            let p = Gemm {
                m,
                n: 33,
                k: 1,
                transpose_a: false,
                transpose_b: false,
            };
            let (a, mut c) = (vec![1.0; m], vec![7.0; m * p.n]);
            let mut scratch = vec![0xff; gemm_scratch::<f64>(isa, 2, &p)];
            let epilogue = Epilogue {
                activation,
                ..Epilogue::NONE
            };
            let cpu = Cpu { pool: &pool, isa };
            gemm(cpu, &p, [&a, &b], None, epilogue, &mut c, &mut scratch);
            for (i, &found) in c.iter().enumerate() {
                let x = b[i % p.n];
                let same = activation.gives(x, found);
                assert!(same, "{isa:?} {m} {activation:?}: {found} of {x}");
            }
        }
    }
}

#[test]
fn an_empty_inner_dimension_gives_zeros() {
    let p = Gemm {
        m: 3,
        n: 4,
        k: 0,
        transpose_a: false,
        transpose_b: false,
    };
    let pool = ThreadPool::new(1);
    let mut c = [1.0f32; 12];
    gemm(
        Cpu {
            pool: &pool,
            isa: Isa::detect(),
        },
        &p,
        [&[], &[]],
        None,
        Epilogue::default(),
        &mut c,
        &mut [],
    );
    assert_eq!(c, [0.0; 12]);
}

#[test]
fn an_empty_result_is_left_alone() {
    for (m, n) in [(0, 4), (4, 0)] {
        let p = Gemm {
            m,
            n,
            k: 2,
            transpose_a: false,
            transpose_b: true,
        };
        assert_eq!(
            run(
                Isa::detect(),
                2,
                &p,
                &vec![1.0f32; m * 2],
                &vec![1.0; n * 2]
            ),
            []
        );
    }
}

#[test]
fn many_products_lie_apart_or_are_summed() {
    let flags = [(false, false), (true, false), (false, true), (true, true)];
    // Rows that are near each other, and far apart.
    // An inner dimension of 1 is a product by lines.
    let sizes = [
        (35, 67, 170),
        (30, 530, 20),
        (530, 20, 30),
        (20, 17, 530),
        (300, 70, 1),
    ];
    let cases = sizes.into_iter().flat_map(|s| flags.map(|f| (s, f)));
    for (((m, n, k), (transpose_a, transpose_b)), isa) in
        cases.flat_map(|c| Isa::available().map(move |isa| (c, isa)))
    {
        let p = Gemm {
            m,
            n,
            k,
            transpose_a,
            transpose_b,
        };
        let [a_len, b_len, c_len] = [p.m * p.k, p.k * p.n, p.m * p.n];
        let (a, b) = (numbers(3 * a_len, 1), numbers(3 * b_len, 2));
        let each: Vec<_> = (0..3)
            .map(|i| naive(&p, &a[i * a_len..][..a_len], &b[i * b_len..][..b_len]))
            .collect();
        let sum = (0..c_len).map(|j| each.iter().map(|c| c[j]).sum());
        let with_first = (0..3).flat_map(|i| naive(&p, &a[..a_len], &b[i * b_len..][..b_len]));
        let cases = [
            ([a_len, b_len, c_len], each.concat()),
            ([a_len, b_len, 0], sum.collect()),
            ([0, b_len, c_len], with_first.collect()),
        ];
        for (steps, wanted) in cases {
            let many = GemmBatch { gemms: 3, steps };
            for threads in [1, 2, 5] {
                let pool = ThreadPool::new(threads);
                let cpu = Cpu { pool: &pool, isa };
                let mut c = vec![7.0; wanted.len()];
                let mut scratch = vec![0xff; gemm_many_scratch::<f64>(isa, threads, &p, many)];
                let a = &a[..if steps[0] == 0 { a_len } else { a.len() }];
                gemm_many(
                    cpu,
                    &p,
                    many,
                    [a, &b],
                    Epilogue::default(),
                    &mut c,
                    &mut scratch,
                );
                assert_eq!(c, wanted, "{isa:?}, {p:?}, {many:?}, {threads} threads");
            }
        }
    }
}

/// A GEMM with notes on `b`.
fn noted(threads: usize, isa: Isa, p: &Gemm, (a, b): (&[f32], &[f32]), n: &Notes) -> Vec<f32> {
    let pool = ThreadPool::new(threads);
    let mut c = vec![7.0; p.m * p.n];
    let mut scratch = vec![0xff; gemm_scratch::<f32>(isa, threads, p)];
    let cpu = Cpu { pool: &pool, isa };
    let epilogue = Epilogue::default();
    gemm(cpu, p, [a, b], Some(n), epilogue, &mut c, &mut scratch);
    c
}

/// Thin GEMMs of some parts, half of whose factors are zero in all rows.
fn rectified() -> impl Iterator<Item = (Gemm, Vec<f32>, Vec<f32>)> {
    let sizes = [(1, 521, 203), (1, 1024, 97), (4, 300, 330), (8, 33, 2000)];
    let cases = sizes.into_iter().flat_map(|s| [(s, false), (s, true)]);
    cases.map(|((m, n, k), transpose_a)| {
        let p = Gemm {
            m,
            n,
            k,
            transpose_a,
            transpose_b: false,
        };
        let a = (0..m * k).map(|i| {
            let q = if transpose_a { i / m } else { i % k };
            if q % 5 < 2 || q % 7 == 1 {
                0.0
            } else {
                (i as f32 * 0.37).sin()
            }
        });
        let b = (0..k * n).map(|i| (i as f32 * 0.73).sin());
        (p, a.collect(), b.collect())
    })
}

#[test]
fn products_that_read_no_rows_for_zeros_have_the_same_bits() {
    for (isa, threads) in Isa::available().flat_map(|isa| [1, 2, 3].map(move |t| (isa, t))) {
        for (p, a, b) in rectified() {
            let bits = |c: Vec<f32>| c.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            let wanted = bits(run(isa, threads, &p, &a, &b));
            let notes = Notes::default();
            for time in 0..4 {
                assert_eq!(notes.finite(DType::F32), time > 0 && isa != Isa::portable());
                let found = bits(noted(threads, isa, &p, (&a, &b), &notes));
                assert_eq!(found, wanted, "{isa:?} {p:?} {threads} {time}");
            }
        }
    }
}

#[test]
fn a_row_that_is_not_finite_is_multiplied_with_zero_until_it_is_known_better() {
    for isa in Isa::available() {
        for (p, a, mut b) in rectified() {
            // Row 0 is always multiplied with zeros.
            for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
                b[p.n - 1] = bad;
                let notes = Notes::default();
                for _ in 0..3 {
                    let c = noted(2, isa, &p, (&a, &b), &notes);
                    let is_nan = |row: &[f32]| row[p.n - 1].is_nan() && row[0].is_finite();
                    assert!(c.chunks(p.n).all(is_nan), "{isa:?} {p:?}");
                    assert!(!notes.finite(DType::F32));
                }
                // With the note that it is finite, it is not read.
                notes.set_finite(DType::F32);
                let c = noted(2, isa, &p, (&a, &b), &notes);
                let read = c.iter().any(|c| !c.is_finite());
                assert_eq!(read, isa == Isa::portable(), "{isa:?} {p:?}");
            }
        }
    }
}
