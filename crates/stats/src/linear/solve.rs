//! Nodes that solve a regression from the products of its columns, or from their triangular factor.

use thalweg_graph::{Graph, Output};
use thalweg_ops::{ArrayOps, LinalgOps, MathOps, ReduceOps, SourceOps};

use crate::passes::Columns;

/// The solution of normal equations.
pub(super) struct NormalSolution<'g> {
    /// Smallest and largest eigenvalue of the equations, with columns scaled to length 1: `[2]`.
    pub eigenvalues: Output<'g>,
    /// `[p, k]`.
    pub coefficients: Output<'g>,
}

/// Products of the features and targets: less their means where there is an intercept.
fn centred<'g>(gram: Output<'g>, intercept: bool) -> Output<'g> {
    let products = gram.at((1.., 1..));
    match intercept {
        false => products,
        true => {
            let sums = gram.at((0..1, 1..));
            products - sums.matmul_t(sums, true, false) / gram.at((0..1, 0..1))
        }
    }
}

/// Solves `(X'X + ridge I) b = X'Y` by Cholesky, from the products of all columns `[1 + p + k, 1 + p + k]`.
pub(super) fn normal_equations<'g>(
    gram: Output<'g>,
    columns: Columns,
    (intercept, ridge): (bool, f64),
) -> NormalSolution<'g> {
    let g = gram.graph();
    let p = columns.x as i64;
    let all = centred(gram, intercept);
    let (x, y) = (all.at((..p, ..p)), all.at((..p, p..)));
    let x = x + diagonal(g, columns.x, ridge);
    // Columns of length 1: their condition is that of the columns' directions, whatever their units.
    let lengths = g.op("DiagPart").input(x).output().sqrt();
    let scale = g.constant(1.0f64).div_no_nan(lengths);
    let (row, column) = (scale.expand_dims(0), scale.expand_dims(1));
    let equations = x * row * column;
    let eigen = g
        .op("SelfAdjointEigV2")
        .input(equations)
        .attr("compute_v", false)
        .build();
    let eigen = eigen.output(0);
    let ends = [eigen.reduce_min(&[0], false), eigen.reduce_max(&[0], false)];
    let ends = ends.map(|end| end.reshape([1]));
    let factor = g.op("Cholesky").input(equations).output();
    let half = triangular(factor, y * column, false);
    NormalSolution {
        eigenvalues: g.concat(&ends, 0),
        coefficients: triangular(factor, half, true) * column,
    }
}

/// A solution of a regression by singular values.
pub(super) struct FactorSolution<'g> {
    /// Singular values of the features, `[p]`, from large to small.
    pub singular: Output<'g>,
    /// `[p, k]`.
    pub coefficients: Output<'g>,
}

/// Solves a regression by the singular values of the features, from the triangular factor of all columns
/// `[1 + p + k, 1 + p + k]`. Singular values of at most `tolerance` times the largest are zeros. Returns the solution of
/// columns that are scaled to the same length, which is exact whatever their units; and the one of columns as they are, which
/// is the shortest where columns depend on each other.
pub(super) fn triangular_equations<'g>(
    r: Output<'g>,
    columns: Columns,
    (intercept, ridge): (bool, f64),
    tolerance: f64,
) -> [FactorSolution<'g>; 2] {
    let g = r.graph();
    let (p, width) = (columns.x as i64, columns.x + columns.y);
    let own = match intercept {
        // Below the row of ones, rows are less their mean.
        true => r.at((1.., 1..)),
        false => r.at((.., 1..)),
    };
    let penalty = [
        diagonal(g, columns.x, ridge.sqrt()),
        zeros(g, &[columns.x, width - columns.x]),
    ];
    let rows = g.concat(&[own, g.concat(&penalty, 1)], 0);
    let [_, r] = rows.qr();
    let (x, y) = (r.at((.., ..p)), r.at((.., p..)));
    let lengths = x.square().reduce_sum(&[0], false).sqrt();
    let scale = g.constant(1.0f64).div_no_nan(lengths);
    let scaled = by_singular_values(x * scale.expand_dims(0), y, tolerance);
    [
        FactorSolution {
            coefficients: scaled.coefficients * scale.expand_dims(1),
            ..scaled
        },
        by_singular_values(x, y, tolerance),
    ]
}

