//! QR decompositions: a matrix as the product of one with orthonormal columns and an upper triangular one, by
//! Householder's reflections (Golub and Van Loan, *Matrix Computations*, 5.2). The signs are those of LAPACK's `geqrf`:
//! an element on the diagonal of R is negative where the column was positive before its reflection.
//!
//! ```
//! use thalweg_cpu::Isa;
//! use thalweg_cpu::qr::{Qr, qr};
//!
//! let g = Qr { rows: 2, columns: 2, full: false };
//! let (mut q, mut r) = ([0.0f32; 4], [0.0; 4]);
//! let mut scratch = vec![0.0; g.scratch().unwrap()];
//! qr(Isa::detect(), &g, &[3.0, 5.0, 4.0, 0.0], &mut q, &mut r, &mut scratch);
//! for (found, wanted) in r.iter().zip([-5.0, -3.0, 0.0, -4.0]) {
//!     assert!((found - wanted).abs() < 1e-5);
//! }
//! ```

use crate::Vectorize;
use crate::isa::Isa;
use crate::number::Wide;

/// The shape of a decomposition.
#[derive(Clone, Copy, Debug)]
pub struct Qr {
    /// Its rows.
    pub rows: usize,
    /// Its columns.
    pub columns: usize,
    /// `true` if Q is square: otherwise it has no more columns than the matrix.
    pub full: bool,
}

impl Qr {
    /// The columns of Q, which are the rows of R.
    pub fn inner(&self) -> usize {
        match self.full {
            true => self.rows,
            false => self.reflections(),
        }
    }

    fn reflections(&self) -> usize {
        self.rows.min(self.columns)
    }

    /// Elements of scratch memory: the matrix, a reflection, a row of products, and a factor for each reflection. `None`
    /// where they cannot be counted.
    pub fn scratch(&self) -> Option<usize> {
        let matrix = self.rows.checked_mul(self.columns)?;
        let widest = self.columns.max(self.inner());
        [self.rows, widest, self.reflections()]
            .into_iter()
            .try_fold(matrix, |sum, n| sum.checked_add(n))
    }
}

/// The decomposition of `a` (`[rows, columns]`) into `q` (`[rows, inner]`) and `r` (`[inner, columns]`).
///
/// # Panics
/// If a slice is not as long as `g` says.
pub fn qr<T: Wide>(isa: Isa, g: &Qr, a: &[T], q: &mut [T], r: &mut [T], scratch: &mut [T]) {
    let (m, n, inner) = (g.rows, g.columns, g.inner());
    let (factors, rest) = scratch.split_at_mut(m * n);
    let (reflection, rest) = rest.split_at_mut(m);
    let (products, taus) = rest.split_at_mut(n.max(inner));
    factors.copy_from_slice(&a[..m * n]);
    for (k, tau) in taus.iter_mut().enumerate().take(g.reflections()) {
        *tau = reflect_column(isa, factors, n, k, reflection, products);
    }
    q[..m * inner].fill(T::ZERO);
    (0..m.min(inner)).for_each(|i| q[i * inner + i] = T::ONE);
    for k in (0..g.reflections()).rev() {
        Column(&mut factors[k * n..], n, k).copy_to(&mut reflection[k..]);
        // The columns before have zeros in these rows.
        let matrix = Matrix(&mut q[k * inner..], inner, k);
        isa.run(Reflect(matrix, &reflection[k..], taus[k], products));
    }
    r[..inner * n].fill(T::ZERO);
    for i in 0..g.reflections() {
        r[i * n + i..(i + 1) * n].copy_from_slice(&factors[i * n + i..(i + 1) * n]);
    }
}

