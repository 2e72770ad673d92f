//! The matrices of Winograd's convolution, made from the points at which polynomials are evaluated.
//!
//! `M` outputs of a filter with `R` taps are a product of polynomials, known from its values at `N = M + R - 1` points, of
//! which one is infinity: `y = A' ((G g) * (D x))`, with `G` and `A` the powers of the points (`G` divided by the
//! products of their differences) and `D` the polynomials that are zero at all points but one (S. Winograd, *Arithmetic
//! Complexity of Computations*, 1980; A. Lavin and S. Gray, *Fast Algorithms for Convolutional Neural Networks*, 2016).
//! The points but zero and infinity come in pairs `p, -p`, whose rows share their even and their odd part.

use crate::vector::Vector;

/// Maximum number of points.
pub(super) const MAX_POINTS: usize = 10;

/// A point but infinity, for `N` of them in all. Of pairs of sixteenths that were tried these gave the smallest errors, or
/// nearly: with six points a quarter of those of 1, -1, 2, -2.
const fn point<const N: usize>(i: usize) -> f64 {
    let pairs = match N {
        ..=6 => [0.6875, 1.5, 0.0, 0.0],
        8 => [0.5, 1.0, 2.0, 0.0],
        _ => [0.5, 0.8125, 1.25, 1.875],
    };
    match i {
        0 => 0.0,
        _ if i % 2 == 1 => pairs[i / 2],
        _ => -pairs[i / 2 - 1],
    }
}

/// The power of a point, where `last` is the highest there is: infinity has that one alone.
const fn power<const N: usize>(point: usize, exponent: usize, last: usize) -> f64 {
    if point + 1 == N {
        return if exponent == last { 1.0 } else { 0.0 };
    }
    let (mut value, mut i) = (1.0, 0);
    while i < exponent {
        value *= self::point::<N>(point);
        i += 1;
    }
    value
}

/// The product of the differences of a point and all others.
const fn differences<const N: usize>(point: usize) -> f64 {
    let (mut product, mut other) = (1.0, 0);
    while other + 1 < N && point + 1 < N {
        if other != point {
            product *= self::point::<N>(point) - self::point::<N>(other);
        }
        other += 1;
    }
    product
}

/// `G`: values, at `N` points, of a polynomial with `K` coefficients.
const fn values<const N: usize, const K: usize>() -> [[f32; K]; N] {
    let mut matrix = [[0.0; K]; N];
    let mut point = 0;
    while point < N {
        let mut i = 0;
        while i < K {
            matrix[point][i] = (power::<N>(point, i, K - 1) / differences::<N>(point)) as f32;
            i += 1;
        }
        point += 1;
    }
    matrix
}

/// `A'`: `K` sums over `N` points.
const fn sums<const N: usize, const K: usize>() -> [[f32; N]; K] {
    let mut matrix = [[0.0; N]; K];
    let mut point = 0;
    while point < N {
        let mut i = 0;
        while i < K {
            matrix[i][point] = power::<N>(point, i, K - 1) as f32;
            i += 1;
        }
        point += 1;
    }
    matrix
}

/// `D`: for each point, the coefficients of the polynomial that is zero at all others but infinity.
const fn data<const N: usize>() -> [[f32; N]; N] {
    let mut matrix = [[0.0; N]; N];
    let mut point = 0;
    while point < N {
        let mut polynomial = [0.0; MAX_POINTS];
        polynomial[0] = 1.0;
        let mut other = 0;
        while other + 1 < N {
            if other != point {
                // Times `x - p`.
                let mut i = MAX_POINTS - 1;
                while i > 0 {
                    polynomial[i] = polynomial[i - 1] - self::point::<N>(other) * polynomial[i];
                    i -= 1;
                }
                polynomial[0] *= -self::point::<N>(other);
            }
            other += 1;
        }
        let mut i = 0;
        while i < N {
            matrix[point][i] = polynomial[i] as f32;
            i += 1;
        }
        point += 1;
    }
    matrix
}

