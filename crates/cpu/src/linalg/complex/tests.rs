//! Decompositions, multiplied again.

use super::vectors::C;
use super::*;
use crate::isa::Isa;
use crate::linalg::{Svd, Triangle, cholesky, lu, solve_triangular};
use crate::qr::Qr;

/// A matrix of numbers that a seed determines.
fn matrix(rows: usize, columns: usize, seed: u64) -> Vec<C> {
    let part = |i: usize| ((seed as f64 + 1.3) * (i as f64 + 0.7) * 12.9898).sin();
    (0..rows * columns)
        .map(|i| C::new(part(2 * i), part(2 * i + 1)))
        .collect()
}

/// `a b`, where `a` is `[m, k]`.
fn product(m: usize, k: usize, a: &[C], b: &[C]) -> Vec<C> {
    let n = b.len().checked_div(k).unwrap_or(0);
    let at = |i: usize| (0..k).map(|l| a[i / n * k + l] * b[l * n + i % n]).sum();
    (0..m * n).map(at).collect()
}

fn adjoint(rows: usize, a: &[C]) -> Vec<C> {
    let columns = a.len().checked_div(rows).unwrap_or(0);
    (0..a.len())
        .map(|i| a[i % rows * columns + i / rows].conj())
        .collect()
}

fn close(x: &[C], y: &[C]) -> bool {
    x.len() == y.len() && x.iter().zip(y).all(|(x, y)| (x - y).norm() < 1e-10)
}

fn identity(n: usize) -> Vec<C> {
    (0..n * n)
        .map(|i| C::from(f64::from(u8::from(i % (n + 1) == 0))))
        .collect()
}

/// Rows and columns of small matrices.
fn sizes() -> impl Iterator<Item = (usize, usize)> {
    (1..36).map(|i| (1 + i / 6, 1 + i % 6))
}

#[test]
fn factors_give_the_matrix_and_solve_its_systems() {
    let isa = Isa::detect();
    for n in 1..7 {
        for seed in 0..20 {
            let b = matrix(n, n, seed);
            let mut a = product(n, n, &b, &adjoint(n, &b));
            a.iter_mut().step_by(n + 1).for_each(|x| *x += 1.0);
            let mut l = vec![C::ZERO; n * n];
            assert!(cholesky(isa, n, &a, &mut l));
            assert!(close(&product(n, n, &l, &adjoint(n, &l)), &a));
            let mut x = matrix(n, 2, seed + 1);
            let right = x.clone();
            let lower = Triangle {
                n,
                columns: 2,
                lower: true,
                adjoint: false,
                unit: false,
            };
            solve_triangular(isa, lower, &l, &mut x);
            solve_triangular(
                isa,
                Triangle {
                    adjoint: true,
                    ..lower
                },
                &l,
                &mut x,
            );
            assert!(close(&product(n, n, &a, &x), &right));
            let (mut factors, mut rows) = (b.clone(), b.clone());
            lu(isa, n, &mut factors, &mut |i, j| {
                (0..n).for_each(|k| rows.swap(i * n + k, j * n + k))
            });
            let part = |lower: bool| -> Vec<C> {
                (0..n * n)
                    .map(|i| match (i / n).cmp(&(i % n)) {
                        std::cmp::Ordering::Equal if lower => C::from(1.0),
                        std::cmp::Ordering::Greater if !lower => C::ZERO,
                        std::cmp::Ordering::Less if lower => C::ZERO,
                        _ => factors[i],
                    })
                    .collect()
            };
            assert!(close(&product(n, n, &part(true), &part(false)), &rows));
        }
    }
}

#[test]
fn q_is_orthonormal_and_q_r_is_the_matrix() {
    for (m, n) in sizes() {
        for full in [false, true] {
            for seed in 0..20 {
                let a = matrix(m, n, seed);
                let g = Qr {
                    rows: m,
                    columns: n,
                    full,
                };
                let inner = g.inner();
                let (mut q, mut r) = (vec![C::ZERO; m * inner], vec![C::ZERO; inner * n]);
                let mut scratch = vec![C::ZERO; qr_scratch(&g).unwrap()];
                qr(&g, &a, &mut q, &mut r, &mut scratch);
                assert!(close(&product(m, inner, &q, &r), &a));
                assert!(close(
                    &product(inner, m, &adjoint(m, &q), &q),
                    &identity(inner)
                ));
                assert!((0..inner).all(|i| (0..n.min(i)).all(|j| r[i * n + j] == C::ZERO)));
            }
        }
    }
}

