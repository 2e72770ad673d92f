//! The steps of a fit: passes over the rows, all-reduce, solution.

use thalweg_graph::{Graph, Operation, Output};
use thalweg_hvd::Hvd;
use thalweg_ops::{
    ALL_RANKS, ArrayOps, CollectiveOps, LinalgOps, NewGraph, ReduceOp, SourceOps, StateOps,
    StatisticsOps, Variable,
};
use thalweg_session::{Feeding, Session};
use thalweg_tensor::{DType, Tensor};

use super::model::{LinearModel, SolveReport};
use super::options::{LinearRegression, Solver};
use super::shift::shift;
use super::solve::{
    normal_equations, residuals, squares_of_factor, squares_of_products, triangular_equations,
};
use crate::error::StatsError;
use crate::passes::{Columns, over_blocks, session};
use crate::rows::RowBlocks;

/// Smallest eigenvalue of scaled normal equations, as a share of the largest, that leaves eight digits of the coefficients.
const MIN_EIGENVALUE: f64 = 1e-8;
/// The same where products are rounded to `f32`: it leaves five digits, near to those of the rows.
const MIN_NARROW_EIGENVALUE: f64 = 1e-2;

impl LinearRegression {
    /// Fits the rows of all ranks. Every rank gets the same model.
    ///
    /// # Errors
    /// No targets or no rows; a number that is NaN or infinite, with its row and column; ranks that have other columns;
    /// an error of a rank or of the source of rows.
    pub fn fit(&self, hvd: &Hvd, rows: &dyn RowBlocks) -> Result<LinearModel, StatsError> {
        if !(self.ridge >= 0.0 && self.ridge.is_finite()) {
            let text = format!(
                "the ridge penalty is {}: it is at least 0, and finite",
                self.ridge
            );
            return Err(StatsError::invalid(text));
        }
        let columns = Columns::agreed(hvd, rows)?;
        if columns.y == 0 {
            return Err(StatsError::invalid(
                "the rows have no targets: give them with Rows::targets",
            ));
        }
        fit(self, hvd, rows, columns)
    }
}

/// Fits the rows of all ranks.
fn fit(
    regression: &LinearRegression,
    hvd: &Hvd,
    rows: &dyn RowBlocks,
    columns: Columns,
) -> Result<LinearModel, StatsError> {
    let mut center = shift(hvd, rows, columns)?;
    if !regression.intercept {
        // Without an intercept, rows must not be moved.
        center.fill(0.0);
    }
    let narrow = rows.dtype() == DType::F32;
    let g = Graph::new();
    let pass = Pass::new(&g, rows.dtype(), columns, &center);
    let options_of_solution = (regression.intercept, regression.ridge);
    // Products of f32 rows are made in f32 first, in half the time; then in f64, where that loses digits.
    let precisions = [DType::F32, DType::F64].map(|products| {
        let made = narrow || products == DType::F64;
        made.then(|| Products::new(&g, &pass, columns, options_of_solution, products))
    });
    let factors = Factors::new(&g, &pass, columns, options_of_solution);
    let session = session(hvd, &g, regression.options.as_ref())?;
    session.run(g.initializers(), [])?;

    let mut reason = "it was asked for".to_owned();
    let asked_for_qr = regression.solver == Solver::Qr;
    for products in precisions.iter().flatten().filter(|_| !asked_for_qr) {
        pass.run(&session, rows, products.accumulate)?;
        let gram: Tensor = session.run(products.reduced, [])?;
        if products.dtype == DType::F32
            && !holds_in_f32(gram.as_slice::<f64>()?, regression.intercept)
        {
            continue;
        }
        check_weight(&gram)?;
        let ends: Vec<f64> =
            session.run(products.eigenvalues, [products.total.feed(gram.clone())])?;
        let share = ends[0] / ends[1];
        if share >= products.min_eigenvalue() {
            let report = SolveReport {
                solver: Solver::NormalEquations,
                reason: format!("the smallest eigenvalue is {share:.1e} of the largest"),
                condition: (ends[1] / ends[0]).sqrt(),
                rank: None,
                r2: Vec::new(),
            };
            return products.model(&session, gram, &center, columns, report);
        }
        reason = format!(
            "the smallest eigenvalue of the normal equations is {:.1e} of the largest, less than {MIN_EIGENVALUE:.0e}",
            share.max(0.0)
        );
    }
    if regression.solver == Solver::NormalEquations {
        return Err(StatsError::invalid(format!(
            "the columns are nearly dependent: {reason}: take Solver::Auto or Solver::Qr, or leave columns out"
        )));
    }
    pass.run(&session, rows, factors.accumulate)?;
    let r: Tensor = session.run(factors.reduced, [])?;
    check_weight(&r)?;
    factors.model(&session, r, &center, columns, reason)
}