/// A matrix times a vector, whose elements are vectors of channels.
pub(super) trait Linear {
    /// Columns of the matrix.
    const IN: usize;
    /// Rows of the matrix.
    const OUT: usize;

    /// # Safety
    /// As [`Vector`].
    unsafe fn apply<V: Vector<Elem = f32>>(x: &[V; MAX_POINTS]) -> [V; MAX_POINTS];
}

/// Of one element, itself.
pub(super) struct IdentityMatrix;

/// `G` for polynomials of `K` coefficients.
pub(super) struct ValueMatrix<const N: usize, const K: usize>;

/// `A'` for `K` sums.
pub(super) struct SumMatrix<const N: usize, const K: usize>;

/// `D`.
pub(super) struct DataMatrix<const N: usize>;

impl Linear for IdentityMatrix {
    const IN: usize = 1;
    const OUT: usize = 1;

    #[inline(always)]
    unsafe fn apply<V: Vector<Elem = f32>>(x: &[V; MAX_POINTS]) -> [V; MAX_POINTS] {
        *x
    }
}

impl<const N: usize, const K: usize> ValueMatrix<N, K> {
    const MATRIX: [[f32; K]; N] = values();
}

impl<const N: usize, const K: usize> Linear for ValueMatrix<N, K> {
    const IN: usize = K;
    const OUT: usize = N;

    #[inline(always)]
    unsafe fn apply<V: Vector<Elem = f32>>(x: &[V; MAX_POINTS]) -> [V; MAX_POINTS] {
        // SAFETY: by the caller's promise.
        unsafe { in_pairs(&Self::MATRIX, x) }
    }
}

impl<const N: usize> DataMatrix<N> {
    const MATRIX: [[f32; N]; N] = data();
}

impl<const N: usize> Linear for DataMatrix<N> {
    const IN: usize = N;
    const OUT: usize = N;

    #[inline(always)]
    unsafe fn apply<V: Vector<Elem = f32>>(x: &[V; MAX_POINTS]) -> [V; MAX_POINTS] {
        // SAFETY: by the caller's promise.
        unsafe { in_pairs(&Self::MATRIX, x) }
    }
}

impl<const N: usize, const K: usize> SumMatrix<N, K> {
    const MATRIX: [[f32; N]; K] = sums();
}

impl<const N: usize, const K: usize> Linear for SumMatrix<N, K> {
    const IN: usize = N;
    const OUT: usize = K;

    #[inline(always)]
    unsafe fn apply<V: Vector<Elem = f32>>(x: &[V; MAX_POINTS]) -> [V; MAX_POINTS] {
        // SAFETY: by the caller's promise.
        unsafe {
            // The even powers of a pair are the same, the odd ones the opposite.
            let (mut even, mut odd) = (*x, *x);
            let mut pair = 1;
            while pair + 1 < N {
                even[pair] = x[pair].add(x[pair + 1]);
                odd[pair] = minus(x[pair], x[pair + 1]);
                pair += 2;
            }
            let mut y = [V::zero(); MAX_POINTS];
            let mut i = 0;
            while i < K {
                let (row, x) = (&Self::MATRIX[i], if i % 2 == 0 { &even } else { &odd });
                let mut sum = None;
                let mut point = 0;
                while point < N {
                    if point == 0 || point % 2 == 1 {
                        sum = plus(sum, row[point], x[point]);
                    }
                    point += 1;
                }
                y[i] = value(sum);
                i += 1;
            }
            y
        }
    }
}

