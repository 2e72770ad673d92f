//! TridiagonalSolve, TridiagonalMatMul.

use smallvec::smallvec;
use thalweg_cpu::linalg::{Elimination, multiply_tridiagonal, solve_tridiagonal};
use thalweg_cpu::number::Field;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Gradient, InputGradients, arg, bool_attr};
use thalweg_graph::{GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::{Shape, dispatch};

use super::each_matrix::{EachMatrix, each_matrix, product};
use super::matrices::{DTYPE, joined, matrices, same_batch};
use super::matrix_nodes::adjoint;
use super::solve_shape::expect_rows;
use crate::array::{ArrayOps, Rest, SourceOps};
use crate::support::gradient_nodes::conj;
use crate::support::shape_inputs::invalid_value;

/// Batch and length of the diagonals of input `i`, which must have so many rows.
fn diagonals(cx: &Infer<'_>, i: usize, rows: usize) -> Result<(Shape, Option<usize>), InferError> {
    let (batch, [found, n]) = matrices(cx, i)?;
    match found {
        Some(found) if found != rows => {
            let reason =
                format!("it has {found} rows before the last dimension, and must have {rows}");
            Err(invalid_value(i, reason))
        }
        _ => Ok((batch, n)),
    }
}

fn solve_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    if cx.attrs().bool("perturb_singular") && !cx.attrs().bool("partial_pivoting") {
        return Err(InferError::Attr {
            attr: "perturb_singular",
            reason: "Setting perturb_singular requires also setting partial_pivoting.".to_owned(),
        });
    }
    let ((batch, n), (rhs_batch, rhs)) = (diagonals(cx, 0, 3)?, matrices(cx, 1)?);
    let n = expect_rows(cx, n, rhs[0])?;
    cx.set(0, joined(&same_batch(batch, rhs_batch)?, &[n, rhs[1]]));
    Ok(())
}

fn product_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (mut batch, [mut n, columns]) = matrices(cx, 3)?;
    for i in 0..3 {
        let (own_batch, own) = diagonals(cx, i, 1)?;
        batch = same_batch(batch, own_batch)?;
        if let (Some(n), Some(own)) = (n, own)
            && n != own
        {
            return Err(invalid_value(
                i,
                format!("diagonals of {own} elements for {n} rows"),
            ));
        }
        n = n.or(own);
    }
    cx.set(0, joined(&batch, &[n, columns]));
    Ok(())
}

fn prepare_solve(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let &[.., n, columns] = p.output_dims(0) else {
        return Err(KernelError::Argument("a matrix"));
    };
    let attrs = &p.node.attrs;
    let how = match (
        attrs.bool("partial_pivoting"),
        attrs.bool("perturb_singular"),
    ) {
        (true, true) => Elimination::Perturbed,
        (true, false) => Elimination::Pivoting,
        (false, _) => Elimination::Thomas,
    };
    let form = EachMatrix {
        inputs: [2, 2],
        outputs: [2],
        scratch: n.checked_mul(3),
        work: product(&[n, 4, columns]),
    };
    dispatch!(p.dtype(0), [F32 F64 C64 C128], T => each_matrix::<T, 2, 1>(p, form, move |cx| {
        let ([diagonals, b], [x]) = (cx.inputs, cx.outputs);
        x.copy_from_slice(b);
        // As in TensorFlow, a matrix without an inverse is no error. Its complex NaN is zero.
        if !solve_tridiagonal(n, columns, diagonals, x, how, cx.scratch) {
            x.fill(T::from_real(f64::NAN));
        }
        Ok(())
    }), else Err(KernelError::DType(p.dtype(0))))
}

fn prepare_product(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let &[.., n, columns] = p.output_dims(0) else {
        return Err(KernelError::Argument("a matrix"));
    };
    let form = EachMatrix {
        inputs: [2; 4],
        outputs: [2],
        scratch: Some(0),
        work: product(&[n, 3, columns]),
    };
    dispatch!(p.dtype(0), [F32 F64 C64 C128], T => each_matrix::<T, 4, 1>(p, form, move |cx| {
        let ([above, main, below, x], [out]) = (cx.inputs, cx.outputs);
        multiply_tridiagonal(n, columns, [above, main, below], x, out);
        Ok(())
    }), else Err(KernelError::DType(p.dtype(0))))
}

/// The rows of `x` (`[.., n, k]`) one place up, zeros in the last.
fn up(x: Output<'_>) -> Output<'_> {
    let zeros = x.at((Rest, ..1, ..)).zeros_like();
    x.graph().concat(&[x.at((Rest, 1.., ..)), zeros], -2)
}

/// The rows of `x` (`[.., n, k]`) one place down, zeros in the first.
fn down(x: Output<'_>) -> Output<'_> {
    let zeros = x.at((Rest, ..1, ..)).zeros_like();
    x.graph().concat(&[zeros, x.at((Rest, ..-1, ..))], -2)
}

/// Sums of products of rows, as a row for each matrix: `[.., n, k]` twice gives `[.., 1, n]`.
fn row_products<'g>(x: Output<'g>, y: Output<'g>) -> Output<'g> {
    let axes = x.graph().constant([-1i32]);
    let sum = x.graph().op("Sum").input(x * y).input(axes);
    sum.output().expand_dims(-2)
}

fn solve_gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, diagonals, x) = (g.graph(), g.input(0), g.output(0));
    let row = |i: i32| adjoint(diagonals.at((Rest, i..i + 1, ..)));
    let transposed = [up(row(2)), row(1), down(row(0))].map(adjoint);
    let node = graph
        .op("TridiagonalSolve")
        .input(graph.concat(&transposed, -2));
    let db = node
        .input(g.grad())
        .attr("partial_pivoting", g.attrs().bool("partial_pivoting"))
        .attr("perturb_singular", g.attrs().bool("perturb_singular"))
        .output();
    let rows = [up(x), x, down(x)].map(|x| row_products(db, conj(x)));
    smallvec![Some(-graph.concat(&rows, -2)), Some(db)]
}

fn product_gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (x, dy) = (g.input(3), g.grad());
    let column = |i: usize| adjoint(g.input(i));
    let dx = down(column(0) * dy) + column(1) * dy + up(column(2) * dy);
    let diagonals = [up(x), x, down(x)].map(|x| row_products(conj(x), dy));
    diagonals.into_iter().chain([dx]).map(Some).collect()
}

/// Solutions of tridiagonal systems.
pub(crate) static TRIDIAGONAL_SOLVE: Op = Op {
    def: OpDef {
        name: "TridiagonalSolve",
        summary: "The solutions of systems of linear equations with tridiagonal matrices, whose diagonals are rows.",
        inputs: &[arg("diagonals", "T"), arg("rhs", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[
            bool_attr("partial_pivoting", true),
            bool_attr("perturb_singular", false),
            DTYPE,
        ],
        shape: solve_shape,
        gradient: Gradient::Rule(solve_gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(prepare_solve)],
};

/// Products of tridiagonal matrices.
pub(crate) static TRIDIAGONAL_MAT_MUL: Op = Op {
    def: OpDef {
        name: "TridiagonalMatMul",
        summary: "The products of tridiagonal matrices, by their diagonals, and matrices.",
        inputs: &[
            arg("superdiag", "T"),
            arg("maindiag", "T"),
            arg("subdiag", "T"),
            arg("rhs", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[DTYPE],
        shape: product_shape,
        gradient: Gradient::Rule(product_gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(prepare_product)],
};
