//! Decompositions, multiplied again, and solutions, put into their equations.

use super::*;
use crate::isa::Isa;

/// Numbers between -1 and 1.
fn random(len: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// `a b`, of `[m, l]` and `[l, n]`.
fn product(a: &[f64], b: &[f64], [m, l, n]: [usize; 3]) -> Vec<f64> {
    let at = |i: usize, j: usize| (0..l).map(|k| a[i * l + k] * b[k * n + j]).sum();
    (0..m * n).map(|i| at(i / n, i % n)).collect()
}

fn transposed(a: &[f64], columns: usize) -> Vec<f64> {
    let rows = a.len().checked_div(columns).unwrap_or(0);
    (0..a.len())
        .map(|i| a[i % rows * columns + i / rows])
        .collect()
}

fn assert_close(found: &[f64], wanted: &[f64], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (found, wanted) in found.iter().zip(wanted) {
        assert!(
            (found - wanted).abs() < 1e-11,
            "{what}: {found} is not {wanted}"
        );
    }
}

fn unit(n: usize) -> Vec<f64> {
    (0..n * n)
        .map(|i| if i / n == i % n { 1.0 } else { 0.0 })
        .collect()
}

#[test]
fn singular_values_and_vectors_give_the_matrix_again() {
    let shapes = [
        (1, 1),
        (2, 2),
        (3, 3),
        (7, 4),
        (4, 7),
        (1, 5),
        (5, 1),
        (40, 33),
        (33, 33),
        (0, 3),
        (3, 0),
    ];
    for (rows, columns) in shapes {
        for full in [false, true] {
            let what = format!("{rows} x {columns}, full {full}");
            let g = Svd {
                rows,
                columns,
                full,
                vectors: true,
            };
            let a = random(rows * columns, 5);
            let [left, right] = g.vectors();
            let (mut s, mut u, mut v) = (
                vec![0.0; g.values()],
                vec![0.0; rows * left],
                vec![0.0; columns * right],
            );
            let mut scratch = vec![f64::NAN; g.scratch().unwrap()];
            assert!(
                svd(
                    Isa::detect(),
                    &g,
                    &a,
                    &mut s,
                    [&mut u, &mut v],
                    &mut scratch
                ),
                "{what}"
            );
            assert!(
                s.is_sorted_by(|a, b| a >= b) && s.iter().all(|&s| s >= 0.0),
                "{what}"
            );
            let mut scaled = vec![0.0; rows * right];
            for i in 0..rows {
                (0..g.values()).for_each(|j| scaled[i * right + j] = u[i * left + j] * s[j]);
            }
            assert_close(
                &product(&scaled, &transposed(&v, right), [rows, right, columns]),
                &a,
                &what,
            );
            for (x, n, m) in [(&u, rows, left), (&v, columns, right)] {
                assert_close(&product(&transposed(x, m), x, [m, n, m]), &unit(m), &what);
            }
            let values = Svd {
                vectors: false,
                ..g
            };
            let mut alone = vec![0.0; g.values()];
            svd(
                Isa::detect(),
                &values,
                &a,
                &mut alone,
                [&mut [], &mut []],
                &mut scratch,
            );
            assert_close(&alone, &s, &what);
        }
    }
}

#[test]
fn eigenvalues_and_eigenvectors_give_the_matrix_again() {
    for n in [0, 1, 2, 3, 5, 33, 64] {
        let half = random(n * n, 6);
        let a: Vec<f64> = half
            .iter()
            .zip(transposed(&half, n))
            .map(|(x, y)| x + y)
            .collect();
        // The upper triangle is not read.
        let mut lower = a.clone();
        for i in 0..n {
            lower[i * n + i + 1..(i + 1) * n].fill(f64::NAN);
        }
        let (mut e, mut v) = (vec![0.0; n], vec![0.0; n * n]);
        let mut scratch = vec![f64::NAN; symmetric_eigen_scratch(n, true).unwrap()];
        let what = format!("{n}");
        assert!(symmetric_eigen(
            Isa::detect(),
            n,
            &lower,
            &mut e,
            Some(&mut v),
            &mut scratch
        ));
        assert!(e.is_sorted());
        let scaled: Vec<f64> = (0..n * n).map(|i| v[i] * e[i % n]).collect();
        assert_close(&product(&scaled, &transposed(&v, n), [n; 3]), &a, &what);
        assert_close(&product(&transposed(&v, n), &v, [n; 3]), &unit(n), &what);
        let mut alone = vec![0.0; n];
        assert!(symmetric_eigen(
            Isa::detect(),
            n,
            &lower,
            &mut alone,
            None,
            &mut scratch
        ));
        assert_close(&alone, &e, &what);
    }
}

#[test]
fn spectra_of_extreme_matrices_end() {
    let isa = Isa::detect();
    for (x, converges) in [
        (f32::NAN, false),
        (f32::INFINITY, false),
        (f32::MAX, true),
        (f32::MIN_POSITIVE / 4.0, true),
        (0.0, true),
    ] {
        for n in [1, 2, 9] {
            let mut a = vec![x; n * n];
            a[n * n - 1] = 1.0 - x;
            a[0] = x;
            let g = Svd {
                rows: n,
                columns: n,
                full: false,
                vectors: true,
            };
            let (mut s, mut u, mut v) = (vec![0.0; n], vec![0.0; n * n], vec![0.0; n * n]);
            let mut scratch = vec![
                0.0;
                g.scratch()
                    .unwrap()
                    .max(symmetric_eigen_scratch(n, true).unwrap())
            ];
            assert_eq!(
                svd(isa, &g, &a, &mut s, [&mut u, &mut v], &mut scratch),
                converges,
                "{x} {n}"
            );
            assert_eq!(
                symmetric_eigen(isa, n, &a, &mut s, Some(&mut v), &mut scratch),
                converges,
                "{x} {n}"
            );
        }
    }
}

#[test]
fn a_cholesky_factor_times_its_transpose_is_the_matrix() {
    for n in [1, 2, 3, 4, 5, 8, 9, 23, 40] {
        let b = random(n * n, n as u64);
        let mut a = product(&b, &transposed(&b, n), [n; 3]);
        (0..n).for_each(|i| a[i * n + i] += 1.0);
        let mut lower = a.clone();
        for i in 0..n {
            // They are not read.
            lower[i * n + i + 1..(i + 1) * n].fill(f64::NAN);
        }
        for isa in Isa::available() {
            let mut l = vec![f64::NAN; n * n];
            assert!(cholesky(isa, n, &lower, &mut l));
            let above = (0..n * n).filter(|at| at % n > at / n);
            assert!(above.map(|at| l[at]).all(|x| x == 0.0));
            let what = format!("{isa:?} {n}");
            assert_close(&product(&l, &transposed(&l, n), [n; 3]), &a, &what);
        }
    }
}

#[test]
fn a_matrix_that_is_not_positive_definite_has_no_cholesky_factor() {
    let mut l = [0.0; 4];
    for a in [
        [1.0, 9.0, 2.0, 1.0],
        [0.0, 0.0, 0.0, 1.0],
        [-1.0, 0.0, 0.0, 1.0],
    ] {
        assert!(!cholesky(Isa::detect(), 2, &a, &mut l), "{a:?}");
    }
    assert!(cholesky(
        Isa::detect(),
        2,
        &[4.0, f64::NAN, 2.0, 2.0],
        &mut l
    ));
    assert_eq!(l, [2.0, 0.0, 1.0, 1.0]);
}

#[test]
fn banded_and_tridiagonal_solutions_fit_their_equations() {
    let (n, columns) = (6, 2);
    let b = random(n * columns, 8);
    for (lower, adjoint) in [(false, false), (false, true), (true, false), (true, true)] {
        let bands: Vec<f64> = random(3 * n, 9).iter().map(|x| x + 3.0).collect();
        let mut a = vec![0.0; n * n];
        for (i, distance) in (0..n).flat_map(|i| (0..3).map(move |d| (i, d))) {
            match lower {
                true if distance <= i => a[i * n + i - distance] = bands[distance * n + i],
                false if i + distance < n => {
                    a[i * n + i + distance] = bands[(2 - distance) * n + i]
                }
                _ => {}
            }
        }
        let t = Triangle {
            n,
            columns,
            lower,
            adjoint,
            unit: false,
        };
        let mut x = b.clone();
        solve_banded(t, 3, &bands, &mut x);
        let a = if adjoint { transposed(&a, n) } else { a };
        assert_close(&product(&a, &x, [n, n, columns]), &b, "banded");
    }
    for how in [
        Elimination::Thomas,
        Elimination::Pivoting,
        Elimination::Perturbed,
    ] {
        let mut d = random(3 * n, 10);
        if how == Elimination::Thomas {
            d[n..2 * n].iter_mut().for_each(|x| *x += 4.0);
        }
        let mut x = b.clone();
        assert!(solve_tridiagonal(
            n,
            columns,
            &d,
            &mut x,
            how,
            &mut vec![f64::NAN; 3 * n]
        ));
        let mut again = vec![0.0; n * columns];
        multiply_tridiagonal(
            n,
            columns,
            [&d[..n], &d[n..2 * n], &d[2 * n..]],
            &x,
            &mut again,
        );
        assert_close(&again, &b, &format!("{how:?}"));
    }
}
