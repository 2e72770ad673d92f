//! Shapes of systems of linear equations.

use thalweg_cpu::linalg::Triangle;
use thalweg_device::{KernelError, Prepare};
use thalweg_graph::{Infer, InferError};

use super::matrices::{joined, matrices, same_batch, square};

/// The rows that a matrix of `n` columns and a right-hand side of so many rows share.
pub(super) fn expect_rows(
    cx: &Infer<'_>,
    n: Option<usize>,
    rows: Option<usize>,
) -> Result<Option<usize>, InferError> {
    match (n, rows) {
        (Some(n), Some(rows)) if n != rows => Err(InferError::Mismatch {
            what: format!("the right-hand sides have {rows} rows, and the matrices {n}"),
            left: cx.shape(0).clone(),
            right: cx.shape(1).clone(),
        }),
        _ => Ok(n.or(rows)),
    }
}

/// Square matrices `[.., n, n]` and right-hand sides `[.., n, k]` of the same batch give `[.., n, k]`.
pub(super) fn square_systems(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let ((batch, n), (rhs_batch, rhs)) = (square(cx, 0)?, matrices(cx, 1)?);
    let n = expect_rows(cx, n, rhs[0])?;
    let batch = same_batch(batch, rhs_batch)?;
    cx.set(0, joined(&batch, &[n, rhs[1]]));
    Ok(())
}

/// The triangular matrices of a node, by its attributes `lower` and `adjoint`, and the right-hand sides, which have the shape
/// of its output.
pub(super) fn triangle_of(p: &Prepare<'_>) -> Result<Triangle, KernelError> {
    let &[.., n, columns] = p.output_dims(0) else {
        return Err(KernelError::Argument("a matrix"));
    };
    let attrs = &p.node.attrs;
    Ok(Triangle {
        n,
        columns,
        lower: attrs.bool("lower"),
        adjoint: attrs.bool("adjoint"),
        unit: false,
    })
}
