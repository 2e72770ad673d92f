//! A linear model: the result of a regression.

use thalweg_graph::Graph;
use thalweg_ops::{ArrayOps, LinalgOps, NewGraph, SourceOps};
use thalweg_session::{Feeding, Session};
use thalweg_tensor::{DType, Tensor};

use super::options::Solver;
use crate::error::StatsError;
use crate::passes::Columns;

/// Coefficients of a linear regression.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearModel {
    /// Number of features, p.
    pub features: usize,
    /// Number of targets, k.
    pub targets: usize,
    /// The coefficients of each target, `[k, p]`.
    pub coefficients: Vec<f64>,
    /// The intercept of each target, `[k]`; zeros where the regression has none.
    pub intercepts: Vec<f64>,
    /// The way it was solved, and its quality.
    pub report: SolveReport,
}

/// The way a regression was solved.
#[derive(Clone, Debug, PartialEq)]
pub struct SolveReport {
    /// [`Solver::NormalEquations`] or [`Solver::Qr`].
    pub solver: Solver,
    /// The reason for the solver.
    pub reason: String,
    /// Condition of the features, with columns scaled to the same length. Where they depend on each other, it is that of the
    /// columns as they are, in the directions that are left.
    pub condition: f64,
    /// Number of independent columns, where QR found it.
    pub rank: Option<usize>,
    /// Share of the variance of each target that the model explains, `[k]`: 1 is all of it. A constant target has 1 where it
    /// is met, and 0 otherwise.
    pub r2: Vec<f64>,
}

impl LinearModel {
    /// The model of coefficients `[p, k]`, intercepts `[1, k]` and squares `[2, k]`, of rows that were shifted.
    pub(super) fn new(
        [coefficients, intercepts, squares]: [Tensor; 3],
        shift: &[f64],
        columns: Columns,
        report: SolveReport,
    ) -> Result<LinearModel, StatsError> {
        let found = coefficients.as_slice::<f64>()?;
        let (x_shift, y_shift) = shift.split_at(columns.x);
        let of_target = |t: usize| found.iter().skip(t).step_by(columns.y).copied();
        let moved = |(t, b): (usize, &f64)| {
            let at_shift: f64 = of_target(t).zip(x_shift).map(|(c, s)| c * s).sum();
            b + y_shift[t] - at_shift
        };
        let squares = squares.as_slice::<f64>()?;
        let (left, all) = squares.split_at(columns.y);
        let r2 = left.iter().zip(all).map(|(left, all)| match *all > 0.0 {
            true => 1.0 - left.max(0.0) / all,
            false => f64::from(*left <= 0.0),
        });
        Ok(LinearModel {
            features: columns.x,
            targets: columns.y,
            coefficients: (0..columns.y).flat_map(of_target).collect(),
            intercepts: intercepts
                .as_slice::<f64>()?
                .iter()
                .enumerate()
                .map(moved)
                .collect(),
            report: SolveReport {
                r2: r2.collect(),
                ..report
            },
        })
    }

    /// Targets of rows `[n, p]`: `[n, k]`, of the dtype of the rows.
    ///
    /// # Errors
    /// Rows of another number of columns, or of another dtype than `f32` and `f64`.
    ///
    /// ```
    /// use thalweg_hvd::Hvd;
    /// use thalweg_stats::{LinearRegression, Rows};
    /// use thalweg_tensor::Tensor;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let x = Tensor::from([[0.0f32], [1.0]]);
    /// let y = Tensor::from([[1.0f32], [3.0]]);
    /// let model = LinearRegression::new().fit(&Hvd::init()?, &Rows::new(x).targets(y))?;
    /// let y = model.predict(&Tensor::from([[5.0f32]]))?;
    /// assert!((y.as_slice::<f32>()?[0] - 11.0).abs() < 1e-5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn predict(&self, x: &Tensor) -> Result<Tensor, StatsError> {
        if x.dims().get(1..) != Some(&[self.features])
            || !matches!(x.dtype(), DType::F32 | DType::F64)
        {
            return Err(StatsError::invalid(format!(
                "rows of shape {} and dtype {} are given, to a model of {} features: give a matrix of f32 or f64",
                x.shape(),
                x.dtype(),
                self.features
            )));
        }
        let g = Graph::new();
        let rows = g.placeholder("x", x.dtype(), [-1, self.features as i64]);
        let coefficients = Tensor::new(&[self.targets, self.features], &self.coefficients)?;
        let coefficients = g.constant(coefficients).cast(x.dtype());
        let intercepts = g.constant(self.intercepts.clone()).cast(x.dtype());
        let y = rows.matmul_t(coefficients, false, true) + intercepts;
        Ok(Session::new(&g)?.run(y, [rows.feed(x.clone())])?)
    }
}
