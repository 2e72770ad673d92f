//! MatrixSolveLs, BatchMatrixSolveLs: least squares.

use smallvec::smallvec;
use thalweg_cpu::linalg::{Svd, Triangle, cholesky, solve_triangular, svd};
use thalweg_cpu::number::{Number, Wide};
use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::error::Reason;
use thalweg_graph::op::{Gradient, InputGradients, arg, arg_of, bool_attr};
use thalweg_graph::{GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::{DType, dispatch};

use super::build::LinalgOps;
use super::each_matrix::{EachMatrix, MatrixCx, each_matrix, product};
use super::matrices::{REAL, checked_join, matrices, same_batch};
use super::matrix_nodes::{adjoint, diag_part, product as matmul, set_diag};
use super::solve_shape::expect_rows;
use crate::array::ArrayOps;

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    cx.ranked(2, 0)?;
    let ((batch, [m, n]), (rhs_batch, rhs)) = (matrices(cx, 0)?, matrices(cx, 1)?);
    expect_rows(cx, m, rhs[0])?;
    let batch = same_batch(batch, rhs_batch)?;
    cx.set(0, checked_join(&batch, &[n, rhs[1]])?);
    Ok(())
}

/// Rows, columns, and columns of the right-hand sides.
#[derive(Clone, Copy)]
struct Size {
    m: usize,
    n: usize,
    k: usize,
}

impl Size {
    fn svd(&self) -> Svd {
        Svd {
            rows: self.m,
            columns: self.n,
            full: false,
            vectors: true,
        }
    }

    /// Scratch of [`fast`]: the Gramian and its factor, and solutions where there are fewer rows than columns.
    fn fast_scratch(&self) -> Option<usize> {
        let r = self.m.min(self.n);
        r.checked_mul(r)?
            .checked_mul(2)?
            .checked_add(r.checked_mul(self.k)?)
    }

    /// Scratch of [`accurate`]: values, vectors, and a right-hand side in their terms.
    fn accurate_scratch(&self) -> Option<usize> {
        let r = self.m.min(self.n);
        let vectors = self.m.checked_add(self.n)?.checked_add(2)?.checked_mul(r)?;
        vectors.checked_add(self.svd().scratch()?)
    }
}

/// Solves the normal equations, of the first kind where there are at least as many rows as columns, otherwise of the second.
fn fast<T: Wide>(g: Size, lambda: T, cx: MatrixCx<'_, T, 2, 1>) -> bool {
    let Size { m, n, k } = g;
    let r = m.min(n);
    let ([a, b], [x]) = (cx.inputs, cx.outputs);
    let (gramian, rest) = cx.scratch.split_at_mut(r * r);
    let (factor, rest) = rest.split_at_mut(r * r);
    let at = |i: usize, j: usize| if m >= n { a[j * n + i] } else { a[i * n + j] };
    for i in 0..r {
        for j in 0..=i {
            gramian[i * r + j] = (0..m.max(n)).fold(T::ZERO, |sum, l| sum + at(i, l) * at(j, l));
        }
        gramian[i * r + i] = gramian[i * r + i] + lambda;
    }
    if !cholesky(cx.isa, r, gramian, factor) {
        return false;
    }
    let lower = Triangle {
        n: r,
        columns: k,
        lower: true,
        adjoint: false,
        unit: false,
    };
    let upper = Triangle {
        adjoint: true,
        ..lower
    };
    let solved = match m >= n {
        true => {
            multiply(a, true, [n, m, k], b, x);
            &mut *x
        }
        false => {
            rest[..r * k].copy_from_slice(b);
            &mut rest[..r * k]
        }
    };
    solve_triangular(cx.isa, lower, factor, solved);
    solve_triangular(cx.isa, upper, factor, solved);
    if m < n {
        multiply(a, true, [n, m, k], &rest[..r * k], x);
    }
    true
}

/// `c = a b` with matrices `[m, l]` and `[l, k]`; `transposed` where `a` is `[l, m]`.
fn multiply<T: Wide>(a: &[T], transposed: bool, [m, l, k]: [usize; 3], b: &[T], c: &mut [T]) {
    c.fill(T::ZERO);
    if k == 0 {
        return;
    }
    for (i, row) in c.chunks_exact_mut(k).enumerate() {
        for (j, b) in b.chunks_exact(k).enumerate() {
            let factor = if transposed {
                a[j * m + i]
            } else {
                a[i * l + j]
            };
            for (c, b) in row.iter_mut().zip(b) {
                *c = *c + factor * *b;
            }
        }
    }
}