/// Fails if no row counts: the first element of the products, or of their factor, has the sum of the weights.
fn check_weight(sums: &Tensor) -> Result<(), StatsError> {
    match sums.as_slice::<f64>()?.first() {
        Some(0.0) => Err(StatsError::invalid(
            "the weights of all rows are 0: give at least one row a weight",
        )),
        _ => Ok(()),
    }
}

/// `true` if products of all columns that were made in `f32` have the digits of the rows: none is too large or too small for
/// `f32`, and rows less their shift are about as large as rows less their mean.
fn holds_in_f32(gram: &[f64], intercept: bool) -> bool {
    const SQUARES: std::ops::Range<f64> = 1e-24..1e30;
    let width = gram.len().isqrt();
    let count = gram[0];
    (1..width).all(|i| {
        let (sum, squares) = (gram[i], gram[i * width + i]);
        let centred = match intercept {
            true => squares - sum * sum / count,
            false => squares,
        };
        SQUARES.contains(&(squares / count)) && centred > squares / 16.0
    })
}

/// A pass over the rows: what is fed.
struct Pass<'g> {
    x: Output<'g>,
    y: Output<'g>,
    weights: Output<'g>,
    shift: Output<'g>,
}

impl<'g> Pass<'g> {
    fn new(g: &'g Graph, dtype: DType, columns: Columns, shift: &[f64]) -> Pass<'g> {
        let rows = |name: &str, columns: usize| g.placeholder(name, dtype, [-1, columns as i64]);
        Pass {
            x: rows("x", columns.x),
            y: rows("y", columns.y),
            weights: g.placeholder("weights", dtype, [-1]),
            shift: g.constant(shift.to_vec()),
        }
    }

    fn run(
        &self,
        session: &Session<'g>,
        rows: &dyn RowBlocks,
        accumulate: Operation<'g>,
    ) -> Result<(), StatsError> {
        let mut call = session.callable(accumulate, [self.x, self.y, self.weights])?;
        over_blocks(rows, &mut |first_row, block| {
            let feeds = [block.x.clone(), block.y.clone(), block.weights.clone()];
            let called = call.call(&feeds).map(|_| ());
            called.map_err(|source| StatsError::Block { first_row, source })
        })
    }
}

/// A square matrix over all columns, which passes add to.
fn sums<'g>(g: &'g Graph, name: &str, columns: Columns) -> Variable<'g> {
    let n = 1 + columns.x + columns.y;
    let zeros = g.constant(0.0f64).broadcast_to([n as i64, n as i64]);
    g.variable(name, zeros)
}

/// Nodes of the normal equations.
struct Products<'g> {
    /// The dtype that products are made in.
    dtype: DType,
    accumulate: Operation<'g>,
    /// The products of all ranks.
    reduced: Output<'g>,
    /// The same, as it is fed to what follows.
    total: Output<'g>,
    eigenvalues: Output<'g>,
    results: [Output<'g>; 3],
}