/// The product with a matrix whose rows but the first and the last are pairs: their factors of even elements are the
/// same, and those of odd ones are opposite.
///
/// # Safety
/// As [`Vector`].
#[inline(always)]
unsafe fn in_pairs<V: Vector<Elem = f32>, const N: usize, const K: usize>(
    matrix: &[[f32; K]; N],
    x: &[V; MAX_POINTS],
) -> [V; MAX_POINTS] {
    // SAFETY: by the caller's promise.
    unsafe {
        let mut y = [V::zero(); MAX_POINTS];
        y[0] = both(dot(&matrix[0], x));
        y[N - 1] = both(dot(&matrix[N - 1], x));
        let mut row = 1;
        while row + 1 < N {
            let [even, odd] = dot(&matrix[row], x);
            let (even, odd) = (value(even), value(odd));
            y[row] = even.add(odd);
            y[row + 1] = minus(even, odd);
            row += 2;
        }
        y
    }
}

/// The even and the odd part of a product, from the last element to the first.
///
/// # Safety
/// As [`Vector`].
#[inline(always)]
unsafe fn dot<V: Vector<Elem = f32>, const K: usize>(
    row: &[f32; K],
    x: &[V; MAX_POINTS],
) -> [Option<V>; 2] {
    let mut parts = [None; 2];
    let mut i = K;
    while i > 0 {
        i -= 1;
        // SAFETY: by the caller's promise.
        parts[i % 2] = unsafe { plus(parts[i % 2], row[i], x[i]) };
    }
    parts
}

/// `sum + factor x`, where nothing is zero.
///
/// # Safety
/// As [`Vector`].
#[inline(always)]
unsafe fn plus<V: Vector<Elem = f32>>(sum: Option<V>, factor: f32, x: V) -> Option<V> {
    // SAFETY: by the caller's promise.
    unsafe {
        match sum {
            _ if factor == 0.0 => sum,
            None if factor == 1.0 => Some(x),
            None => Some(x.mul_add(V::splat(factor), V::zero())),
            Some(sum) if factor == 1.0 => Some(sum.add(x)),
            Some(sum) => Some(x.mul_add(V::splat(factor), sum)),
        }
    }
}

/// # Safety
/// As [`Vector`].
#[inline(always)]
unsafe fn both<V: Vector<Elem = f32>>(parts: [Option<V>; 2]) -> V {
    // SAFETY: by the caller's promise.
    unsafe {
        match parts {
            [Some(even), Some(odd)] => even.add(odd),
            [Some(part), None] | [None, Some(part)] => part,
            [None, None] => V::zero(),
        }
    }
}

/// # Safety
/// As [`Vector`].
#[inline(always)]
unsafe fn minus<V: Vector<Elem = f32>>(a: V, b: V) -> V {
    // SAFETY: by the caller's promise.
    unsafe { b.mul_add(V::splat(-1.0), a) }
}

/// # Safety
/// As [`Vector`].
#[inline(always)]
unsafe fn value<V: Vector<Elem = f32>>(sum: Option<V>) -> V {
    match sum {
        Some(sum) => sum,
        // SAFETY: by the caller's promise.
        None => unsafe { V::zero() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_those_of_the_definition() {
        fn check<const N: usize, const M: usize, const R: usize>() {
            let x: [f64; N] = std::array::from_fn(|i| (i * i) as f64 - 3.0);
            let g: [f64; R] = std::array::from_fn(|i| 2.0 - i as f64);
            let dot = |row: &[f32], x: &[f64]| -> f64 {
                row.iter().zip(x).map(|(&a, b)| f64::from(a) * b).sum()
            };
            let product: [f64; N] = std::array::from_fn(|point| {
                dot(&DataMatrix::<N>::MATRIX[point], &x)
                    * dot(&ValueMatrix::<N, R>::MATRIX[point], &g)
            });
            for (i, row) in SumMatrix::<N, M>::MATRIX.iter().enumerate() {
                let expected: f64 = (0..R).map(|tap| x[i + tap] * g[tap]).sum();
                let got = dot(row, &product);
                assert!(
                    (got - expected).abs() < 1e-4,
                    "{N} {M} {R}: {got} {expected}"
                );
            }
        }
        check::<6, 4, 3>();
        check::<6, 3, 4>();
        check::<10, 4, 7>();
        check::<8, 4, 5>();
        check::<8, 5, 4>();
        check::<10, 7, 4>();
    }
}