/// The solution of least length, by singular values; those that are zero but for rounding are left out.
/// Matrices with NaNs and infinities give `nan`.
fn accurate<T: Wide>(g: Size, nan: T, cx: MatrixCx<'_, T, 2, 1>) {
    let Size { m, n, k } = g;
    let r = m.min(n);
    let ([a, b], [x]) = (cx.inputs, cx.outputs);
    let (s, rest) = cx.scratch.split_at_mut(r);
    let (u, rest) = rest.split_at_mut(m * r);
    let (v, rest) = rest.split_at_mut(n * r);
    let (turned, rest) = rest.split_at_mut(r);
    if !svd(cx.isa, &g.svd(), a, s, [&mut *u, &mut *v], rest) {
        return x.fill(nan);
    }
    let least = s
        .first()
        .map_or(T::ZERO, |&s| s * T::EPSILON * T::from_f64(r as f64));
    x.fill(T::ZERO);
    for column in 0..k {
        for (i, turned) in turned.iter_mut().enumerate() {
            let sum = (0..m).fold(T::ZERO, |sum, j| sum + u[j * r + i] * b[j * k + column]);
            *turned = if s[i] > least { sum / s[i] } else { T::ZERO };
        }
        for i in 0..n {
            x[i * k + column] = (0..r).fold(T::ZERO, |sum, j| sum + v[i * r + j] * turned[j]);
        }
    }
}

fn prepare(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let (&[.., m, n], &[.., k]) = (p.dims(0), p.dims(1)) else {
        return Err(KernelError::Argument("a matrix"));
    };
    let g = Size { m, n, k };
    let lambda = p.value(2)?.to_scalar::<f64>()?;
    if lambda < 0.0 {
        return Err(KernelError::Invalid(format!(
            "l2_regularizer must be >= 0, and is {lambda}"
        )));
    }
    let (is_fast, dtype) = (p.node.attrs.bool("fast"), p.dtype(0));
    let form = EachMatrix {
        inputs: [2, 2],
        outputs: [2],
        scratch: if is_fast {
            g.fast_scratch()
        } else {
            g.accurate_scratch()
        },
        work: product(&[m, n, m.min(n) + k]).saturating_mul(if is_fast { 1 } else { 20 }),
    };
    dispatch!(dtype, [F32 F64], T => {
        let lambda = T::from_f64(lambda);
        each_matrix::<T, 2, 1>(p, form, move |cx| {
            if m == 0 || n == 0 || k == 0 {
                cx.outputs.into_iter().for_each(|x| x.fill(0.0));
            } else if !is_fast {
                accurate(g, T::NAN, cx);
            } else if !fast(g, lambda, cx) {
                return Err(ERROR);
            }
            Ok(())
        })
    }, else Err(KernelError::DType(dtype)))
}

/// Gradients of the normal equations: the accurate form has none, as in TensorFlow.
fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (a, b, x, dx) = (g.input(0), g.input(1), g.output(0), g.grad());
    let shape = a.shape();
    let (true, Some(&[.., Some(m), Some(n)])) = (g.attrs().bool("fast"), shape.dims()) else {
        let text = "the gradient of MatrixSolveLs needs fast = true, and matrices whose dimensions are known when the graph \
                    is built";
        let reason = Reason::Argument(text.to_owned());
        let invalid = g.graph().fail(&x.name(), "MatrixSolveLs", reason);
        return smallvec![Some(invalid), Some(invalid)];
    };
    let first_kind = m >= n;
    let gramian = matmul(a, first_kind, a, !first_kind);
    let lambda = g.input(2).cast(a.dtype());
    let l = set_diag(gramian, diag_part(gramian) + lambda).cholesky();
    let solve = |rhs: Output<'g>| {
        let half = l.triangular_solve(rhs, true);
        l.triangular_solve_t(half, true, true)
    };
    if first_kind {
        let z = solve(dx);
        let both = matmul(x, false, z, true);
        let da = matmul(b, false, z, true) - matmul(a, false, both + adjoint(both), false);
        return smallvec![Some(da), Some(matmul(a, false, z, false))];
    }
    let (db, multipliers) = (solve(matmul(a, false, dx, false)), solve(b));
    let within = matmul(db, false, matmul(multipliers, true, a, false), false);
    let beside = dx - matmul(a, true, db, false);
    let da = matmul(multipliers, false, beside, true) - within;
    smallvec![Some(da), Some(db)]
}

const ERROR: &str = "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide a larger \
                     l2_regularizer > 0.";

const DEF: OpDef = OpDef {
    name: "MatrixSolveLs",
    summary: "The solutions of systems of linear equations in the sense of least squares, with a regularizer.",
    inputs: &[
        arg("matrix", "T"),
        arg("rhs", "T"),
        arg_of("l2_regularizer", DType::F64).host(),
    ],
    outputs: &[arg("output", "T")],
    attrs: &[REAL, bool_attr("fast", true)],
    shape,
    gradient: Gradient::Rule(gradient),
    ..OpDef::EMPTY
};

const KERNELS: &[Kernel] = &[cpu(prepare)];

/// Least squares.
pub(crate) static MATRIX_SOLVE_LS: Op = Op {
    def: DEF,
    kernels: KERNELS,
};

/// The older name of [`MATRIX_SOLVE_LS`].
pub(crate) static BATCH_MATRIX_SOLVE_LS: Op = Op {
    def: OpDef {
        name: "BatchMatrixSolveLs",
        ..DEF
    },
    kernels: KERNELS,
};