impl<'g> Products<'g> {
    fn new(
        g: &'g Graph,
        pass: &Pass<'g>,
        columns: Columns,
        how: (bool, f64),
        dtype: DType,
    ) -> Products<'g> {
        let gram = sums(g, "products", columns);
        let own = pass.x.gram_matrix(pass.y, pass.weights, pass.shift, dtype);
        let reduced = gram.value().all_reduce(ReduceOp::Sum);
        let total = g.placeholder("total", DType::F64, gram.shape());
        let solution = normal_equations(total, columns, how);
        let means = total.at((0..1, 1..)) / total.at((0..1, 0..1));
        let left = residuals(solution.coefficients, means, columns, how.0);
        let squares = squares_of_products(total, left.of_columns, columns);
        Products {
            dtype,
            accumulate: gram.assign_add(own),
            reduced,
            total,
            eigenvalues: solution.eigenvalues,
            results: [solution.coefficients, left.intercepts, squares],
        }
    }

    /// The smallest eigenvalue that the equations may have.
    fn min_eigenvalue(&self) -> f64 {
        match self.dtype {
            DType::F32 => MIN_NARROW_EIGENVALUE,
            _ => MIN_EIGENVALUE,
        }
    }

    fn model(
        &self,
        session: &Session<'g>,
        gram: Tensor,
        shift: &[f64],
        columns: Columns,
        report: SolveReport,
    ) -> Result<LinearModel, StatsError> {
        let [coefficients, intercepts, squares] = self.results;
        let found: (Tensor, Tensor, Tensor) =
            session.run((coefficients, intercepts, squares), [self.total.feed(gram)])?;
        LinearModel::new([found.0, found.1, found.2], shift, columns, report)
    }
}

/// Nodes of the QR decomposition.
struct Factors<'g> {
    accumulate: Operation<'g>,
    reduced: Output<'g>,
    total: Output<'g>,
    /// Of scaled columns, and of columns as they are.
    solutions: [FactorNodes<'g>; 2],
    /// Singular values of at most this share of the largest are zeros.
    tolerance: f64,
}

/// Nodes of a solution: singular values, coefficients, intercepts, squares.
type FactorNodes<'g> = (Output<'g>, Output<'g>, Output<'g>, Output<'g>);

impl<'g> Factors<'g> {
    fn new(g: &'g Graph, pass: &Pass<'g>, columns: Columns, how: (bool, f64)) -> Factors<'g> {
        let r = sums(g, "factor", columns);
        let own = pass
            .x
            .triangular_factor(pass.y, pass.weights, pass.shift, r.value());
        let [_, reduced] = r.value().all_gather(ALL_RANKS).qr();
        let total = g.placeholder("factor_of_all", DType::F64, r.shape());
        let tolerance = columns.x as f64 * f64::EPSILON;
        let means = total.at((0..1, 1..)) / total.at((0..1, 0..1));
        let solutions = triangular_equations(total, columns, how, tolerance).map(|solution| {
            let left = residuals(solution.coefficients, means, columns, how.0);
            let squares = squares_of_factor(total, left.of_columns, columns);
            (
                solution.singular,
                solution.coefficients,
                left.intercepts,
                squares,
            )
        });
        Factors {
            accumulate: r.assign(own),
            reduced,
            total,
            solutions,
            tolerance,
        }
    }

    fn model(
        &self,
        session: &Session<'g>,
        r: Tensor,
        shift: &[f64],
        columns: Columns,
        reason: String,
    ) -> Result<LinearModel, StatsError> {
        let [scaled, as_they_are] = self.solutions;
        let mut found = self.solution(session, scaled, &r)?;
        if self.rank(&found.0) < columns.x {
            // Several solutions are as good: the shortest is that of the columns as they are.
            found = self.solution(session, as_they_are, &r)?;
        }
        let (singular, coefficients, intercepts, squares) = found;
        let largest = singular.iter().fold(0.0, |a: f64, b| a.max(*b));
        let rank = self.rank(&singular);
        let smallest = singular.get(rank.saturating_sub(1)).copied().unwrap_or(0.0);
        let report = SolveReport {
            solver: Solver::Qr,
            reason,
            condition: largest / smallest,
            rank: Some(rank),
            r2: Vec::new(),
        };
        LinearModel::new([coefficients, intercepts, squares], shift, columns, report)
    }

    fn solution(
        &self,
        session: &Session<'g>,
        nodes: FactorNodes<'g>,
        r: &Tensor,
    ) -> Result<(Vec<f64>, Tensor, Tensor, Tensor), StatsError> {
        Ok(session.run(nodes, [self.total.feed(r.clone())])?)
    }

    /// Number of singular values that are not zeros.
    fn rank(&self, singular: &[f64]) -> usize {
        let largest = singular.iter().fold(0.0, |a: f64, b| a.max(*b));
        singular
            .iter()
            .filter(|s| **s > largest * self.tolerance)
            .count()
    }
}