/// Reduces a matrix of `columns` columns to its triangular factor, where it lies: R fills its first rows, with zeros below
/// its diagonal. `scratch` has an element for each row and each column.
///
/// # Panics
/// If the scratch is too small.
pub fn triangular_factor<T: Wide>(isa: Isa, columns: usize, a: &mut [T], scratch: &mut [T]) {
    let rows = a.len() / columns.max(1);
    let (reflection, products) = scratch.split_at_mut(rows);
    let products = &mut products[..columns];
    for k in 0..rows.min(columns) {
        reflect_column(isa, a, columns, k, reflection, products);
    }
    for (i, row) in a.chunks_exact_mut(columns.max(1)).enumerate() {
        row[..i.min(columns)].fill(T::ZERO);
    }
}

/// Reflects column `k` onto the diagonal, and the columns behind it. The reflection stays below the diagonal; returns its
/// factor.
fn reflect_column<T: Wide>(
    isa: Isa,
    factors: &mut [T],
    n: usize,
    k: usize,
    reflection: &mut [T],
    products: &mut [T],
) -> T {
    let mut column = Column(&mut factors[k * n..], n, k);
    let tau = column.reflection();
    column.copy_to(&mut reflection[k..]);
    let matrix = Matrix(&mut factors[k * n..], n, k + 1);
    isa.run(Reflect(matrix, &reflection[k..], tau, products));
    tau
}

/// A column of a matrix: the rows, their length, and which column.
struct Column<'a, T>(&'a mut [T], usize, usize);

impl<T: Wide> Column<'_, T> {
    fn elements(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().skip(self.2).step_by(self.1)
    }

    /// Puts the length of the column, with its sign, into its first element, and the reflection that takes the column
    /// there into the others. That is `1 - tau v v'`, where `v` begins with 1. Gives `tau`.
    fn reflection(&mut self) -> T {
        let mut largest = T::ZERO;
        let mut zero = true;
        for (i, x) in self.elements().enumerate() {
            zero &= i == 0 || *x == T::ZERO;
            if Wide::abs(*x) > largest {
                largest = Wide::abs(*x);
            }
        }
        if zero {
            return T::ZERO;
        }
        // Squares of numbers of at most 1 do not overflow.
        let mut squares = T::ZERO;
        for x in self.elements() {
            let part = *x / largest;
            squares = squares + part * part;
        }
        let length = largest * squares.sqrt();
        let first = self.elements().next().map_or(T::ZERO, |x| *x);
        let end = match first >= T::ZERO {
            true => -length,
            false => length,
        };
        for (i, x) in self.elements().enumerate() {
            *x = match i {
                0 => end,
                _ => *x / (first - end),
            };
        }
        (end - first) / end
    }

    /// The reflection, with the 1 that it begins with.
    fn copy_to(&mut self, to: &mut [T]) {
        for (to, x) in to.iter_mut().zip(self.elements()) {
            *to = *x;
        }
        if let Some(first) = to.first_mut() {
            *first = T::ONE;
        }
    }
}

/// Columns of a matrix, from one on: the rows, their length, and the first column.
struct Matrix<'a, T>(&'a mut [T], usize, usize);

impl<T> Matrix<'_, T> {
    #[inline(always)]
    fn rows(&mut self) -> impl Iterator<Item = &mut [T]> {
        let from = self.2;
        let rows = self.0.chunks_exact_mut(self.1.max(1));
        rows.map(move |row| &mut row[from..])
    }
}

/// `matrix - tau v (v' matrix)`, row by row; the products `v' matrix` have their own room.
struct Reflect<'a, T>(Matrix<'a, T>, &'a [T], T, &'a mut [T]);

impl<T: Wide> Vectorize for Reflect<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Reflect(mut matrix, v, tau, products) = self;
        if tau == T::ZERO {
            return;
        }
        products.fill(T::ZERO);
        for (row, v) in matrix.rows().zip(v) {
            for (product, x) in products.iter_mut().zip(row) {
                *product = *product + *v * *x;
            }
        }
        for (row, v) in matrix.rows().zip(v) {
            let factor = tau * *v;
            for (product, x) in products.iter().zip(row) {
                *x = *x - factor * *product;
            }
        }
    }
}
