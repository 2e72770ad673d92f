//! Nodes on matrices that gradient rules add.

use thalweg_graph::Output;
use thalweg_tensor::DType;

use super::build::LinalgOps;
use crate::array::{ArrayOps, Rest};
use crate::support::constants::ints;
use crate::support::gradient_nodes::{conj, int_scalar};

/// The matrices, transposed; of complex numbers, their conjugates.
pub(super) fn adjoint(x: Output<'_>) -> Output<'_> {
    let graph = x.graph();
    match x.shape().rank().and_then(|rank| i32::try_from(rank).ok()) {
        Some(rank) if rank >= 2 => {
            let mut axes: Vec<i32> = (0..rank).collect();
            axes.swap(rank as usize - 2, rank as usize - 1);
            conj(x).transpose(ints(graph, &axes))
        }
        _ => {
            let node = graph.op("Einsum").inputs([conj(x)]);
            node.attr("equation", "...ij->...ji").output()
        }
    }
}

/// `a b`, with either side transposed first.
pub(super) fn product<'g>(
    a: Output<'g>,
    adjoint_a: bool,
    b: Output<'g>,
    adjoint_b: bool,
) -> Output<'g> {
    a.batch_matmul_t(b, adjoint_a, adjoint_b)
}

/// So many diagonals below and above the main one; all of them for -1.
pub(super) fn band_part(x: Output<'_>, lower: i64, upper: i64) -> Output<'_> {
    let count = |n| int_scalar(x.graph(), DType::I64, n);
    let node = x.graph().op("MatrixBandPart").input(x);
    node.input(count(lower)).input(count(upper)).output()
}

/// The main diagonals.
pub(super) fn diag_part(x: Output<'_>) -> Output<'_> {
    x.graph().op("MatrixDiagPart").input(x).output()
}

/// Matrices with these main diagonals, zero elsewhere.
pub(super) fn diag(x: Output<'_>) -> Output<'_> {
    x.graph().op("MatrixDiag").input(x).output()
}

/// The same with other main diagonals.
pub(super) fn set_diag<'g>(x: Output<'g>, diagonal: Output<'g>) -> Output<'g> {
    let node = x.graph().op("MatrixSetDiag").input(x);
    node.input(diagonal).output()
}

/// Columns `from..to` of the matrices.
pub(super) fn columns(x: Output<'_>, from: usize, to: usize) -> Output<'_> {
    x.at((Rest, .., from..to))
}

/// `1 / (x_j - x_i)` for each pair of elements of the rows of `x`, zero on the diagonal. Equal elements give about zero, as
/// in TensorFlow.
pub(super) fn inverse_differences(x: Output<'_>) -> Output<'_> {
    let differences = x.expand_dims(-2) - x.expand_dims(-1);
    set_diag(safe_reciprocal(differences), x.zeros_like())
}

/// `x / (x * x + 1e-20)`: `1 / x`, and zero at zero.
pub(super) fn safe_reciprocal(x: Output<'_>) -> Output<'_> {
    let node = x.graph().op("Reciprocal").input(x * x + 1e-20);
    x * node.output()
}
