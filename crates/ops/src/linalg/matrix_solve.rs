//! MatrixSolve, MatrixInverse, and their older names.

use smallvec::smallvec;
use thalweg_cpu::isa::Isa;
use thalweg_cpu::linalg::{Triangle, lu, solve_triangular};
use thalweg_cpu::number::{Arithmetic, Field};
use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Gradient, InputGradients, arg, bool_attr, type_attr};
use thalweg_graph::{GradCx, OpDef, Output};
use thalweg_tensor::{DType, dispatch};

use super::each_matrix::{EachMatrix, each_matrix, product};
use super::matrices::{DTYPE, unchanged_squares};
use super::matrix_nodes::product as matmul;
use super::solve_shape::square_systems;
use crate::support::widened::widened;

/// Replaces the right-hand sides `x` (`[n, columns]`) by the solutions for `a` (`[n, n]`), or for its transpose, of complex
/// numbers that of the conjugates. `false`
/// where that has no inverse.
fn solve<T: Field>(
    isa: Isa,
    [n, columns]: [usize; 2],
    adjoint: bool,
    a: &[T],
    x: &mut [T],
    factors: &mut [T],
) -> bool {
    match adjoint {
        true => (0..n * n).for_each(|i| factors[i] = a[i % n * n + i / n].conj()),
        false => factors.copy_from_slice(a),
    }
    lu(isa, n, factors, &mut |i, j| {
        let (above, below) = x.split_at_mut(j * columns);
        above[i * columns..][..columns].swap_with_slice(&mut below[..columns]);
    });
    if factors.iter().step_by(n + 1).any(|&pivot| pivot == T::ZERO) {
        return false;
    }
    let lower = Triangle {
        n,
        columns,
        lower: true,
        adjoint: false,
        unit: true,
    };
    solve_triangular(isa, lower, factors, x);
    let upper = Triangle {
        lower: false,
        unit: false,
        ..lower
    };
    solve_triangular(isa, upper, factors, x);
    true
}

fn prepare_solve(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let &[.., n, columns] = p.output_dims(0) else {
        return Err(KernelError::Argument("a matrix"));
    };
    let adjoint = p.node.attrs.bool("adjoint");
    let form = EachMatrix {
        inputs: [2, 2],
        outputs: [2],
        scratch: n.checked_mul(n),
        work: product(&[n, n, n]) + product(&[n, n, columns]),
    };
    dispatch!(p.dtype(0), [F32 F64 C64 C128], T => each_matrix::<T, 2, 1>(p, form, move |cx| {
        let ([a, b], [x]) = (cx.inputs, cx.outputs);
        x.copy_from_slice(b);
        // Without right-hand sides nothing is solved, so that nothing can be wrong.
        let solved = columns == 0 || solve(cx.isa, [n, columns], adjoint, a, x, cx.scratch);
        solved.then_some(()).ok_or("Input matrix is not invertible.")
    }), else Err(KernelError::DType(p.dtype(0))))
}

fn prepare_inverse(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let n = p.dims(0).last().copied().unwrap_or(0);
    let adjoint = p.node.attrs.bool("adjoint");
    let form = EachMatrix {
        inputs: [2],
        outputs: [2],
        scratch: n.checked_mul(n),
        work: product(&[n, n, n]).saturating_mul(2),
    };
    dispatch!(p.dtype(0), [F32 F64 C64 C128], T => each_matrix::<T, 1, 1>(p, form, move |cx| {
        let ([a], [x]) = (cx.inputs, cx.outputs);
        x.fill(T::ZERO);
        x.iter_mut().step_by(n + 1).for_each(|x| *x = T::ONE);
        let solved = solve(cx.isa, [n, n], adjoint, a, x, cx.scratch);
        solved.then_some(()).ok_or("Input is not invertible.")
    }), else Err(KernelError::DType(p.dtype(0))))
}

fn solve_gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (a, x, adjoint) = (g.input(0), g.output(0), g.attrs().bool("adjoint"));
    let node = g.graph().op("MatrixSolve").input(a).input(g.grad());
    let db = node.attr("adjoint", !adjoint).output();
    let da = match adjoint {
        true => matmul(x, false, db, true),
        false => matmul(db, false, x, true),
    };
    smallvec![Some(-da), Some(db)]
}

fn inverse_gradient<'g>(g: &GradCx<'_, 'g>) -> Output<'g> {
    let (x, adjoint) = (g.output(0), g.attrs().bool("adjoint"));
    let right = matmul(g.grad(), adjoint, x, !adjoint);
    -matmul(x, !adjoint, right, false)
}

const SOLVE: OpDef = OpDef {
    name: "MatrixSolve",
    summary: "The solutions of systems of linear equations with square matrices, or with their transposes.",
    inputs: &[arg("matrix", "T"), arg("rhs", "T")],
    outputs: &[arg("output", "T")],
    attrs: &[bool_attr("adjoint", false), DTYPE],
    shape: square_systems,
    gradient: Gradient::Rule(solve_gradient),
    ..OpDef::EMPTY
};

const INVERSE: OpDef = OpDef {
    name: "MatrixInverse",
    summary: "The inverses of square matrices, or of their transposes.",
    inputs: &[arg("input", "T")],
    outputs: &[arg("output", "T")],
    attrs: &[
        bool_attr("adjoint", false),
        type_attr(
            "T",
            &[DType::F16, DType::F32, DType::F64, DType::C64, DType::C128],
        ),
    ],
    shape: unchanged_squares,
    gradient: Gradient::Rule(|g| smallvec![Some(inverse_gradient(g))]),
    ..OpDef::EMPTY
};

const SOLVE_KERNELS: &[Kernel] = &[cpu(prepare_solve)];
const INVERSE_KERNELS: &[Kernel] = &[cpu(|p| widened(p, &[0], &[0], &prepare_inverse))];

/// Solutions of systems of linear equations.
pub(crate) static MATRIX_SOLVE: Op = Op {
    def: SOLVE,
    kernels: SOLVE_KERNELS,
};

/// Inverses.
pub(crate) static MATRIX_INVERSE: Op = Op {
    def: INVERSE,
    kernels: INVERSE_KERNELS,
};

/// The older name of [`MATRIX_SOLVE`].
pub(crate) static BATCH_MATRIX_SOLVE: Op = Op {
    def: OpDef {
        name: "BatchMatrixSolve",
        ..SOLVE
    },
    kernels: SOLVE_KERNELS,
};

/// The older name of [`MATRIX_INVERSE`].
pub(crate) static BATCH_MATRIX_INVERSE: Op = Op {
    def: OpDef {
        name: "BatchMatrixInverse",
        ..INVERSE
    },
    kernels: INVERSE_KERNELS,
};