#[test]
fn eigenvectors_diagonalize_hermitian_matrices() {
    for n in 1..8 {
        for seed in 0..20 {
            let b = matrix(n, n, seed);
            let a: Vec<C> = b.iter().zip(adjoint(n, &b)).map(|(x, y)| x + y).collect();
            let (mut e, mut v) = (vec![C::ZERO; n], vec![C::ZERO; n * n]);
            let mut scratch = vec![C::ZERO; 2 * n * n];
            assert!(hermitian_eigen(n, &a, &mut e, Some(&mut v), &mut scratch));
            assert!(e.is_sorted_by(|x, y| x.re <= y.re));
            let scaled: Vec<C> = v.iter().enumerate().map(|(i, x)| x * e[i % n]).collect();
            assert!(close(&product(n, n, &a, &v), &scaled));
            assert!(close(&product(n, n, &adjoint(n, &v), &v), &identity(n)));
        }
    }
}

#[test]
fn singular_vectors_are_orthonormal_and_give_the_matrix() {
    for (m, n) in sizes() {
        for (full, rank_one) in [(false, false), (true, false), (false, true), (true, true)] {
            for seed in 0..20 {
                let a = match rank_one {
                    true => product(m, 1, &matrix(m, 1, seed), &matrix(1, n, seed + 1)),
                    false => matrix(m, n, seed),
                };
                let g = Svd {
                    rows: m,
                    columns: n,
                    full,
                    vectors: true,
                };
                let (k, [left, right]) = (g.values(), g.vectors());
                let (mut s, mut u, mut v) = (
                    vec![C::ZERO; k],
                    vec![C::ZERO; m * left],
                    vec![C::ZERO; n * right],
                );
                let mut scratch = vec![C::ZERO; svd_scratch(&g).unwrap()];
                assert!(svd(&g, &a, &mut s, [&mut u, &mut v], &mut scratch));
                assert!(s.is_sorted_by(|x, y| x.re >= y.re));
                assert!(close(
                    &product(left, m, &adjoint(m, &u), &u),
                    &identity(left)
                ));
                assert!(close(
                    &product(right, n, &adjoint(n, &v), &v),
                    &identity(right)
                ));
                let scaled: Vec<C> = (0..m * k)
                    .map(|i| u[i / k * left + i % k] * s[i % k])
                    .collect();
                let first: Vec<C> = (0..n * k).map(|i| v[i / k * right + i % k]).collect();
                assert!(close(&product(m, k, &scaled, &adjoint(n, &first)), &a));
            }
        }
    }
}

#[test]
fn eigenvectors_of_general_matrices_are_scaled_by_their_eigenvalues() {
    for n in 1..8 {
        for seed in 0..20 {
            let a = matrix(n, n, seed);
            let (mut t, mut u) = (a.clone(), vec![C::ZERO; n * n]);
            assert!(schur(n, &mut t, &mut u));
            assert!(close(&product(n, n, &adjoint(n, &u), &u), &identity(n)));
            let back = product(n, n, &product(n, n, &u, &t), &adjoint(n, &u));
            assert!(close(&back, &a));
            let (mut v, mut one) = (vec![C::ZERO; n * n], vec![C::ZERO; n]);
            eigenvectors(n, &t, &u, &mut v, &mut one);
            let scaled: Vec<C> = (0..n * n).map(|i| v[i] * t[i % n * (n + 1)]).collect();
            assert!(close(&product(n, n, &a, &v), &scaled));
        }
    }
}

#[test]
fn a_square_root_times_itself_is_the_matrix_and_a_logarithm_is_twice_that_of_the_root() {
    for n in 1..7 {
        for seed in 0..20 {
            let mut a = matrix(n, n, seed);
            a.iter_mut().step_by(n + 1).for_each(|x| *x += 2.0);
            let of = |function: MatrixFunction, a: &[C]| {
                let (mut x, mut scratch) = (a.to_vec(), vec![C::ZERO; 5 * n * n]);
                assert!(function.apply(n, &mut x, &mut scratch));
                x
            };
            let root = of(MatrixFunction::SquareRoot, &a);
            assert!(close(&product(n, n, &root, &root), &a));
            let half = of(MatrixFunction::Logarithm, &root);
            let twice: Vec<C> = half.iter().map(|x| x * 2.0).collect();
            assert!(close(&of(MatrixFunction::Logarithm, &a), &twice));
            // The exponential, by its series.
            let (mut sum, mut term) = (identity(n), identity(n));
            for i in 1..60 {
                term = product(n, n, &term, &half);
                term.iter_mut().for_each(|x| *x /= f64::from(i));
                sum.iter_mut().zip(&term).for_each(|(sum, x)| *sum += x);
            }
            assert!(close(&sum, &root));
        }
    }
}