/// The shortest solution of `x b = y`.
fn by_singular_values<'g>(x: Output<'g>, y: Output<'g>, tolerance: f64) -> FactorSolution<'g> {
    let g = x.graph();
    let svd = g.op("Svd").input(x).attr("compute_uv", true);
    let svd = svd.attr("full_matrices", false).build();
    let [singular, u, v] = [0, 1, 2].map(|i| svd.output(i));
    let least = singular.reduce_max(&[0], false) * g.constant(tolerance);
    let used = singular.greater(least);
    let inverse = used.select(singular.reciprocal(), singular.zeros_like());
    let turned = u.matmul_t(y, true, false) * inverse.expand_dims(1);
    FactorSolution {
        singular,
        coefficients: v.matmul(turned),
    }
}

/// The residuals as combinations of all columns, `[1 + p + k, k]`: what their products are multiplied with. `means` has the
/// means of features and targets.
pub(super) struct Residuals<'g> {
    pub of_columns: Output<'g>,
    /// Intercepts of the shifted rows, `[1, k]`.
    pub intercepts: Output<'g>,
}

/// The residuals of coefficients `[p, k]`; `means` is `[1, p + k]`, of the shifted rows.
pub(super) fn residuals<'g>(
    coefficients: Output<'g>,
    means: Output<'g>,
    columns: Columns,
    intercept: bool,
) -> Residuals<'g> {
    let g = coefficients.graph();
    let p = columns.x as i64;
    let intercepts = match intercept {
        true => means.at((.., p..)) - means.at((.., ..p)).matmul(coefficients),
        false => zeros(g, &[1, columns.y]),
    };
    let rows = [-intercepts, -coefficients, diagonal(g, columns.y, 1.0)];
    Residuals {
        of_columns: g.concat(&rows, 0),
        intercepts,
    }
}

/// Squares of the residuals and of the targets less their means, `[2, k]`, from the products of all columns.
pub(super) fn squares_of_products<'g>(
    gram: Output<'g>,
    residuals: Output<'g>,
    columns: Columns,
) -> Output<'g> {
    let from = 1 + columns.x as i64;
    let left = (gram.matmul(residuals) * residuals).reduce_sum(&[0], false);
    let g = gram.graph();
    let products = g.op("DiagPart").input(centred(gram, true)).output();
    stacked(left, products.at(from - 1..))
}

/// As [`squares_of_products`], from the triangular factor of all columns.
pub(super) fn squares_of_factor<'g>(
    r: Output<'g>,
    residuals: Output<'g>,
    columns: Columns,
) -> Output<'g> {
    let from = 1 + columns.x as i64;
    let left = r.matmul(residuals).square().reduce_sum(&[0], false);
    stacked(left, r.at((1.., from..)).square().reduce_sum(&[0], false))
}

fn stacked<'g>(a: Output<'g>, b: Output<'g>) -> Output<'g> {
    a.graph().concat(&[a.expand_dims(0), b.expand_dims(0)], 0)
}

fn zeros<'g>(g: &'g Graph, dims: &[usize]) -> Output<'g> {
    let dims: Vec<i64> = dims.iter().map(|n| *n as i64).collect();
    g.constant(0.0f64).broadcast_to(dims)
}

fn diagonal<'g>(g: &'g Graph, n: usize, value: f64) -> Output<'g> {
    g.op("MatrixDiag")
        .input(g.constant(vec![value; n]))
        .output()
}

fn triangular<'g>(factor: Output<'g>, right: Output<'g>, adjoint: bool) -> Output<'g> {
    let g = factor.graph();
    let node = g.op("MatrixTriangularSolve").input(factor).input(right);
    node.attr("lower", true).attr("adjoint", adjoint).output()
}
