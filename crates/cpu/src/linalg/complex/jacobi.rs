//! Eigenvalues of Hermitian matrices by Jacobi's rotations (Golub and Van Loan, *Matrix Computations*, 8.5).

use super::vectors::{C, MAX_SWEEPS, rotate, rotation, square, two_rows};

/// The eigenvalues of the Hermitian matrix `a` (`[n, n]`), of which the lower triangle is read, from small to large, and the
/// eigenvectors: the columns of `vectors`. `scratch` has `2 * n * n` elements. `false` where `a` has NaNs or infinities, or
/// the sweeps do not converge.
///
/// # Panics
/// If a slice is shorter than that.
pub fn hermitian_eigen(
    n: usize,
    a: &[C],
    values: &mut [C],
    vectors: Option<&mut [C]>,
    scratch: &mut [C],
) -> bool {
    let (work, rows) = scratch.split_at_mut(n * n);
    // Eigenvectors are rows here.
    let rows = &mut rows[..n * n];
    for i in 0..n {
        for j in 0..n {
            work[i * n + j] = match i.cmp(&j) {
                std::cmp::Ordering::Greater => a[i * n + j],
                std::cmp::Ordering::Equal => a[i * n + i].re.into(),
                std::cmp::Ordering::Less => a[j * n + i].conj(),
            };
        }
    }
    rows.fill(C::ZERO);
    rows.iter_mut()
        .step_by(n + 1)
        .for_each(|x| *x = C::from(1.0));
    let size = square(work);
    if !size.is_finite() {
        return false;
    }
    let converged = (0..MAX_SWEEPS).any(|_| sweep(n, work, rows, size));
    for i in 0..n {
        let least = (i..n).min_by(|&x, &y| {
            let [x, y] = [x, y].map(|k| work[k * n + k].re);
            x.total_cmp(&y)
        });
        if let Some(least) = least.filter(|&k| k != i) {
            work.swap(i * n + i, least * n + least);
            let (x, y) = two_rows(rows, n, i, least);
            x.swap_with_slice(y);
        }
        values[i] = work[i * n + i].re.into();
    }
    if let Some(vectors) = vectors {
        (0..n * n).for_each(|at| vectors[at] = rows[at % n * n + at / n]);
    }
    converged
}

/// Rotates each pair of rows and columns once; `true` if nothing is left beside the diagonal.
fn sweep(n: usize, work: &mut [C], rows: &mut [C], size: f64) -> bool {
    let negligible = f64::EPSILON * f64::EPSILON * size;
    let mut rest = 0.0;
    for i in 0..n {
        for j in i + 1..n {
            let element = work[i * n + j];
            rest += element.norm_sqr();
            if element.norm_sqr() <= f64::MIN_POSITIVE {
                continue;
            }
            let turn = rotation(work[i * n + i].re, work[j * n + j].re, element);
            // Columns, and then rows, whose numbers are the conjugates.
            for row in work.chunks_exact_mut(n) {
                let (x, y) = row.split_at_mut(j);
                rotate(&mut x[i..i + 1], &mut y[..1], turn);
            }
            let (cosine, sine, phase) = turn;
            let (x, y) = two_rows(work, n, i, j);
            rotate(x, y, (cosine, sine, phase.conj()));
            let (x, y) = two_rows(rows, n, i, j);
            rotate(x, y, turn);
            (work[i * n + j], work[j * n + i]) = (C::ZERO, C::ZERO);
        }
    }
    rest <= negligible
}
